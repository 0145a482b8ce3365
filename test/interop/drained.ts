// What a drain of topics brought, and what must hold of it: the rules of a queue, and equality with another drain of the same
// store, in which every stored field of every message counts.

import assert from 'node:assert/strict';
import type { Row } from './child.ts';
import type { JavaClient } from './clients.ts';
import { received } from './rows.ts';
import type { RunningBroker } from './system.ts';

/** All messages of some topics, by `topic:queueId:queueOffset`. */
export type Drained = Map<string, Row>;

/** Pulls everything of the topics with the Java client. */
export async function drain(java: JavaClient, broker: RunningBroker, topics: readonly string[]): Promise<Drained> {
  return drained(await java.run('drain', { namesrv: broker.namesrvAddr, topics: topics.join(',') }));
}

/** Orders the rows of a drain, and checks that each queue is whole: no gap, no repeat, its ends where the broker says. */
export function drained(rows: readonly Row[]): Drained {
  const result: Drained = new Map();
  for (const row of received(rows)) {
    assert.equal(
      row['unreadable'],
      undefined,
      `unreadable record at ${row['topic']}:${row['queueId']}:${row['queueOffset']}`,
    );
    const key = `${row['topic']}:${row['queueId']}:${row['queueOffset']}`;
    assert.ok(!result.has(key), `${key} came twice`);
    result.set(key, row);
  }
  let inQueues = 0;
  for (const row of rows) {
    if (row['queue'] === undefined) continue;
    const [min, max] = [Number(row['min']), Number(row['max'])];
    for (let offset = min; offset < max; offset++) {
      assert.ok(result.has(`${row['queue']}:${offset}`), `${row['queue']} lacks offset ${offset} of ${min} to ${max}`);
    }
    inQueues += max - min;
  }
  assert.equal(result.size, inQueues, 'messages outside of their queue');
  return result;
}

/** Every message of `before` is in `after`, equal in each field. */
export function assertContains(after: Drained, before: Drained, what: string): void {
  for (const [key, row] of before) {
    assert.deepEqual(comparable(after.get(key)), comparable(row), `${what}: ${key}`);
  }
}

/** The two drains are equal, message by message and field by field. */
export function assertSame(after: Drained, before: Drained, what: string): void {
  assertContains(after, before, what);
  const extra = [...after.keys()].filter((key) => !before.has(key));
  assert.deepEqual(extra, [], `${what}: messages that were not there before`);
}

/** Each acknowledged send lies where the acknowledgement said. */
export function assertAcknowledged(found: Drained, sends: readonly Row[]): void {
  assert.ok(sends.length > 0, 'nothing was acknowledged');
  for (const send of sends) {
    const key = `${send['topic']}:${send['queueId']}:${send['queueOffset']}`;
    const row = found.get(key);
    assert.ok(row !== undefined, `${key} was acknowledged and is missing`);
    assert.equal(row['uniqKey'], send['msgId'], `${key} holds another message`);
    assert.equal(row['offsetMsgId'], send['offsetMsgId'], `${key} lies elsewhere in the log`);
  }
}

/** No message is stored twice. */
export function assertUnique(found: Drained): void {
  const keys = [...found.values()].map((row) => String(row['uniqKey']));
  assert.equal(new Set(keys).size, keys.length, 'a message is stored twice');
}

/** The messages of one topic. */
export function ofTopic(found: Drained, topic: string): Row[] {
  return [...found.values()].filter((row) => row['topic'] === topic);
}

function comparable(row: Row | undefined): Row | undefined {
  if (row === undefined) return undefined;
  const { unit: _unit, ...rest } = row;
  return rest;
}
