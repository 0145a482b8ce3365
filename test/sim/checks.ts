// What is asked of a store that has just been opened, that runs, and that was closed.

import assert from 'node:assert/strict';
import { type MemoryFileSystem, readWhole } from '../../src/io/index.ts';
import { GetMessageStatus, type MessageStore, type MessageStoreConfig } from '../../src/store/index.ts';
import { dispatched, drain, INDEX_SLOTS, openStore, pull, query, ROOT } from './engine.ts';
import { indexHashes, type Model, sameMessage, tagsCode } from './model.ts';
import { readConsumeQueue, readIndex, readLog, segmentNames } from './store-files.ts';
import type { World } from './world.ts';

const LOG = `${ROOT}/commitlog`;

/** Right after a start (`withRecords` false: no message is read, so that all caches stay empty): what the disk holds is what the model allows, and what the door says is what the disk holds. */
export async function checkStarted(
  world: World,
  store: MessageStore,
  model: Model,
  promisedTo: number,
  withRecords = true,
): Promise<void> {
  const found = readLog(world.fs, LOG);
  const last = found.records.at(-1);
  const end = last === undefined ? found.start : last.position + last.size;
  const { wrote } = store.watermarks;
  // An empty log may begin at any file.
  const empty = last === undefined && wrote % model.fileSize === 0;
  assert.ok(
    empty || wrote === end || wrote === found.end,
    `the log ends at ${end} (with a filler ${found.end}), the store says ${wrote}`,
  );
  model.recovered(found, promisedTo, wrote);
  checkCutIsDead(world.fs, wrote);
  await dispatched(world, store);
  model.settleDeletion((topic, queueId) => store.maxOffsetInQueue(topic, queueId));
  await checkQueues(world, store, model, withRecords);
  checkMarks(store);
}

/** Cut means dead: behind the log's end the files hold nothing but zeros. */
export function checkCutIsDead(fs: MemoryFileSystem, end: number): void {
  for (const name of segmentNames(fs, LOG)) {
    const bytes = readWhole(fs, `${LOG}/${name}`)!;
    for (let at = Math.max(0, end - Number(name)); at < bytes.length; at++) {
      assert.ok(bytes[at] === 0, `the log ends at ${end}, and byte ${at} of ${name} behind it is ${bytes[at]}`);
    }
  }
}

/** I4, and no queue that the model does not know. */
export function checkMarks(store: MessageStore): void {
  const { wrote, committed, flushed, confirmed, dispatched: reached } = store.watermarks;
  assert.ok(flushed <= committed && committed <= wrote, `flushed ${flushed}, committed ${committed}, wrote ${wrote}`);
  assert.ok(
    reached <= confirmed && confirmed <= wrote,
    `dispatched ${reached}, confirmed ${confirmed}, wrote ${wrote}`,
  );
}

/** While it runs: each queue begins with its first message that the log still has, as far as it is dispatched. */
export function checkMinimums(store: MessageStore, model: Model): void {
  for (const [key, entries] of model.queues()) {
    const { topic, queueId } = entries[0]!;
    const expected = Math.min(model.firstOf(entries), store.maxOffsetInQueue(topic, queueId));
    assert.equal(store.minOffsetInQueue(topic, queueId), expected, `minimum of ${key}`);
  }
}

/** Every queue through the door: each message once, in order, unchanged (rules of I1 and I2). Everything must be dispatched. */
export async function checkQueues(world: World, store: MessageStore, model: Model, withRecords = true): Promise<void> {
  for (const { topic, queueId } of store.queues()) {
    const expected = model.queue(topic, queueId).length;
    assert.equal(store.maxOffsetInQueue(topic, queueId), expected, `maximum of ${topic}/${queueId}`);
  }
  for (const [key, entries] of model.queues()) {
    const { topic, queueId } = entries[0]!;
    const first = model.firstOf(entries);
    assert.equal(store.minOffsetInQueue(topic, queueId), first, `minimum of ${key}`);
    assert.equal(store.maxOffsetInQueue(topic, queueId), entries.length, `maximum of ${key}`);
    assert.equal(store.maxOffsetInQueue(topic, queueId, false), entries.length, `next offset of ${key}`);
    if (!withRecords) continue;
    const records = await drain(world, store, topic, queueId);
    assert.equal(records.length, entries.length - first, `messages in ${key}`);
    for (let i = first; i < entries.length; i++) sameMessage(entries[i]!, records[i - first]!);
    if (first > 0) {
      const before = await pull(world, store, topic, queueId, world.random.int(first));
      assert.equal(before.status, GetMessageStatus.OFFSET_TOO_SMALL, `a pull before the beginning of ${key}`);
      assert.equal(before.nextBeginOffset, first, `a pull before the beginning of ${key} leads to it`);
    }
    const behind = await pull(world, store, topic, queueId, entries.length);
    assert.equal(behind.status, GetMessageStatus.OFFSET_OVERFLOW_ONE, `a pull at the end of ${key}`);
  }
}

