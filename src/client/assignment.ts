// Queues that a broker shares out instead of the members of a group, and whether they are to be pulled or popped from: QUERY_ASSIGNMENT
// (400). Somebody sets that for a topic and a group by SET_MESSAGE_REQUEST_MODE (mqadmin setConsumeMode). RocketMQ:
// MQClientInstance#queryAssignment.

import { type JsonValue, parseJson, RequestCode, toJsonBytes } from '../remoting/index.ts';
import { expectSuccess } from './client-errors.ts';
import type { ClientInstance } from './client-instance.ts';
import type { MessageModel } from './heartbeat.ts';
import { jsonField, jsonNumber } from './queue-json.ts';
import type { MessageQueue } from './queues.ts';
import { MASTER_ID } from './route.ts';

/** One queue of an assignment. To be popped from, it may be any of a broker: queue id -1. */
export interface QueueAssignment {
  queue: MessageQueue;
  mode: 'PULL' | 'POP';
}

/**
 * What this client is to read of a topic, by a random broker of it; undefined if the broker cannot say (yet).
 * @throws BrokerError, GantryError REMOTING_...
 */
export async function queryAssignment(
  client: ClientInstance,
  topic: string,
  group: string,
  messageModel: MessageModel,
): Promise<QueueAssignment[] | undefined> {
  const brokers = client.routes.get(topic)?.brokerDatas ?? [];
  if (brokers.length === 0) return undefined;
  const { brokerAddrs } = brokers[client.random.int(brokers.length)]!;
  const address = brokerAddrs[MASTER_ID] ?? Object.values(brokerAddrs)[0];
  if (address === undefined) return undefined;
  const body = { clientId: client.clientId, consumerGroup: group, messageModel, strategyName: 'AVG', topic };
  const response = await client.invokeBroker(address, RequestCode.QUERY_ASSIGNMENT, null, toJsonBytes(body));
  expectSuccess(`the assignment of ${topic} to ${group}`, address, response);
  if (response.body.length === 0) return undefined;
  const list = jsonField(parseJson(response.body), 'messageQueueAssignments');
  return Array.isArray(list) ? list.flatMap(assignmentOf) : undefined;
}

function assignmentOf(value: JsonValue): QueueAssignment[] {
  const queue = jsonField(value, 'messageQueue');
  if (queue === undefined || queue === null) return [];
  const topic = String(jsonField(queue, 'topic') ?? '');
  const brokerName = String(jsonField(queue, 'brokerName') ?? '');
  const queueId = jsonNumber(jsonField(queue, 'queueId'), 0);
  return [{ queue: { topic, brokerName, queueId }, mode: jsonField(value, 'mode') === 'POP' ? 'POP' : 'PULL' }];
}
