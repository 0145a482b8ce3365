// What the parts of revive share: what they work on, and what they have done.

import { type Clock, type Logger, SeldomWarning } from '../../../common/index.ts';
import type { PopCheckPoint } from '../../../message/index.ts';
import type { MessageStore } from '../../../store/index.ts';
import type { BrokerConfig } from '../../broker-config.ts';
import type { ConsumerOffsetManager } from '../../offset/consumer-offset-manager.ts';
import type { SubscriptionGroupManager } from '../../subscription/subscription-group-manager.ts';
import type { TimerMessageService } from '../../timer/timer-message-service.ts';
import type { TopicConfigManager } from '../../topic/topic-config-manager.ts';
import type { RevivePut } from '../revive-put.ts';
import { EarlierCopies } from './earlier-copies.ts';

/** So many that cannot be revived are named one by one. */
const MOST_TOLD = 1000;

export interface ReviveParts {
  readonly config: BrokerConfig;
  readonly store: MessageStore;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly offsets: ConsumerOffsetManager;
  readonly topics: TopicConfigManager;
  readonly groups: SubscriptionGroupManager;
  readonly timer: TimerMessageService;
  readonly storeHost: Uint8Array;
  readonly checkPoints: RevivePut;
}

/** RocketMQ: the counters of PopMetricsManager. */
export class ReviveCounts {
  checkPoints = 0;
  acks = 0;
  /** Pops of which nothing but acknowledgements came: they were over, or never were. */
  strays = 0;
  /** Messages that were stored in a retry topic. */
  revived = 0;
  /** Messages that an earlier life of the broker had stored there already. */
  done = 0;
  /** Messages that were not there any more. */
  gone = 0;
  /** Check points of deleted topics and groups, and of an earlier life of a topic. */
  dropped = 0;
  /** Check points that were stored again, for later. */
  rePut = 0;
  /** Records that make no sense, or cannot be read. */
  setAside = 0;
}

export class ReviveState {
  readonly parts: ReviveParts;
  readonly topic: string;
  readonly counts: ReviveCounts = new ReviveCounts();
  readonly seldom: SeldomWarning;
  earlier: EarlierCopies;
  running = false;
  /** Told of each message that comes back, or is gone: it is under way no longer. */
  onLanded: (ck: PopCheckPoint) => void = () => {};
  #told = 0;

  constructor(parts: ReviveParts, topic: string) {
    this.parts = parts;
    this.topic = topic;
    this.earlier = new EarlierCopies(parts);
    this.seldom = new SeldomWarning(parts.clock, parts.logger);
  }

  /** One line about something that is given up; those after the first thousand are only counted. */
  tell(text: string): void {
    if (++this.#told <= MOST_TOLD) this.parts.logger.warn(`revive: ${text}`);
    else if (this.#told === MOST_TOLD + 1) this.parts.logger.warn('revive: more of this is counted and not told');
  }
}
