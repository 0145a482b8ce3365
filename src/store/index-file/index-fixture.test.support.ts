// What the tests of this folder share: an index on any disk, messages to put into it, and a look at its files.

import { CollectingLogger, FakeClock, viewOf, writeI64 } from '../../common/index.ts';
import { type FileSystem, readWhole } from '../../io/index.ts';
import { type IndexLayout, type IndexOptions, IndexService, type IndexType, keyHash, topicSeeds } from './index.ts';

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
