// What admin requests answer, read from the JSON bodies of brokers and name servers into plain types.

import type { JsonValue } from '../remoting/index.ts';
import { jsonField, jsonNumber, queueEntries } from './queue-json.ts';
import { compareQueues, type MessageQueue } from './queues.ts';
import { type BrokerData, parseBrokerData } from './route.ts';

/** The brokers of all clusters. */
export interface ClusterInfo {
  /** Broker name to addresses. */
  brokers: Record<string, BrokerData>;
  /** Cluster to broker names. */
  clusters: Record<string, string[]>;
}

/** State of one queue. */
export interface QueueStats {
  queue: MessageQueue;
  minOffset: number;
  /** Exclusive. */
  maxOffset: number;
  /** Store time of the last message; 0 if there is none. */
  lastUpdateTimestamp: number;
}

/** How far a group is in one queue. */
export interface QueueProgress {
  queue: MessageQueue;
  /** Offset that the next message will get. */
  brokerOffset: number;
  /** Saved offset: the next message to consume. */
  consumerOffset: number;
  pullOffset: number;
  /** Messages that are not consumed. */
  diff: number;
  /** Store time of the last consumed message; 0 if there is none. */
  lastTimestamp: number;
}

/** How far a group is. */
export interface ConsumerProgress {
  queues: QueueProgress[];
  consumeTps: number;
  /** Messages that are not consumed, of all queues. */
  diffTotal: number;
}

/** Who is in a group. */
export interface ConsumerConnection {
  connections: Array<{ clientId: string; clientAddr: string; language: string; version: number }>;
  consumeType: string;
  messageModel: string;
  consumeFromWhere: string;
  /** Topic to subscription expression. */
  subscriptions: Record<string, string>;
}

function entries(value: JsonValue | undefined): Array<[string, JsonValue]> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  return value instanceof Map ? [...value].map(([key, item]) => [String(key), item]) : Object.entries(value);
}

function text(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : '';
}

export function parseClusterInfo(json: JsonValue): ClusterInfo {
  const info: ClusterInfo = { brokers: {}, clusters: {} };
  for (const [name, data] of entries(jsonField(json, 'brokerAddrTable'))) info.brokers[name] = parseBrokerData(data);
  for (const [cluster, names] of entries(jsonField(json, 'clusterAddrTable'))) {
    info.clusters[cluster] = Array.isArray(names) ? names.map(String).sort() : [];
  }
  return info;
}

export function parseTopicStats(json: JsonValue): QueueStats[] {
  return queueEntries(jsonField(json, 'offsetTable'))
    .map(([queue, item]) => ({
      queue,
      minOffset: jsonNumber(jsonField(item, 'minOffset')),
      maxOffset: jsonNumber(jsonField(item, 'maxOffset')),
      lastUpdateTimestamp: jsonNumber(jsonField(item, 'lastUpdateTimestamp')),
    }))
    .sort((a, b) => compareQueues(a.queue, b.queue));
}

export function parseConsumerProgress(json: JsonValue): ConsumerProgress {
  const queues = queueEntries(jsonField(json, 'offsetTable')).map(([queue, item]) => {
    const brokerOffset = jsonNumber(jsonField(item, 'brokerOffset'));
    const consumerOffset = jsonNumber(jsonField(item, 'consumerOffset'));
    return {
      queue,
      brokerOffset,
      consumerOffset,
      pullOffset: jsonNumber(jsonField(item, 'pullOffset')),
      diff: brokerOffset - consumerOffset,
      lastTimestamp: jsonNumber(jsonField(item, 'lastTimestamp')),
    };
  });
  queues.sort((a, b) => compareQueues(a.queue, b.queue));
  const diffTotal = queues.reduce((sum, queue) => sum + queue.diff, 0);
  return { queues, consumeTps: jsonNumber(jsonField(json, 'consumeTps')), diffTotal };
}

export function parseConsumerConnection(json: JsonValue): ConsumerConnection {
  const set = jsonField(json, 'connectionSet');
  const table = entries(jsonField(json, 'subscriptionTable'));
  return {
    connections: (Array.isArray(set) ? set : []).map((item) => ({
      clientId: text(jsonField(item, 'clientId')),
      clientAddr: text(jsonField(item, 'clientAddr')),
      language: text(jsonField(item, 'language')),
      version: jsonNumber(jsonField(item, 'version')),
    })),
    consumeType: text(jsonField(json, 'consumeType')),
    messageModel: text(jsonField(json, 'messageModel')),
    consumeFromWhere: text(jsonField(json, 'consumeFromWhere')),
    subscriptions: Object.fromEntries(table.map(([topic, data]) => [topic, text(jsonField(data, 'subString'))])),
  };
}
