// What a client tells each broker about itself: who it is, which groups it produces for, and what its consumer groups subscribe to.
// RocketMQ: HeartbeatData, as JSON.

import type { SubscriptionData } from './subscription.ts';

/** Whether messages are shared among the members of a group, or each gets all. */
export type MessageModel = 'CLUSTERING' | 'BROADCASTING';
/** Where a group begins that has no offset yet. */
export type ConsumeFromWhere = 'CONSUME_FROM_LAST_OFFSET' | 'CONSUME_FROM_FIRST_OFFSET' | 'CONSUME_FROM_TIMESTAMP';

/** One consumer group of a heartbeat. */
export interface ConsumerData {
  groupName: string;
  consumeType: 'CONSUME_ACTIVELY' | 'CONSUME_PASSIVELY';
  messageModel: MessageModel;
  consumeFromWhere: ConsumeFromWhere;
  unitMode: false;
  subscriptionDataSet: SubscriptionData[];
}

/** The body of a HEART_BEAT request. */
export function heartbeatBody(
  clientID: string,
  producerGroups: Iterable<string>,
  consumers: Iterable<ConsumerData>,
): Uint8Array {
  return Buffer.from(
    JSON.stringify({
      clientID,
      consumerDataSet: [...consumers],
      heartbeatFingerprint: 0,
      producerDataSet: Array.from(producerGroups, (groupName) => ({ groupName })),
      withoutSub: false,
    }),
    'utf8',
  );
}
