// What the tests of this folder share: an index on any disk, messages to put into it, and a look at its files.

import assert from 'node:assert/strict';
import { CollectingLogger, FakeClock, viewOf, writeI64 } from '../../common/index.ts';
import { type FileSystem, MemoryFileSystem, readWhole } from '../../io/index.ts';
import { IndexLayout, type IndexOptions, IndexService, type IndexType, keyHash, topicSeeds } from './index.ts';

export const ROOT = '/store';
export const T0 = 1_700_000_000_000;

export interface Bench {
  fs: FileSystem;
  clock: FakeClock;
  logger: CollectingLogger;
  layout: IndexLayout;
  root: string;
  sealed: number[];
}

export function bench(fs: FileSystem, layout: IndexLayout, root: string = ROOT): Bench {
  return { fs, clock: new FakeClock(), logger: new CollectingLogger(), layout, root, sealed: [] };
}

export function open(bench: Bench, options: Partial<IndexOptions> = {}): IndexService {
  return IndexService.open({
    fs: bench.fs,
    clock: bench.clock,
    logger: bench.logger,
    path: `${bench.root}/index`,
    layout: bench.layout,
    lastExitClean: true,
    indexMsgTimestamp: bench.sealed.at(-1) ?? 0,
    onSealed: (time) => bench.sealed.push(time),
    onUnsealed: (time, done) => {
      bench.sealed.push(time);
      done(undefined);
    },
    ...options,
  });
}

/** Puts one message with its keys; false if the index has it already. */
export function put(index: IndexService, topic: string, keys: string[], offset: number, time: number): boolean {
  if (!index.beginMessage(offset)) return false;
  const seeds = topicSeeds(topic);
  for (const key of keys) {
    const bytes = Buffer.from(key, 'utf8');
    index.putKey(keyHash(seeds.key, bytes, 0, bytes.length), offset, time);
  }
  return true;
}

export async function find(
  index: IndexService,
  topic: string,
  key: string,
  begin = 0,
  end: number = Number.MAX_SAFE_INTEGER,
  type: IndexType = 'K',
): Promise<number[]> {
  const offsets: number[] = [];
  for await (const unit of index.candidates(topic, key, begin, end, type)) offsets.push(unit.physicalOffset);
  return offsets;
}

export function flushed(index: IndexService): Promise<void> {
  return new Promise((resolve, reject) => index.flush((error) => (error === undefined ? resolve() : reject(error))));
}

export function names(bench: Bench): string[] {
  return bench.fs.list(`${bench.root}/index`).sort();
}

/** Bytes of the n-th index file. */
export function bytesOf(bench: Bench, n = 0): Buffer {
  return Buffer.from(readWhole(bench.fs, `${bench.root}/index/${names(bench)[n]}`)!);
}

/** Overwrites bytes of the n-th index file. */
export function damage(bench: Bench, n: number, position: number, bytes: Uint8Array): void {
  const file = bench.fs.open(`${bench.root}/index/${names(bench)[n]}`, 'write');
  file.writeSync(bytes, 0, bytes.length, position);
  file.close();
}

export function i32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  viewOf(bytes).setInt32(0, value);
  return bytes;
}

export function i64(value: number): Uint8Array {
  const bytes = new Uint8Array(8);
  writeI64(viewOf(bytes), 0, value);
  return bytes;
}

/** The topic of these tests. */
export const T = 'T';
/** Bytes of a message. */
export const SIZE = 100;

export interface Disk extends Bench {
  fs: MemoryFileSystem;
}

export function memory(slots: number, units: number): Disk {
  const fs = new MemoryFileSystem({ directories: [ROOT] });
  return { ...bench(fs, new IndexLayout(slots, units)), fs };
}

/** Messages 0, 1, 2 ... lie at 0, 100, 200 ...; each has a key of its own and two that it shares. */
export function keysOf(message: number): string[] {
  return [`key-${message}`, `mod-${message % 5}`, 'all'];
}

export function putMessages(index: IndexService, from: number, to: number): void {
  for (let i = from; i < to; i++) put(index, T, keysOf(i), i * SIZE, T0 + i * 250);
}

export function dispatchAgain(index: IndexService, to: number): void {
  putMessages(index, Math.ceil(index.durableOffset / SIZE), to);
}

/** Each key finds its message, once. */
export async function assertComplete(index: IndexService, messages: number, note = ''): Promise<void> {
  assert.deepEqual(await find(index, T, 'all'), Array.from({ length: messages }, (_, i) => i * SIZE).reverse(), note);
  for (const i of [0, 1, Math.floor(messages / 2), messages - 1]) {
    if (i >= 0 && i < messages) assert.deepEqual(await find(index, T, `key-${i}`), [i * SIZE], note);
  }
}

export const storeTimeOf = (offset: number): number => T0 + (offset / SIZE) * 250;

/** Where `unit` of a file begins. */
export function unitAt(b: Bench, unit: number): number {
  return b.layout.unitPosition(unit);
}

/** Lets what is on its way to the disk arrive. */
export async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}
