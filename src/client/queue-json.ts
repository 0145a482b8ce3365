// Maps with queues as keys, which Java writes as raw objects: {{"brokerName":"b","queueId":0,"topic":"T"}:7}. Admin answers, offset
// resets and the local offset file have them.

import type { JsonValue } from '../remoting/index.ts';
import { parseJson } from '../remoting/index.ts';
import { type MessageQueue, plainQueue } from './queues.ts';

function asQueue(value: JsonValue): MessageQueue | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof Map) return undefined;
  const { topic, brokerName, queueId } = value;
  if (typeof topic !== 'string' || typeof brokerName !== 'string' || !Number.isInteger(Number(queueId)))
    return undefined;
  return { topic, brokerName, queueId: Number(queueId) };
}

function keyQueue(key: JsonValue): MessageQueue | undefined {
  if (typeof key !== 'string') return asQueue(key);
  // fastjson 1 accepted the key as a string that holds JSON, so peers of that age may write it.
  if (!key.startsWith('{')) return undefined;
  try {
    return asQueue(parseJson(key));
  } catch {
    return undefined;
  }
}

/** The entries of a queue-keyed map; entries with other keys are left out. Anything that is no map has no entries. */
export function queueEntries(value: JsonValue | undefined): Array<[MessageQueue, JsonValue]> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  const entries: Array<[MessageQueue, JsonValue]> = [];
  const pairs: Iterable<[JsonValue, JsonValue]> = value instanceof Map ? value : Object.entries(value);
  for (const [key, item] of pairs) {
    const queue = keyQueue(key);
    if (queue !== undefined) entries.push([queue, item]);
  }
  return entries;
}

/** A Map that `toJson` writes with raw queue keys. */
export function queueMap<T>(entries: Iterable<readonly [MessageQueue, T]>): Map<MessageQueue, T> {
  const map = new Map<MessageQueue, T>();
  for (const [queue, value] of entries) map.set(plainQueue(queue), value);
  return map;
}

/** A field of an object that came as JSON; undefined if it is no object or has no such field. */
export function jsonField(value: JsonValue, name: string): JsonValue | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof Map) return undefined;
  return value[name];
}

/** A JSON value as a number; `fallback` if it is none. */
export function jsonNumber(value: JsonValue | undefined, fallback = 0): number {
  const number =
    typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint' ? Number(value) : NaN;
  return Number.isFinite(number) ? number : fallback;
}
