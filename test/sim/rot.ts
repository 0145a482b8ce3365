// Bits that flip on the medium while no process runs, below what was durable: which records, which bits, and what a start must make of
// them under each policy. Only bits that the format can tell: sizes, magics, CRCs, places, lengths and bodies.

import assert from 'node:assert/strict';
import type { Random } from '../../src/common/index.ts';
import { GantryError } from '../../src/common/index.ts';
import { type MemoryFileSystem, readWhole } from '../../src/io/index.ts';
import type { DamagedRecordPolicy } from '../../src/store/index.ts';
import { LOG_FILE_BYTES, ROOT } from './engine.ts';
import { readLog } from './store-files.ts';

const LOG = `${ROOT}/commitlog`;

/** One inverted bit of the log. */
interface Flip {
  offset: number;
  mask: number;
}

/** Records that were damaged. */
export interface Rot {
  readonly policy: DamagedRecordPolicy;
  /** Their starts, in log order. */
  readonly records: readonly number[];
  readonly flips: readonly Flip[];
}

/** Below this the store has said itself, on the disk, that all is durable: its own mark, if it belongs to the checkpoint. 0 without. */
export function durableMark(fs: MemoryFileSystem): number {
  const bytes = readWhole(fs, `${ROOT}/gantry/durable`);
  const page = readWhole(fs, `${ROOT}/checkpoint`);
  if (bytes === undefined || page === undefined) return 0;
  const checkpoint = Buffer.from(page);
  let best = { sequence: 0, flushed: 0 };
  for (const at of [0, 512]) {
    const text = Buffer.from(bytes.subarray(at + 9, at + 512)).toString('latin1');
    try {
      const slot = JSON.parse(text) as { sequence: number; flushed: number; checkpoint: number[] };
      const fits = slot.checkpoint.every((value, i) => BigInt(value) === checkpoint.readBigInt64BE(i * 8));
      if (fits && slot.sequence > best.sequence) best = slot;
    } catch {
      // Torn: the other slot counts.
    }
  }
  return best.flushed;
}

/**
 * Flips bits of one to three records below the mark, durably; undefined if there are none. A start looks for sure only at the last file, or,
 * with the derived files deleted (which this does now and then), at all.
 */
export function rot(
  random: Random,
  fs: MemoryFileSystem,
  policy: DamagedRecordPolicy,
  mayDelete: boolean,
): Rot | undefined {
  const mark = durableMark(fs);
  const { records: there } = readLog(fs, LOG);
  const last = there.at(-1);
  const durable = there.filter(({ position, size }) => position + size <= mark);
  const all = mayDelete && random.int(2) === 0;
  const scanned =
    all || last === undefined
      ? durable
      : durable.filter(({ position }) => position >= last.position - (last.position % LOG_FILE_BYTES));
  if (scanned.length === 0) return undefined;
  const flips: Flip[] = [];
  const records = new Set<number>();
  for (let n = 1 + random.int(3); n > 0; n--) {
    const at = random.int(scanned.length);
    const record = scanned[at]!;
    if (records.has(record.position)) continue;
    records.add(record.position);
    const body = { from: 88, bytes: record.body.length };
    // The last record of a queue is known by nothing but itself if the queues are gone: its fields must be legible.
    const isLast = !durable.some(
      (other) => other.position > record.position && other.topic === record.topic && other.queueId === record.queueId,
    );
    const parts = [
      body,
      { from: 8, bytes: 4 },
      { from: 0, bytes: 4 },
      { from: 4, bytes: 4 },
      { from: 28, bytes: 8 },
      { from: 84, bytes: 4 },
    ];
    const part = parts[random.int(isLast ? 2 : parts.length)]!;
    flips.push({ offset: record.position + part.from + random.int(part.bytes), mask: 1 << random.int(8) });
  }
  if (all) {
    fs.removeTree(`${ROOT}/consumequeue`);
    fs.removeTree(`${ROOT}/index`);
    fs.settle();
  }
  const made = { policy, records: [...records].sort((a, b) => a - b), flips };
  invert(fs, made);
  return made;
}

/** Flips the bits, or flips them back. */
export function invert(fs: MemoryFileSystem, { flips }: Rot): void {
  const byte = new Uint8Array(1);
  for (const { offset, mask } of flips) {
    const base = offset - (offset % LOG_FILE_BYTES);
    const file = fs.open(`${LOG}/${String(base).padStart(20, '0')}`, 'write');
    file.readSync(byte, 0, 1, offset - base);
    byte[0] = byte[0]! ^ mask;
    file.writeSync(byte, 0, 1, offset - base);
    file.syncSync();
    file.close();
  }
}

/** Path and content of every file but the index, which repairs itself when it is opened, and files that were just being made. */
export function contents(fs: MemoryFileSystem, folder: string = ROOT): Map<string, string> {
  const files = new Map<string, string>();
  for (const name of fs.list(folder)) {
    const path = `${folder}/${name}`;
    if (path === `${ROOT}/index`) continue;
    if (fs.stat(path)!.isDirectory) for (const [inner, bytes] of contents(fs, path)) files.set(inner, bytes);
    else if (fs.stat(path)!.size > 0) files.set(path, Buffer.from(readWhole(fs, path)!).toString('latin1'));
  }
  return files;
}

/** A refused start names the first damaged record. */
export function checkRefusal(error: unknown, { records }: Rot): void {
  if (!(error instanceof GantryError) || error.code !== 'STORE_DAMAGED') throw error;
  assert.ok(error.message.includes(`(offset ${records[0]}):`), `offset ${records[0]} in: ${error.message}`);
}
