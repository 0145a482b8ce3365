// Whether a pop may be at all. Asked when it comes, and again each time that it is woken. RocketMQ: the checks of PopMessageProcessor.

import { MAX_POP_MESSAGES } from '../../message/index.ts';
import { ResponseCode } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import type { SubscriptionGroupConfig } from '../subscription/subscription-group-config.ts';
import { isReadable, type TopicConfig } from '../topic/topic-config.ts';

/** RocketMQ: how much later than its end a pop may come. */
const LATE_MS = 500;

export interface PopRefusal {
  readonly code: number;
  readonly remark: string;
}

/** What the checks look at. */
export interface PopToCheck {
  readonly group: string;
  readonly topic: string;
  readonly queueId: number;
  readonly maxMessages: number;
  readonly bornTime: number;
  readonly pollTimeMs: number;
  readonly channel: { readonly remoteAddress: string };
}

/** One object for all pops: what `refusalOf` found is valid until it is called again. */
export class PopChecks {
  readonly #context: BrokerContext;
  topic!: TopicConfig;
  group!: SubscriptionGroupConfig;

  constructor(context: BrokerContext) {
    this.#context = context;
  }

  /** In RocketMQ's order; undefined if the pop may be. */
  refusalOf(pop: PopToCheck): PopRefusal | undefined {
    const { clock, config, groups, topics } = this.#context;
    const { INVALID_PARAMETER, NO_PERMISSION, POLLING_TIMEOUT, SUBSCRIPTION_GROUP_NOT_EXIST } = ResponseCode;
    const broker = `the broker[${config.brokerIP1}] pop message`;
    const late = clock.now() - pop.bornTime - pop.pollTimeMs;
    if (late > LATE_MS) {
      const remark = `${broker} is timeout too much (${late} ms behind the end of its time)`;
      return { code: POLLING_TIMEOUT, remark };
    }
    if (!isReadable(config.brokerPermission)) {
      const remark = `${broker} is forbidden (brokerPermission is ${config.brokerPermission})`;
      return { code: NO_PERMISSION, remark };
    }
    if (pop.maxMessages > MAX_POP_MESSAGES) {
      return { code: INVALID_PARAMETER, remark: `${broker}'s num is greater than ${MAX_POP_MESSAGES}` };
    }
    if (!config.timerWheelEnable) {
      const remark = `${broker} is forbidden because timerWheelEnable is false`;
      return { code: ResponseCode.SYSTEM_ERROR, remark };
    }
    const topic = topics.select(pop.topic);
    if (topic === undefined) {
      return { code: ResponseCode.TOPIC_NOT_EXIST, remark: `topic[${pop.topic}] not exist, apply first please!` };
    }
    if (!isReadable(topic.perm)) {
      return { code: NO_PERMISSION, remark: `the topic[${pop.topic}] peeking message is forbidden` };
    }
    if (pop.queueId >= topic.readQueueNums) {
      return { code: INVALID_PARAMETER, remark: illegalQueue(pop.queueId, topic, pop.channel.remoteAddress) };
    }
    const group = groups.findOrCreate(pop.group);
    if (group === undefined) {
      const remark = `subscription group [${pop.group}] does not exist (autoCreateSubscriptionGroup is false; create it with mqadmin updateSubGroup)`;
      return { code: SUBSCRIPTION_GROUP_NOT_EXIST, remark };
    }
    if (!group.consumeEnable) {
      return { code: NO_PERMISSION, remark: `subscription group no permission, ${pop.group}` };
    }
    this.topic = topic;
    this.group = group;
    return undefined;
  }
}

export function illegalQueue(queueId: number, topic: TopicConfig, peer: string): string {
  return `queueId[${queueId}] is illegal, topic:[${topic.topicName}] topicConfig.readQueueNums:[${topic.readQueueNums}] consumer:[${peer}]`;
}
