// Dead letters are sent again: each as it is, with its id, keys, tags and own properties, its tries counted from 0. By default only the
// group that gave them up gets them, through its retry topic. How far this came is kept at the broker, so that the next time goes on.
// RocketMQ has no such command; its dashboard hands dead letters to one consumer.

import { GantryError } from '../common/index.ts';
import { PropertyName } from '../message/index.ts';
import { ClientInstance } from './client-instance.ts';
import type { ClientOptions } from './client-options.ts';
import type { EncodedMessage } from './message-encoder.ts';
import type { ReceivedMessage, SendResult } from './message-types.ts';
import { PullConsumer } from './pull-consumer.ts';
import { type MessageQueue, queueKey } from './queues.ts';
import { copyOf, INNER_PRODUCER_GROUP, retryTopic } from './send-back.ts';
import { SendKernel } from './send-kernel.ts';
import { checkGroup, checkTopic } from './validators.ts';

/** Settings of `replayDeadLetters`. */
export interface ReplayOptions extends ClientOptions {
  /** The consumer group that gave the messages up. */
  group: string;
  /** Send them there, for all its groups to see. Default: the group's retry topic. Needed for a group that consumes in order. */
  topic?: string;
  /** At most so many. Default: all that are there at the start. */
  count?: number;
  /** Told of each message that is stored again. */
  onSent?: (message: ReceivedMessage, result: SendResult) => void;
}

/** What only says how a message came to where it was. */
const OF_ITS_WAY = [
  PropertyName.DELAY,
  PropertyName.REAL_TOPIC,
  PropertyName.REAL_QID,
  PropertyName.RECONSUME_TIME,
  PropertyName.MAX_RECONSUME_TIMES,
  PropertyName.TRAN_MSG,
  PropertyName.WAIT,
  PropertyName.CONSUME_START_TIME,
  PropertyName.MIN_OFFSET,
  PropertyName.MAX_OFFSET,
];
const POLL_MS = 3000;

/** The dead-letter topic of a group. */
export function deadLetterTopic(group: string): string {
  return `%DLQ%${group}`;
}

/**
 * Sends the dead letters of a group again, the oldest first, and answers how many were. They stay where they are, but are not sent a
 * second time; what fails is sent again by the next call.
 *
 * @example
 * const count = await replayDeadLetters({ namesrvAddr: '127.0.0.1:9876', group: 'GID_orders' });
 * @throws GantryError CONFIG_VALUE, NO_ROUTE, CLIENT_STATE (the group's broker put them back at once, since the
 * group consumes in order: `topic` is needed), REMOTING_...; BrokerError
 */
export async function replayDeadLetters(options: ReplayOptions): Promise<number> {
  const { group } = options;
  checkGroup(group);
  const target = options.topic ?? retryTopic(group);
  checkTopic(target);
  const client = new ClientInstance(options);
  const kernel = new SendKernel(client, { group: INNER_PRODUCER_GROUP });
  const reader = `gantry-replay-${group}`;
  const consumer = new PullConsumer({
    ...options,
    group: reader,
    client,
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    autoCommit: false,
  });
  await consumer.start();
  try {
    const queues = await consumer.fetchMessageQueues(deadLetterTopic(group));
    const ends = new Map<string, number>();
    let there = 0;
    for (const queue of queues) {
      const end = await consumer.maxOffset(queue);
      const from = Math.max((await consumer.committed(queue)) ?? 0, await consumer.minOffset(queue));
      ends.set(queueKey(queue), end);
      there += Math.max(0, end - from);
    }
    const wanted = Math.min(options.count ?? there, there);
    let sent = 0;
    if (wanted > 0) await consumer.assign(queues);
    while (sent < wanted) {
      const [message] = await consumer.poll(POLL_MS, 1);
      if (message === undefined) break;
      // Dead letters that came since are for the next time.
      if (message.queueOffset >= ends.get(queueKey(message.queue))!) continue;
      const result = await kernel.send(again(message, target));
      sent++;
      options.onSent?.(message, result);
      if (sent % 100 === 0) await consumer.commit();
    }
    await consumer.commit();
    if (sent > 0 && target === retryTopic(group)) await checkNoneCameBack(consumer, queues, ends, sent);
    return sent;
  } finally {
    await consumer.close();
  }
}

function again(message: ReceivedMessage, topic: string): EncodedMessage {
  const properties = new Map(message.properties);
  for (const name of OF_ITS_WAY) properties.delete(name);
  if (!topic.startsWith('%RETRY%')) properties.delete(PropertyName.RETRY_TOPIC);
  return copyOf(message, topic, properties);
}

/** A broker makes a dead letter at once of what is sent to the retry topic of a group that holds locks. */
async function checkNoneCameBack(
  consumer: PullConsumer,
  queues: readonly MessageQueue[],
  ends: ReadonlyMap<string, number>,
  sent: number,
): Promise<void> {
  let more = 0;
  for (const queue of queues) {
    more += (await consumer.maxOffset(queue)) - ends.get(queueKey(queue))!;
  }
  if (more < sent) return;
  throw new GantryError(
    'CLIENT_STATE',
    `${more} dead letters came since ${sent} were sent to the retry topic: a group that consumes in order gets none by way of it; send them to their topic`,
  );
}
