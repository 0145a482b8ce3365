// Where a group begins in a queue: at its saved offset, or by its rule if there is none. RocketMQ: RebalancePushImpl#computePullFromWhere.

import { GantryError } from '../common/index.ts';
import { type ExtFields, RequestCode } from '../remoting/index.ts';
import { expectSuccess } from './client-errors.ts';
import type { ClientInstance } from './client-instance.ts';
import type { ConsumeFromWhere } from './heartbeat.ts';
import type { OffsetStore } from './offset-store.ts';
import { type MessageQueue, queueText } from './queues.ts';
import { isRetryTopic } from './rebalancer.ts';

/** Which end to take when no message, or more than one, has exactly the time. */
export type Boundary = 'LOWER' | 'UPPER';

async function askOffset(client: ClientInstance, queue: MessageQueue, code: number, more: ExtFields): Promise<number> {
  const address = await client.masterAddress(queue);
  const header = { topic: queue.topic, queueId: queue.queueId, bname: queue.brokerName, ...more };
  const response = await client.invokeBroker(address, code, header);
  expectSuccess(`an offset of ${queueText(queue)}`, address, response);
  const offset = Number(response.ext['offset']);
  if (!Number.isFinite(offset)) throw new GantryError('HEADER', `no offset in the answer of ${address}`);
  return offset;
}

/** The next offset that a queue will give out. @throws BrokerError, GantryError NO_ROUTE and REMOTING_... */
export function maxOffset(client: ClientInstance, queue: MessageQueue): Promise<number> {
  return askOffset(client, queue, RequestCode.GET_MAX_OFFSET, {});
}

/** The first offset that a queue still holds. @throws as `maxOffset` */
export function minOffset(client: ClientInstance, queue: MessageQueue): Promise<number> {
  return askOffset(client, queue, RequestCode.GET_MIN_OFFSET, {});
}

/** The offset of the first message stored at `timestamp` or later. @throws as `maxOffset` */
export function offsetByTime(
  client: ClientInstance,
  queue: MessageQueue,
  timestamp: number,
  boundary: Boundary,
): Promise<number> {
  return askOffset(client, queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, { timestamp, boundaryType: boundary });
}

/** The saved offset, else by rule: last (the end), first (0, which a pull corrects), or by time. @throws when it cannot be known now */
export async function initialOffset(
  client: ClientInstance,
  offsets: OffsetStore,
  queue: MessageQueue,
  from: ConsumeFromWhere,
  timestamp: number,
): Promise<number> {
  const saved = await offsets.fetch(queue);
  if (saved !== undefined) return saved;
  switch (from) {
    case 'CONSUME_FROM_FIRST_OFFSET':
      return 0;
    case 'CONSUME_FROM_LAST_OFFSET':
      return isRetryTopic(queue.topic) ? 0 : maxOffset(client, queue);
    case 'CONSUME_FROM_TIMESTAMP':
      return isRetryTopic(queue.topic) ? maxOffset(client, queue) : offsetByTime(client, queue, timestamp, 'LOWER');
  }
}
