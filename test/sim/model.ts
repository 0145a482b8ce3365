// What must be true of the store, kept by the simulation beside it: every message that was appended, in log order, how far the
// log is promised to survive, and what was cut for ever.

import assert from 'node:assert/strict';
import { javaStringHash } from '../../src/common/index.ts';
import { parseProperties } from '../../src/message/index.ts';
import type { LogContent, LogRecord } from './store-files.ts';

/** Property text of a record that stands for a lost one. */
const LOST_MARK = 'gantryLost\u00011';

/** One appended message. */
export interface Entry {
  id: number;
  topic: string;
  queueId: number;
  queueOffset: number;
  position: number;
  size: number;
  flag: number;
  bornTimestamp: number;
  storeTimestamp: number;
  body: Buffer;
  properties: string;
  uniqueKey: string;
  keys: string[];
  tags: string;
  /** It was sent while property CRCs were on: the block of 20 bytes follows its properties. */
  propertyCrc: boolean;
  /** Its properties were torn while nothing was promised of it: the index may still hold the keys that it had. */
  torn?: true;
}

/** Signed Java hash of the tags; 0 without. */
export function tagsCode(entry: Entry): number {
  return javaStringHash(entry.tags);
}

/** The index key hashes that a message leaves, in order. */
export function indexHashes(entry: Entry): number[] {
  const texts: string[] = [];
  if (entry.uniqueKey !== '') texts.push(`${entry.topic}#${entry.uniqueKey}`);
  for (const key of entry.keys) texts.push(`${entry.topic}#${key}`);
  if (entry.tags !== '') texts.push(`${entry.topic}#T#${entry.tags}`);
  return texts.map((text) => {
    const hash = javaStringHash(text);
    return hash === -2147483648 ? 0 : Math.abs(hash);
  });
}

/**
 * A message that no one was promised came back with a torn topic, sound records behind it. It is set aside (a test of its own shows that),
 * and its queue has a gap: what else must hold of this history is not told.
 */
export class TornTopic extends Error {}

export class Model {
  readonly fileSize: number;
  /** In log order; those before `start` may be gone. */
  log: Entry[] = [];
  /** Where the log begins: all before may have been removed as old, and may be there again after a start. */
  start = 0;
  /** Everything below is promised to survive the loss of the process. */
  writtenTo = 0;
  /** Everything below is promised to survive the loss of power. */
  durableTo = 0;
  /** Messages that a recovery has dropped, or the store has given up. */
  cut = 0;
  /** Where the next record goes, unless the file has no room: the end of the last record, or of its file where a filler follows it. */
  end = 0;
  #queues = new Map<string, Entry[]>();
  /** Position from which a topic's messages are in its queues: where the log ended when it was deleted. */
  readonly #livesFrom = new Map<string, number>();
  /** A deletion that nobody was told the end of. */
  deleting: { readonly topics: readonly string[]; readonly end: number } | undefined;
  /** A cut of the log that nobody was told the end of: nothing from there on is promised. */
  #cutTo = Number.POSITIVE_INFINITY;

  constructor(fileSize: number) {
    this.fileSize = fileSize;
  }

  queue(topic: string, queueId: number): readonly Entry[] {
    return this.#queues.get(`${topic}/${queueId}`) ?? [];
  }

  queues(): Iterable<readonly [string, readonly Entry[]]> {
    return this.#queues;
  }

  /** Physical offset from which a topic's messages count. */
  livesFrom(topic: string): number {
    return this.#livesFrom.get(topic) ?? 0;
  }

