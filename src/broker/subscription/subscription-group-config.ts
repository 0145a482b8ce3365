// RocketMQ: SubscriptionGroupConfig. What a consumer group may do and how its failed messages come back. As with topics, an update
// puts a new object into the table.

import type { JsonObject } from '../../remoting/index.ts';
import { readBoolean, readInt32, readInteger, readList, readObject, readStringMap, readText } from '../json-fields.ts';
import type { PrettyBean } from '../pretty-json.ts';

/** A subscription that an administrator laid down for a group. */
export interface SimpleSubscription {
  readonly topic: string;
  readonly expressionType: string;
  readonly expression: string;
  readonly version: number;
}

/** How long a pop consumer's message stays away after each failure. */
export interface GroupRetryPolicy {
  /** EXPONENTIAL or CUSTOMIZED. */
  readonly type: string;
  readonly exponential?: { readonly initial: number; readonly max: number; readonly multiplier: number };
  /** Ms, one a failure. */
  readonly customizedNext?: readonly number[];
}

export interface SubscriptionGroupConfig {
  readonly groupName: string;
  readonly consumeEnable: boolean;
  readonly consumeFromMinEnable: boolean;
  readonly consumeBroadcastEnable: boolean;
  readonly consumeMessageOrderly: boolean;
  /** Queues of the group's retry topic; 0 or less: failed messages are dropped. */
  readonly retryQueueNums: number;
  /** Failures after which a message goes to the dead-letter topic. */
  readonly retryMaxTimes: number;
  readonly groupRetryPolicy: GroupRetryPolicy;
  readonly brokerId: number;
  readonly whichBrokerWhenConsumeSlowly: number;
  readonly notifyConsumerIdsChangedEnable: boolean;
  readonly groupSysFlag: number;
  /** Minutes. */
  readonly consumeTimeoutMinute: number;
  readonly subscriptionDataSet: readonly SimpleSubscription[] | undefined;
  readonly attributes: ReadonlyMap<string, string>;
}

/** A group with RocketMQ's defaults. */
export function defaultGroupConfig(groupName: string): SubscriptionGroupConfig {
  return {
    groupName,
    consumeEnable: true,
    consumeFromMinEnable: true,
    consumeBroadcastEnable: true,
    consumeMessageOrderly: false,
    retryQueueNums: 1,
    retryMaxTimes: 16,
    groupRetryPolicy: { type: 'CUSTOMIZED' },
    brokerId: 0,
    whichBrokerWhenConsumeSlowly: 1,
    notifyConsumerIdsChangedEnable: true,
    groupSysFlag: 0,
    consumeTimeoutMinute: 15,
    subscriptionDataSet: undefined,
    attributes: new Map(),
  };
}

/** A group as a JSON object, in files and in bodies. */
export function groupFields(group: SubscriptionGroupConfig): PrettyBean {
  const { exponential, customizedNext, type } = group.groupRetryPolicy;
  return {
    attributes: group.attributes,
    brokerId: group.brokerId,
    consumeBroadcastEnable: group.consumeBroadcastEnable,
    consumeEnable: group.consumeEnable,
    consumeFromMinEnable: group.consumeFromMinEnable,
    consumeMessageOrderly: group.consumeMessageOrderly,
    consumeTimeoutMinute: group.consumeTimeoutMinute,
    groupName: group.groupName,
    groupRetryPolicy: {
      customizedRetryPolicy: customizedNext === undefined ? undefined : { next: customizedNext },
      exponentialRetryPolicy: exponential === undefined ? undefined : { ...exponential },
      type,
    },
    groupSysFlag: group.groupSysFlag,
    notifyConsumerIdsChangedEnable: group.notifyConsumerIdsChangedEnable,
    retryMaxTimes: group.retryMaxTimes,
    retryQueueNums: group.retryQueueNums,
    subscriptionDataSet: group.subscriptionDataSet?.map((one) => ({ ...one })),
    whichBrokerWhenConsumeSlowly: group.whichBrokerWhenConsumeSlowly,
  };
}

/**
 * A group from a JSON object; missing fields take RocketMQ's defaults, a missing name takes `name`. Undefined for null.
 * @throws GantryError CONFIG_FILE if a field has the wrong kind
 */
export function readGroupConfig(value: unknown, name: string): SubscriptionGroupConfig | undefined {
  const json = readObject({ [name]: value } as JsonObject, name);
  if (json === undefined) return undefined;
  const d = defaultGroupConfig(readText(json, 'groupName') ?? name);
  return {
    groupName: d.groupName,
    consumeEnable: readBoolean(json, 'consumeEnable') ?? d.consumeEnable,
    consumeFromMinEnable: readBoolean(json, 'consumeFromMinEnable') ?? d.consumeFromMinEnable,
    consumeBroadcastEnable: readBoolean(json, 'consumeBroadcastEnable') ?? d.consumeBroadcastEnable,
    consumeMessageOrderly: readBoolean(json, 'consumeMessageOrderly') ?? d.consumeMessageOrderly,
    retryQueueNums: readInt32(json, 'retryQueueNums') ?? d.retryQueueNums,
    retryMaxTimes: readInt32(json, 'retryMaxTimes') ?? d.retryMaxTimes,
    groupRetryPolicy: readRetryPolicy(readObject(json, 'groupRetryPolicy')) ?? d.groupRetryPolicy,
    brokerId: readInteger(json, 'brokerId') ?? d.brokerId,
    whichBrokerWhenConsumeSlowly: readInteger(json, 'whichBrokerWhenConsumeSlowly') ?? d.whichBrokerWhenConsumeSlowly,
    notifyConsumerIdsChangedEnable:
      readBoolean(json, 'notifyConsumerIdsChangedEnable') ?? d.notifyConsumerIdsChangedEnable,
    groupSysFlag: readInt32(json, 'groupSysFlag') ?? d.groupSysFlag,
    consumeTimeoutMinute: readInt32(json, 'consumeTimeoutMinute') ?? d.consumeTimeoutMinute,
    subscriptionDataSet: readList(json, 'subscriptionDataSet')?.map(readSimpleSubscription),
    attributes: readStringMap(json, 'attributes'),
  };
}

function readRetryPolicy(json: JsonObject | undefined): GroupRetryPolicy | undefined {
  if (json === undefined) return undefined;
  const exponential = readObject(json, 'exponentialRetryPolicy');
  const customized = readObject(json, 'customizedRetryPolicy');
  const next = customized === undefined ? undefined : readList(customized, 'next');
  return {
    type: readText(json, 'type') ?? 'CUSTOMIZED',
    ...(exponential === undefined
      ? {}
      : {
          exponential: {
            initial: readInteger(exponential, 'initial') ?? 5000,
            max: readInteger(exponential, 'max') ?? 7_200_000,
            multiplier: readInteger(exponential, 'multiplier') ?? 2,
          },
        }),
    ...(next === undefined ? {} : { customizedNext: next.map(Number) }),
  };
}

function readSimpleSubscription(value: unknown): SimpleSubscription {
  const json = readObject({ subscription: value } as JsonObject, 'subscription') ?? {};
  return {
    topic: readText(json, 'topic') ?? '',
    expressionType: readText(json, 'expressionType') ?? 'TAG',
    expression: readText(json, 'expression') ?? '*',
    version: readInteger(json, 'version') ?? 0,
  };
}
