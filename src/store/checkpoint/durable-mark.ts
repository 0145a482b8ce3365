// How far the log is known to be durable, in a file of our own: `<root>/gantry/durable`. RocketMQ's checkpoint has a store time for it
// and no position, so that nobody can tell a record that rotted from one that was never whole. The mark belongs to one state of
// RocketMQ's checkpoint, whose six values it repeats: when another broker has written another one since, the mark is ignored.
//
//   slot 0 (512 bytes) | slot 1 (512 bytes)     each: crc32 of what follows, 8 hex digits | ' ' | JSON, padded with spaces | '\n'
//
// The slots are written in turn, each before the checkpoint that it belongs to, so that one of the two fits the checkpoint that a power
// cut leaves. A start that has cut the log below the mark lowers it first; a mark that is too low costs a verdict and nothing else.

import { type Clock, crc32, type GantryError } from '../../common/index.ts';
import { type Done, type FileHandle, type FileSystem, makeDirectoryDurably, readWhole } from '../../io/index.ts';

const SLOT_BYTES = 512;
const SLOTS = 2;

/** Which bytes of the log are durable. */
export interface Durable {
  /** Physical offset; everything below it was synced. */
  flushed: number;
  /** No record below `flushed` has a later store time (ms); one that has was written by another broker since. */
  newest: number;
}

interface Saved extends Durable {
  version: 1;
  /** Rises with every save. */
  sequence: number;
  /** The six values of the checkpoint that is written after this, in its order. */
  checkpoint: number[];
}

export class DurableMark {
  readonly #fs: FileSystem;
  readonly #clock: Clock;
  readonly #path: string;
  readonly #folder: string;
  #sequence: number;
  #file: FileHandle | undefined;
  #last: Durable;
  #known: (() => Durable) | undefined;
  /** No save claims more while the log is being cut to here. */
  #cap = Number.POSITIVE_INFINITY;

  private constructor(fs: FileSystem, clock: Clock, folder: string, sequence: number, last: Durable) {
    this.#fs = fs;
    this.#clock = clock;
    this.#folder = folder;
    this.#path = `${folder}/durable`;
    this.#sequence = sequence;
    this.#last = last;
  }

  /**
   * Reads the file; writes nothing. `found` is what it says if it belongs to a checkpoint of these values (undefined: there is no
   * checkpoint, the newest slot counts), else undefined.
   */
  static load(
    fs: FileSystem,
    clock: Clock,
    root: string,
    checkpoint: readonly number[] | undefined,
  ): { mark: DurableMark; found: Durable | undefined } {
    const folder = `${root}/gantry`;
    const bytes = readWhole(fs, `${folder}/durable`) ?? new Uint8Array(0);
    let newest: Saved | undefined;
    let found: Saved | undefined;
    for (let slot = 0; slot < SLOTS; slot++) {
      const saved = decode(bytes.subarray(slot * SLOT_BYTES, (slot + 1) * SLOT_BYTES));
      if (saved === undefined) continue;
      if (newest === undefined || saved.sequence > newest.sequence) newest = saved;
      const fits = checkpoint === undefined || belongs(saved.checkpoint, checkpoint);
      if (fits && (found === undefined || saved.sequence > found.sequence)) found = saved;
    }
    const last = { flushed: found?.flushed ?? 0, newest: found?.newest ?? 0 };
    const mark = new DurableMark(fs, clock, folder, newest?.sequence ?? 0, last);
    // Without a time nothing was known when it was saved; 0 bytes at a time are all that was durable.
    return { mark, found: last.newest === 0 ? undefined : { ...last } };
  }

  /** From now on saves say what `known` answers: the running log's position, and its newest store time. */
  follow(known: () => { flushed: number; newest: number }): void {
    this.#known = known;
  }

  /** Saves the mark for a checkpoint that is about to be written, off the loop. One at a time. */
  save(checkpoint: readonly number[], done: Done): void {
    const slot = this.#encode(checkpoint);
    let file: FileHandle;
    try {
      file = this.#open();
    } catch (error) {
      return done(error as GantryError);
    }
    file.write(slot, 0, SLOT_BYTES, this.#position(), (error) => {
      if (error !== undefined) return done(error);
      file.sync(done);
    });
  }

  /** As `save`, durable on return. @throws GantryError IO, DISK_FULL. */
  saveSync(checkpoint: readonly number[]): void {
    const slot = this.#encode(checkpoint);
    const file = this.#open();
    file.writeSync(slot, 0, SLOT_BYTES, this.#position());
    file.syncSync();
  }

  /** The log is going to be cut: from the next save on the mark is at most `offset`; `release` when it has been. */
  lower(offset: number): void {
    this.#cap = offset;
    this.#last.flushed = Math.min(this.#last.flushed, offset);
  }

  release(): void {
    this.#cap = Number.POSITIVE_INFINITY;
  }

  close(): void {
    this.#file?.close();
    this.#file = undefined;
  }

  #encode(checkpoint: readonly number[]): Uint8Array {
    if (this.#known !== undefined) {
      const { flushed, newest } = this.#known();
      this.#last = { flushed: Math.min(flushed, this.#cap), newest: Math.max(newest, this.#clock.now()) };
    }
    const saved: Saved = { version: 1, sequence: ++this.#sequence, ...this.#last, checkpoint: [...checkpoint] };
    const text = JSON.stringify(saved).padEnd(SLOT_BYTES - 10);
    const body = Buffer.from(`${text}\n`, 'latin1');
    return Buffer.concat([Buffer.from(`${sum(body)} `, 'latin1'), body]);
  }

  #position(): number {
    return (this.#sequence % SLOTS) * SLOT_BYTES;
  }

  #open(): FileHandle {
    if (this.#file !== undefined) return this.#file;
    const fresh = this.#fs.stat(this.#path) === undefined;
    makeDirectoryDurably(this.#fs, this.#folder);
    this.#file = this.#fs.open(this.#path, 'create');
    if (fresh) this.#fs.syncDirectory(this.#folder);
    return this.#file;
  }
}

/** Whether values of the checkpoint are those that were saved, up to a bit that has flipped since: another broker changes more. */
function belongs(saved: readonly number[], found: readonly number[]): boolean {
  const changed = saved.filter((value, i) => value !== found[i]);
  if (changed.length !== 1) return changed.length === 0;
  const now = found.find((value, i) => value !== saved[i])!;
  if (!Number.isSafeInteger(now)) return true;
  const bits = BigInt.asUintN(64, BigInt(changed[0]!) ^ BigInt(now));
  return (bits & (bits - 1n)) === 0n;
}

function sum(bytes: Uint8Array): string {
  return crc32(bytes, 0, bytes.length).toString(16).padStart(8, '0');
}

/** undefined if the bytes are no slot, or one that was written in part. */
function decode(slot: Uint8Array): Saved | undefined {
  if (slot.length < SLOT_BYTES) return undefined;
  if (Buffer.from(slot.subarray(0, 8)).toString('latin1') !== sum(slot.subarray(9))) return undefined;
  try {
    const saved = JSON.parse(Buffer.from(slot.subarray(9)).toString('latin1')) as Saved;
    return saved.version === 1 && saved.checkpoint.length === 6 ? saved : undefined;
  } catch {
    return undefined;
  }
}