/** The index through the door: a key gives its messages, each once, and nothing else. */
export async function checkKeys(world: World, store: MessageStore, model: Model): Promise<void> {
  const wanted = new Map<string, number[]>();
  const torn = new Set<number>();
  for (const entry of model.live()) {
    if (entry.torn) {
      torn.add(entry.position);
      continue;
    }
    for (const key of new Set([entry.uniqueKey, ...entry.keys])) {
      if (key === '') continue;
      const name = `${entry.topic}\n${key}`;
      const ids = wanted.get(name);
      if (ids === undefined) wanted.set(name, [entry.position]);
      else ids.push(entry.position);
    }
  }
  let budget = 40;
  for (const [name, positions] of wanted) {
    if (positions.length > 32 || (positions.length === 1 && world.random.int(4) > 0)) continue;
    if (budget-- === 0) break;
    const [topic, key] = name.split('\n') as [string, string];
    const found = (await query(world, store, topic, key))
      .map((record) => record.position)
      .filter((position) => !torn.has(position))
      .sort((a, b) => a - b);
    assert.deepEqual(found, positions, `messages with key ${key} of ${topic}`);
  }
}

/** After a clean stop: the derived files say exactly what the log says. `withIndex`: all of the index, too. */
export function checkClosedFiles(fs: MemoryFileSystem, model: Model, withIndex: boolean): void {
  assert.equal(fs.stat(`${ROOT}/abort`), undefined, 'abort is gone after a clean stop');
  const found = readLog(fs, LOG);
  assert.equal(found.records.length, model.live().length, 'records in the log');
  checkConsumeQueueFiles(fs, model);
  if (!withIndex) return;
  const live = model.live();
  const torn = new Set(live.filter((entry) => entry.torn).map((entry) => entry.position));
  const expected = live
    .filter((entry) => !entry.torn)
    .flatMap((entry) => indexHashes(entry).map((hash) => `${hash}@${entry.position}`));
  const actual = readIndex(fs, `${ROOT}/index`, INDEX_SLOTS)
    .filter(({ position }) => position >= model.start && !torn.has(position))
    .map(({ hash, position }) => `${hash}@${position}`);
  assert.deepEqual(actual, expected, 'entries of the index files');
}

function checkConsumeQueueFiles(fs: MemoryFileSystem, model: Model): void {
  for (const [key, entries] of model.queues()) {
    const units = readConsumeQueue(fs, `${ROOT}/consumequeue/${key}`);
    const first = model.firstOf(entries);
    // Units before the queue's beginning may be there still: expired ones, or fillers.
    const before = units.findIndex((unit) => unit.queueOffset >= first);
    for (const unit of before < 0 ? units : units.slice(0, before)) assert.ok(unit.position < Math.max(1, model.start));
    const readable = before < 0 ? [] : units.slice(before);
    assert.equal(readable.length, entries.length - first, `units of ${key}`);
    for (let i = 0; i < readable.length; i++) {
      const entry = entries[first + i]!;
      assert.deepEqual(
        readable[i],
        { queueOffset: first + i, position: entry.position, size: entry.size, tagsCode: tagsCode(entry) },
        `unit ${first + i} of ${key}`,
      );
    }
  }
  for (const topic of fs.list(`${ROOT}/consumequeue`)) {
    for (const queueId of fs.list(`${ROOT}/consumequeue/${topic}`)) {
      const folder = `${ROOT}/consumequeue/${topic}/${queueId}`;
      const last = readConsumeQueue(fs, folder).at(-1);
      // Of a queue whose messages are all gone as old a file without units may be left, which begins at its end.
      const end = last === undefined ? Number(fs.list(folder).sort()[0] ?? 0) / 20 : last.queueOffset + 1;
      assert.equal(end, model.queue(topic, Number(queueId)).length, `end of ${topic}/${queueId}`);
    }
  }
}

/** On a copy of a closed store without its derived files: a start rebuilds them, byte for byte. */
export async function checkRebuild(world: World, model: Model, config: MessageStoreConfig): Promise<void> {
  const copy = world.copyDisk();
  copy.removeTree(`${ROOT}/consumequeue`);
  copy.removeTree(`${ROOT}/index`);
  const store = await openStore(world, config, { fs: copy });
  await dispatched(world, store);
  await checkQueues(world, store, model);
  await checkKeys(world, store, model);
  await world.settle(store.close(), 'the rebuilt store closes');
  checkClosedFiles(copy, model, true);
  for (const [key, entries] of model.queues()) {
    // With no message left the file that ends at the queue's end is as right as the one that begins there.
    if (model.firstOf(entries) === entries.length) continue;
    const folder = `${ROOT}/consumequeue/${key}`;
    const names = segmentNames(world.fs, folder);
    const rebuilt = segmentNames(copy, folder);
    assert.deepEqual(rebuilt, names.slice(-rebuilt.length), `files of ${key}`);
    if (model.start === 0) assert.equal(rebuilt.length, names.length, `files of ${key}`);
  }
}
