// The settings of lite topics. RocketMQ: BrokerConfig.

export interface LiteSettings {
  /** Whether clients are given lite topics with news; otherwise each pop looks at all that its client subscribes to. */
  enableLiteEventMode: boolean;
  /** Ms between two looks for clients that do not fetch what they were given. */
  liteEventCheckInterval: number;
  /** Ms after which a client that could be given no more is given again, and a group with a wildcard. */
  liteEventFullDispatchDelayTime: number;
  liteEventFullDispatchDelayTimeForWildcardGroup: number;
  /** Most lite topics that one client is given before it fetches. */
  maxClientEventCount: number;
  /** Ms between two looks for expired lite topics, and the shortest life of one, which is also how long a start waits with the first look. */
  liteTtlCheckInterval: number;
  minLiteTTl: number;
  /** Ms between two looks for clients that did not renew their subscriptions, and the silence after which these end. */
  liteSubscriptionCheckInterval: number;
  liteSubscriptionCheckTimeoutMills: number;
  /** Most subscriptions to lite topics. */
  maxLiteSubscriptionCount: number;
  enableLitePopLog: boolean;
  /** Whether pops note which lite topics lag, and how many are kept for each group. */
  liteLagLatencyCollectEnable: boolean;
  liteLagLatencyTopK: number;
}

export function defaultLiteSettings(): LiteSettings {
  return {
    enableLiteEventMode: true,
    liteEventCheckInterval: 10_000,
    liteEventFullDispatchDelayTime: 10_000,
    liteEventFullDispatchDelayTimeForWildcardGroup: 10_000,
    maxClientEventCount: 100,
    liteTtlCheckInterval: 120_000,
    minLiteTTl: 900_000,
    liteSubscriptionCheckInterval: 120_000,
    liteSubscriptionCheckTimeoutMills: 180_000,
    maxLiteSubscriptionCount: 100_000,
    enableLitePopLog: false,
    liteLagLatencyCollectEnable: false,
    liteLagLatencyTopK: 50,
  };
}