  /** Someone may rely on everything below `durable` and, while the machine lives, below `written`. */
  promise(written: number, durable: number): void {
    this.writtenTo = Math.max(this.writtenTo, Math.min(written, this.#cutTo));
    this.durableTo = Math.max(this.durableTo, Math.min(durable, this.#cutTo));
  }

  /** The store is asked to cut its log at a record: until that is answered, nothing behind it is promised any more. */
  cutting(offset: number): void {
    this.#cutTo = offset;
    this.writtenTo = Math.min(this.writtenTo, offset);
    this.durableTo = Math.min(this.durableTo, offset);
  }

  /** A cut was begun, and it is not known how far it came. */
  get isBeingCut(): boolean {
    return this.#cutTo !== Number.POSITIVE_INFINITY;
  }

  /** The cut was refused, and nothing has changed. What was promised before is not asked for again. */
  cutRefused(): void {
    this.#cutTo = Number.POSITIVE_INFINITY;
  }

  /** The cut was answered with success: what lay behind it must not come back. */
  cutDone(): void {
    const offset = this.#cutTo;
    this.#cutTo = Number.POSITIVE_INFINITY;
    let kept = this.log.length;
    while (kept > 0 && this.log[kept - 1]!.position >= offset) kept--;
    this.#lowerLives(offset);
    this.#keep(kept);
    this.end = offset;
  }

  /** The entries that are in the log. */
  live(): readonly Entry[] {
    return this.start === 0 ? this.log : this.log.filter((entry) => entry.position >= this.start);
  }

  /** The first ordinal of a queue that can be read; its end if none can. */
  firstOf(queue: readonly Entry[]): number {
    const first = queue.findIndex((entry) => entry.position >= this.start);
    return first < 0 ? queue.length : first;
  }

  /** The store has removed old files: its log begins at `minimum` now. */
  removedTo(minimum: number): void {
    assert.ok(minimum >= this.start, `the log begins at ${minimum}, before ${this.start}`);
    assert.equal(minimum % this.fileSize, 0, 'a log begins with a file');
    assert.ok(minimum <= this.end, 'the file that is written to stays');
    this.start = minimum;
  }

  /** A put answered that it appended these, adjacent, as one unit. */
  appended(entries: readonly Entry[]): void {
    const first = entries[0]!;
    const bytes = entries.reduce((sum, entry) => sum + entry.size, 0);
    const left = this.fileSize - (this.end % this.fileSize);
    const expected = bytes + 8 <= left ? this.end : this.end + left;
    assert.equal(first.position, expected, `message ${first.id}: place in the log`);
    for (const entry of entries) {
      const key = `${entry.topic}/${entry.queueId}`;
      let queue = this.#queues.get(key);
      if (queue === undefined) {
        queue = [];
        this.#queues.set(key, queue);
      }
      assert.equal(
        entry.position,
        this.log.length === 0 || entry === first ? expected : this.end,
        'members are adjacent',
      );
      assert.equal(entry.queueOffset, queue.length, `message ${entry.id}: queue offset in ${key}`);
      queue.push(entry);
      this.log.push(entry);
      this.end = entry.position + entry.size;
    }
  }

  /** The deletion under way has been answered with success; if a topic held anything, the log is durable up to there. */
  deleted(): void {
    const { topics } = this.deleting!;
    // Since it began the log may have lost its end.
    const end = Math.min(this.deleting!.end, this.end);
    this.deleting = undefined;
    if (![...this.#queues.values()].some(([first]) => topics.includes(first!.topic))) return;
    for (const topic of topics) this.#livesFrom.set(topic, end);
    this.promise(end, end);
    this.#keep(this.log.length);
  }

  /** A start has decided on a deletion that nobody was told the end of: all of its topics lose all of their queues, or none any. */
  settleDeletion(maxOffset: (topic: string, queueId: number) => number): void {
    const { topics = [], end = 0 } = this.deleting ?? {};
    const doomed = [...this.#queues.values()].filter(
      ([first]) => topics.includes(first!.topic) && first!.position < end,
    );
    const gone = doomed.filter((queue) => {
      const { topic, queueId } = queue[0]!;
      return maxOffset(topic, queueId) === queue.filter((entry) => entry.position >= end).length;
    });
    assert.ok(gone.length === 0 || gone.length === doomed.length, 'a deletion is done whole or not at all');
    if (gone.length > 0) this.deleted();
    this.deleting = undefined;
  }

  /** The store has given up what it could not write: everything from `end` on was never stored and must not come back. */
  givenUp(end: number): void {
    let kept = this.log.length;
    while (kept > 0 && this.log[kept - 1]!.position >= end) kept--;
    const last = this.log[kept - 1];
    assert.ok(last === undefined || last.position + last.size <= end, `the log goes back to ${end}, into a record`);
    assert.ok(end >= this.writtenTo, `the log goes back to ${end}, ${this.writtenTo} was promised`);
    this.#keep(kept);
    this.end = end;
  }

  /**
   * A start has skipped the messages whose records began at `starts`: in their place stand records that are marked, and have their places in
   * the queues. Those that lay side by side may have been put in another order.
   */
  skipped(found: LogContent, starts: readonly number[]): void {
    const lost = new Set(starts);
    for (let i = 0; i < this.log.length; i++) {
      let j = i;
      while (j < this.log.length && lost.has(this.log[j]!.position)) j++;
      if (j === i) continue;
      const entries = this.log.slice(i, j);
      const [first, last] = [entries[0]!, entries.at(-1)!];
      const records = found.records.filter(
        ({ position }) => position >= first.position && position < last.position + last.size,
      );
      const place = (one: { topic: string; queueId: number; queueOffset: number }): string =>
        `${one.topic}/${one.queueId} at ${one.queueOffset}`;
      assert.deepEqual(
        records.map(place).sort(),
        entries.map(place).sort(),
        'each lost message has a record in its place',
      );
      for (const [n, record] of records.entries()) {
        const entry = entries.find((one) => place(one) === place(record))!;
        const hasRoom = record.size >= 91 + Buffer.byteLength(record.topic) + LOST_MARK.length;
        assert.equal(
          record.properties,
          hasRoom ? LOST_MARK : '',
          `the record in the place of message ${entry.id} is marked`,
        );
        const gone = { properties: record.properties, uniqueKey: '', keys: [], tags: '' };
        Object.assign(entry, record, gone);
        this.log[i + n] = entry;
      }
      assert.equal(
        entries.reduce((sum, { size }) => sum + size, 0),
        records.reduce((sum, { size }) => sum + size, 0),
        'nothing moves',
      );
      i = j;
    }
  }

  /** The log as a start has left it: a beginning of what was appended, at least as long as promised. `end` is what the store says. */
  recovered(found: LogContent, promisedTo: number, end: number): void {
    assert.ok(found.start <= this.start, `the log begins at ${found.start}, it was to keep all from ${this.start} on`);
    this.start = found.start;
    let before = 0;
    while (before < this.log.length && this.log[before]!.position < found.start) before++;
    for (let i = 0; i < found.records.length; i++) {
      const entry = this.log[before + i];
      const record = found.records[i]!;
      assert.ok(
        entry !== undefined,
        `a record lies at ${record.position} where nothing was appended or what was appended had been cut`,
      );
      // Of several torn records at the end only the last is seen to be torn, and cut.
      const mayBeTorn = entry.position >= promisedTo;
      if (mayBeTorn && record.topic.includes('\0')) throw new TornTopic(`message ${entry.id} has a torn topic`);
      if (mayBeTorn && record.properties.includes('\0')) acceptTear(entry, record.properties);
      sameMessage(entry, record);
    }
    this.#cutTo = Number.POSITIVE_INFINITY;
    this.#lowerLives(end);
    const kept = before + found.records.length;
    const lost = this.log[kept];
    if (lost !== undefined) {
      assert.ok(
        lost.position + lost.size > promisedTo,
        `message ${lost.id} at ${lost.position} (queue ${lost.topic}/${lost.queueId} offset ${lost.queueOffset}) was promised ` +
          `(up to ${promisedTo}) and is gone: ${found.reason}`,
      );
    }
    this.#keep(kept);
    this.end = end;
    this.writtenTo = this.end;
    this.durableTo = Math.min(this.durableTo, this.end);
  }

  #lowerLives(end: number): void {
    for (const [topic, from] of this.#livesFrom) if (from > end) this.#livesFrom.set(topic, end);
  }

  #keep(count: number): void {
    this.cut += this.log.length - count;
    this.log.length = count;
    this.#queues = new Map();
    for (const entry of this.log) {
      if (entry.position < (this.#livesFrom.get(entry.topic) ?? 0)) continue;
      const key = `${entry.topic}/${entry.queueId}`;
      const queue = this.#queues.get(key);
      if (queue === undefined) this.#queues.set(key, [entry]);
      else queue.push(entry);
    }
  }
}

/**
 * A message that no one was promised, torn in its properties and with another record behind it when the power went: no CRC of the format covers those bytes
 * (unless `enabledAppendPropCRC` is on), so it stays with what is left of them, as on Java.
 */
function acceptTear(entry: Entry, properties: string): void {
  const left = parseProperties(properties);
  entry.torn = true;
  entry.propertyCrc = false;
  entry.properties = properties;
  entry.uniqueKey = left.get('UNIQ_KEY') ?? '';
  entry.keys = (left.get('KEYS') ?? '').split(' ').filter((key) => key !== '');
  entry.tags = left.get('TAGS') ?? '';
}

/** @throws AssertionError when a record is not the message that was sent. */
export function sameMessage(entry: Entry, record: LogRecord): void {
  const where = `message ${entry.id} at ${entry.position}`;
  assert.equal(record.position, entry.position, `${where}: position`);
  assert.equal(record.size, entry.size, `${where}: size`);
  assert.equal(record.topic, entry.topic, `${where}: topic`);
  assert.equal(record.queueId, entry.queueId, `${where}: queue`);
  assert.equal(record.queueOffset, entry.queueOffset, `${where}: queue offset`);
  assert.equal(record.flag, entry.flag, `${where}: flag`);
  assert.equal(record.bornTimestamp, entry.bornTimestamp, `${where}: born time`);
  assert.equal(record.storeTimestamp, entry.storeTimestamp, `${where}: store time`);
  assert.ok(record.body.equals(entry.body), `${where}: body`);
  const properties = entry.propertyCrc ? withoutCrc(record.properties) : record.properties;
  assert.equal(properties, entry.properties, `${where}: properties`);
}

/** Properties without the block that `enabledAppendPropCRC` puts behind them, which must be there. */
function withoutCrc(properties: string): string {
  const block = properties.slice(-20);
  assert.match(block, /^__CRC32#.\d{10}.$/s, 'the property CRC');
  return properties.slice(0, -20);
}
