// RocketMQ: MessageQueue, as it stands in bodies: a value in lists, and a key in maps (raw, see remoting's toJson).

import type { JsonObject } from '../../remoting/index.ts';
import { objects } from '../client/heartbeat-data.ts';
import type { MessageQueue } from '../client/rebalance-lock-manager.ts';
import { readInteger, readText } from '../json-fields.ts';

export function messageQueue(topic: string, brokerName: string, queueId: number): MessageQueue {
  return { brokerName, queueId, topic };
}

/** The queues of a list field that holds a set, each once; those without a name or number are passed over. */
export function readMessageQueues(json: JsonObject, field: string): MessageQueue[] {
  const queues = new Map<string, MessageQueue>();
  for (const one of objects(json, field)) {
    const topic = readText(one, 'topic');
    const queueId = readInteger(one, 'queueId');
    if (topic !== undefined && queueId !== undefined) {
      const queue = messageQueue(topic, readText(one, 'brokerName') ?? '', queueId);
      queues.set(`${queue.topic}@${queue.brokerName}@${queueId}`, queue);
    }
  }
  return [...queues.values()];
}
