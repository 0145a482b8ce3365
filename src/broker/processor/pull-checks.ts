// Whether a group may pull from a queue at all. Asked when a pull comes, and again when one that waited is woken: a group that was
// suspended meanwhile gets nothing more, whenever it asked. RocketMQ: the checks of PullMessageProcessor.

import { RequestCode, ResponseCode } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import type { SubscriptionGroupConfig } from '../subscription/subscription-group-config.ts';
import { isReadable, type TopicConfig } from '../topic/topic-config.ts';

/** RocketMQ: ForbiddenType. */
export const Forbidden = { BROKER: 1, GROUP: 2, TOPIC: 3, BROADCASTING: 4, SUBSCRIPTION: 5 } as const;

/** A pull that may not be. */
export interface PullRefusal {
  readonly code: number;
  readonly remark: string;
  readonly forbiddenType?: number;
}

/** One object for all pulls: what `refusalOf` found is valid until it is called again. */
export class PullChecks {
  readonly #context: BrokerContext;
  group!: SubscriptionGroupConfig;
  topic!: TopicConfig;

  constructor(context: BrokerContext) {
    this.#context = context;
  }

  /**
   * In RocketMQ's order; undefined if the pull may be, and then `group` and `topic` are those of the pull. `requestCode` is PULL_MESSAGE or
   * LITE_PULL_MESSAGE.
   */
  refusalOf(requestCode: number, group: string, topic: string, queueId: number, peer: string): PullRefusal | undefined {
    const { config, groups, topics } = this.#context;
    const { NO_PERMISSION, SUBSCRIPTION_GROUP_NOT_EXIST, TOPIC_NOT_EXIST, INVALID_PARAMETER } = ResponseCode;
    if (!isReadable(config.brokerPermission)) {
      return refusal(
        NO_PERMISSION,
        `the broker[${config.brokerIP1}] pulling message is forbidden (brokerPermission is ${config.brokerPermission})`,
        Forbidden.BROKER,
      );
    }
    if (requestCode === RequestCode.LITE_PULL_MESSAGE && !config.litePullMessageEnable) {
      return refusal(
        NO_PERMISSION,
        `the broker[${config.brokerIP1}] for lite pull consumer is forbidden`,
        Forbidden.BROKER,
      );
    }
    const groupConfig = groups.findOrCreate(group);
    if (groupConfig === undefined) {
      return refusal(
        SUBSCRIPTION_GROUP_NOT_EXIST,
        `subscription group [${group}] does not exist (autoCreateSubscriptionGroup is false; create it with mqadmin updateSubGroup)`,
      );
    }
    if (!groupConfig.consumeEnable) {
      return refusal(NO_PERMISSION, `subscription group no permission, ${group}`, Forbidden.GROUP);
    }
    const topicConfig = topics.select(topic);
    if (topicConfig === undefined) {
      return refusal(TOPIC_NOT_EXIST, `topic[${topic}] not exist, apply first please!`);
    }
    if (!isReadable(topicConfig.perm)) {
      return refusal(NO_PERMISSION, `the topic[${topic}] pulling message is forbidden`, Forbidden.TOPIC);
    }
    if (queueId < 0 || queueId >= topicConfig.readQueueNums) {
      return refusal(
        INVALID_PARAMETER,
        `queueId[${queueId}] is illegal, topic:[${topic}] topicConfig.readQueueNums:[${topicConfig.readQueueNums}] consumer:[${peer}]`,
      );
    }
    this.group = groupConfig;
    this.topic = topicConfig;
    return undefined;
  }
}

function refusal(code: number, remark: string, forbiddenType?: number): PullRefusal {
  return forbiddenType === undefined ? { code, remark } : { code, remark, forbiddenType };
}
