// From a message's keys to the hashes that the index stores. The text that is hashed is `topic#key` (UNIQ_KEY and each of KEYS) or
// `topic#T#tags`; nobody builds that text: the topic's part is hashed once per topic and continued over the key's bytes.

import { javaHashUtf8, javaStringHash } from '../../common/index.ts';

/** Which kind of key a query asks for. Files hold K and U in one form; only T differs. RocketMQ: MessageConst.INDEX_*_TYPE. */
export type IndexType = 'K' | 'U' | 'T';

/** The unfinished hashes of a topic, to be continued over key bytes. Keep one per topic. */
export interface TopicSeeds {
  /** Java hash of `topic#`. */
  readonly key: number;
  /** Java hash of `topic#T#`. */
  readonly tag: number;
}

export function topicSeeds(topic: string): TopicSeeds {
  return { key: javaStringHash(`${topic}#`), tag: javaStringHash(`${topic}#T#`) };
}

/** The stored form of a Java hash: its absolute value, and 0 for -2147483648, which has none. */
export function storedHash(hash: number): number {
  if (hash >= 0) return hash;
  return hash === -2147483648 ? 0 : -hash;
}

/** Stored hash of a key in `bytes[start, end)`, continued from a topic's seed. */
export function keyHash(seed: number, bytes: Uint8Array, start: number, end: number): number {
  return storedHash(javaHashUtf8(bytes, start, end, seed));
}

/** Stored hash that a query looks for. */
export function queryHash(topic: string, key: string, type: IndexType): number {
  return storedHash(javaStringHash(type === 'T' ? `${topic}#T#${key}` : `${topic}#${key}`));
}
