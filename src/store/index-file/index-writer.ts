// The newest index file while it grows. Its slot table lies in memory whole (20 MB at the default size, touched page by page) and so
// does the end of its units; full buffers of units go to the disk in order, in the background. Slots and header follow when the file
// is full or the store stops: after a crash both are worked out again from the units (index-scan.ts), so writing the randomly
// dirtied slot pages any sooner would buy nothing.
//
// Disk work is a queue of steps, one at a time. A step that fails for the surroundings' sake (disk full, I/O error) is tried again until
// it works; a failed sync is not, because nobody knows what it lost: the file is given up (`fault`) and built anew from the log.

import { type Clock, type GantryError, type Timer, viewOf } from '../../common/index.ts';
import type { Done, FileHandle, FileSystem } from '../../io/index.ts';
import {
  HEADER_BYTES,
  type IndexHeader,
  type IndexLayout,
  SLOT_BYTES,
  timeDiffSeconds,
  UNIT_BYTES,
} from './index-format.ts';

const TWO_32 = 0x1_0000_0000;
/** Units of one write buffer: just under 64 KiB. */
const BUFFER_UNITS = 3276;
const PAGE_SHIFT = 12;
/** Units that may wait to be linked. */
const LINK_UNITS = 64;
/** Bytes of slots written at once. */
const SLOT_CHUNK = 64 * 4096;
const RETRY_MS = 1000;
const SPARE_BUFFERS = 4;
/** Bytes of units that may wait before they are written on the spot. */
const RELIEVE_BYTES = 32 * 1024 * 1024;

/** Units that wait for the disk, or are on their way. */
interface UnitBuffer {
  bytes: Uint8Array;
  view: DataView;
  /** Number of the unit at byte 0. */
  firstUnit: number;
  /** Units in use. */
  count: number;
  /** The disk reads from `bytes` now. */
  inFlight: boolean;
  /** Written ahead of its turn; `bytes` are gone. */
  written: boolean;
}

type Step = (done: Done) => void;

export interface IndexWriterOptions {
  fs: FileSystem;
  clock: Clock;
  path: string;
  layout: IndexLayout;
  /** Owned by the writer from here on. */
  header: IndexHeader;
  /** The slot table that belongs to `header`; owned by the writer. */
  slots: Int32Array;
  /** False: the file is made at the first write. */
  exists: boolean;
  /** The writer of the file before, as long as there is one: its file must exist before this one is made, or a crash could leave a gap. */
  previous: IndexWriter | undefined;
  /** Told once per spell of trouble that the disk refuses a write, and that it is tried again. */
  onTrouble: (error: GantryError) => void;
}

export class IndexWriter {
  readonly path: string;
  readonly header: IndexHeader;
  readonly #slots: Int32Array;
  /** Set when the file cannot be made durable any more. */
  fault: GantryError | undefined;

  readonly #fs: FileSystem;
  readonly #clock: Clock;
  readonly #layout: IndexLayout;
  readonly #onTrouble: (error: GantryError) => void;
  /** One byte per 4 KiB of the file's head: 1 = holds slots that differ from the disk. */
  readonly #dirtyPages: Uint8Array;
  readonly #slotCount: number;
  /** A put needs indexCount below this. */
  #limit: number;

  /** indexCount when the last flush was asked for. */
  #flushedCount: number;
  #tail: UnitBuffer;
  /** Units at the tail's start whose slots know of them; the others have no `previous` yet. */
  #tailLinked = 0;
  /** Units at the tail's start that are in the queue already. */
  #tailQueued = 0;
  /** Full buffers before the tail, oldest first. */
  #pending: UnitBuffer[] = [];
  #spare: UnitBuffer[] = [];

  #file: FileHandle | undefined;
  #exists: boolean;
  #previous: IndexWriter | undefined;
  /** What waits for this file to exist, or for the certainty that it never will. */
  #afterCreation: Array<() => void> = [];
  #steps: Step[] = [];
  #busy = false;
  #draining = false;
  #retry: Timer | undefined;
  #troubled = false;
  /** True: a failing step is a fault at once, for nobody will be there to try again. */
  #lastTry = false;
  #whenIdle: (() => void) | undefined;

  constructor(options: IndexWriterOptions) {
    this.#fs = options.fs;
    this.#clock = options.clock;
    this.path = options.path;
    this.#layout = options.layout;
    this.header = options.header;
    this.#slots = options.slots;
    this.#exists = options.exists;
    this.#previous = options.previous;
    this.#onTrouble = options.onTrouble;
    this.#slotCount = options.layout.slots;
    this.#limit = options.layout.units;
    this.#dirtyPages = new Uint8Array(((HEADER_BYTES + SLOT_BYTES * this.#slotCount) >>> PAGE_SHIFT) + 1);
    this.#flushedCount = this.header.indexCount;
    this.#tail = newBuffer(this.header.indexCount);
  }

  /** No further unit goes into this file. */
  get full(): boolean {
    return this.header.indexCount >= this.#limit;
  }

  /** Makes the file full as it is: it is damaged, and new keys go to a fresh one. */
  stopFilling(): void {
    this.#limit = 0;
  }

  /** Bytes of units that the disk has not taken yet. */
  get backlogBytes(): number {
    return this.#pending.length * BUFFER_UNITS * UNIT_BYTES;
  }

  /** The disk refuses writes, and they are tried again. */
  get troubled(): boolean {
    return this.#troubled;
  }

  /** Adds one unit; requires that the file is not `full`. Hot. */
  put(keyHash: number, phyOffset: number, storeTimestamp: number): void {
    const header = this.header;
    const tail = this.#tail;
    const unit = header.indexCount;
    const at = tail.count * UNIT_BYTES;
    const high = Math.floor(phyOffset / TWO_32);
    const view = tail.view;
    view.setInt32(at, keyHash);
    view.setInt32(at + 4, high);
    view.setInt32(at + 8, (phyOffset - high * TWO_32) | 0);
    view.setInt32(at + 12, timeDiffSeconds(storeTimestamp, header.beginTimestamp));
    if (unit === 1) {
      header.beginPhyOffset = phyOffset;
      header.beginTimestamp = storeTimestamp;
    }
    header.indexCount = unit + 1;
    header.endPhyOffset = phyOffset;
    header.endTimestamp = storeTimestamp;
    tail.count++;
    if (tail.count - this.#tailLinked >= LINK_UNITS) this.#link();
    if (tail.count === BUFFER_UNITS) this.#nextBuffer();
  }

  /** The slot table, up to date. */
  get slots(): Int32Array {
    this.#link();
    return this.#slots;
  }

  /**
   * Puts the tail's newest units at the heads of their chains. The slots lie all over the table, and nearly each one is a miss of the
   * cache; in a loop that does nothing else the processor waits for several at once.
   */
  #link(): void {
    const { view, firstUnit, count } = this.#tail;
    const slots = this.#slots;
    const pages = this.#dirtyPages;
    for (let i = this.#tailLinked; i < count; i++) {
      const at = i * UNIT_BYTES;
      const slot = view.getInt32(at) % this.#slotCount;
      const previous = slots[slot]!;
      view.setInt32(at + 16, previous);
      slots[slot] = firstUnit + i;
      pages[(HEADER_BYTES + slot * SLOT_BYTES) >>> PAGE_SHIFT] = 1;
      if (previous === 0) this.header.hashSlotCount++;
    }
    this.#tailLinked = count;
  }

  /** Marks the page of a slot that was changed from outside (a truncation). */
  slotChanged(slot: number): void {
    this.#dirtyPages[(HEADER_BYTES + slot * SLOT_BYTES) >>> PAGE_SHIFT] = 1;
  }

  /** Copies a unit to `target[0, 20)` if it is still in memory. */
  unitInMemory(unit: number, target: Uint8Array): boolean {
    this.#link();
    let buffer: UnitBuffer | undefined = this.#tail;
    if (unit < buffer.firstUnit)
      buffer = this.#pending.find((p) => unit >= p.firstUnit && unit < p.firstUnit + p.count);
    if (buffer === undefined || unit >= buffer.firstUnit + buffer.count) return false;
    const at = (unit - buffer.firstUnit) * UNIT_BYTES;
    for (let i = 0; i < UNIT_BYTES; i++) target[i] = buffer.bytes[at + i]!;
    return true;
  }

  /** Makes all units put so far durable (header too, slots not), then calls `done`. */
  flush(done: Done): void {
    if (this.header.indexCount !== this.#flushedCount) {
      this.#flushedCount = this.header.indexCount;
      this.#queueTail();
      this.#addHeaderStep();
      this.#add((next) => this.#sync(next));
    }
    this.#finally(done);
  }

  /**
   * Writes everything that is missing (units, slots, header), syncs and closes. Puts have ended. `done` gets the fault, if any.
   */
  seal(done: Done): void {
    this.#queueTail();
    this.#addSlotSteps();
    this.#addHeaderStep();
    this.#add((next) => this.#sync(next));
    this.#finally((error) => {
      this.#closeFile();
      done(error);
    });
  }

  /** From here on a step that fails is a fault at once: the process is about to end. What waits for another try gets its last one now. */
  stopTrying(): void {
    this.#lastTry = true;
    if (this.#retry === undefined) return;
    this.#retry.cancel();
    this.#retry = undefined;
    this.#run();
  }

  /** Drops what is not written and closes once the disk is quiet; the file is about to be removed. */
  abandon(done: () => void): void {
    this.#lastTry = true;
    this.#retry?.cancel();
    this.#retry = undefined;
    this.#steps.length = this.#busy ? 1 : 0;
    const close = (): void => {
      this.#closeFile();
      done();
    };
    if (this.#busy) this.#whenIdle = close;
    else close();
  }

  // --- Steps

  #add(step: Step): void {
    this.#steps.push(step);
    if (!this.#busy && this.#retry === undefined) this.#run();
  }

  /** Queues the header as it is now. */
  #addHeaderStep(): void {
    const header = this.header.encode();
    this.#add((next) => this.#open((file) => file.write(header, 0, HEADER_BYTES, 0, next), next));
  }

  /** Runs `done` when all steps before it are through, with the fault if there is one by then. */
  #finally(done: Done): void {
    this.#add((next) => {
      next(undefined);
      done(this.fault);
    });
  }

  /** Runs steps until one waits for the disk. A loop: thousands may end on the spot, one after the other. */
  #run(): void {
    if (this.#draining) return;
    this.#draining = true;
    try {
      while (!this.#busy && this.#retry === undefined) {
        const step = this.#steps[0];
        if (step === undefined) {
          const done = this.#whenIdle;
          this.#whenIdle = undefined;
          done?.();
          return;
        }
        this.#busy = true;
        step((error) => this.#stepEnded(error));
      }
    } finally {
      this.#draining = false;
    }
  }

  #stepEnded(error: GantryError | undefined): void {
    this.#busy = false;
    if (error !== undefined && this.fault === undefined) {
      if (!this.#lastTry) return this.#tryAgain(error);
      this.fault = error;
      this.#creationSettled();
    }
    if (error === undefined) this.#troubled = false;
    this.#steps.shift();
    this.#run();
  }

  #tryAgain(error: GantryError): void {
    if (!this.#troubled) this.#onTrouble(error);
    this.#troubled = true;
    this.#retry = this.#clock.after(RETRY_MS, () => {
      this.#retry = undefined;
      this.#run();
    });
  }

  /** Hands the open file to `use`; makes it first if it is not there. After a fault nothing touches the disk any more. */
  #open(use: (file: FileHandle) => void, done: Done): void {
    if (this.fault !== undefined) return done(undefined);
    if (this.#file !== undefined) return use(this.#file);
    const open = (): void => {
      try {
        this.#file = this.#fs.open(this.path, 'write');
        if (this.#file.size() < this.#layout.fileBytes) this.#file.truncateSync(this.#layout.fileBytes);
      } catch (error) {
        return done(error as GantryError);
      }
      use(this.#file);
    };
    if (this.#exists) return open();
    const create = (): void => {
      const fault = this.#previous?.fault;
      if (fault !== undefined) {
        this.fault = fault;
        this.#creationSettled();
        return done(undefined);
      }
      this.#previous = undefined;
      try {
        this.#makeFolder();
      } catch (error) {
        return done(error as GantryError);
      }
      this.#fs.createSized(this.path, this.#layout.fileBytes, (error) => {
        if (error !== undefined) return done(error);
        this.#exists = true;
        this.#creationSettled();
        open();
      });
    };
    const previous = this.#previous;
    if (previous === undefined || previous.#exists || previous.fault !== undefined) create();
    else previous.#afterCreation.push(create);
  }

  #creationSettled(): void {
    const waiting = this.#afterCreation;
    this.#afterCreation = [];
    for (const fn of waiting) fn();
  }

  #makeFolder(): void {
    const folder = this.path.slice(0, this.path.lastIndexOf('/'));
    if (this.#fs.stat(folder) !== undefined) return;
    this.#fs.makeDirectory(folder);
    this.#fs.syncDirectory(folder.slice(0, folder.lastIndexOf('/')));
  }

  #sync(next: Done): void {
    this.#open(
      (file) =>
        file.sync((error) => {
          if (error !== undefined) this.fault ??= error;
          next(undefined);
        }),
      next,
    );
  }

  #closeFile(): void {
    this.#file?.close();
    this.#file = undefined;
  }

  // --- Units and slots

  #nextBuffer(): void {
    this.#queueTail();
    this.#pending.push(this.#tail);
    if (this.backlogBytes > RELIEVE_BYTES) this.#relieve();
    const next = this.#tail.firstUnit + BUFFER_UNITS;
    const spare = this.#spare.pop();
    if (spare === undefined) {
      this.#tail = newBuffer(next);
    } else {
      spare.firstUnit = next;
      spare.count = 0;
      this.#tail = spare;
    }
    this.#tailQueued = 0;
    this.#tailLinked = 0;
  }

  /**
   * Writes what waits, on the spot: either nobody gives the loop a turn (a rebuild at the start), or the disk cannot keep up, and then
   * this is the back-pressure. The steps that are queued for it find nothing left to do.
   */
  #relieve(): void {
    const creating = !this.#exists && this.#previous !== undefined && !this.#previous.#exists;
    if (creating || this.#troubled || this.fault !== undefined) return;
    try {
      if (!this.#exists) this.#makeFolder();
      // Made here if need be; its name becomes durable with the queued creation, which every sync comes after.
      const file = this.#fs.open(this.path, 'create');
      try {
        if (file.size() < this.#layout.fileBytes) file.truncateSync(this.#layout.fileBytes);
        for (const buffer of this.#pending) {
          if (buffer.inFlight) continue;
          file.writeSync(buffer.bytes, 0, BUFFER_UNITS * UNIT_BYTES, this.#layout.unitPosition(buffer.firstUnit));
          if (this.#spare.length < SPARE_BUFFERS) this.#spare.push({ ...buffer });
          buffer.written = true;
          buffer.bytes = NOTHING;
        }
      } finally {
        file.close();
      }
    } catch {
      // The queued steps meet the same error, report it and try again.
    }
    this.#pending = this.#pending.filter((buffer) => !buffer.written);
  }

  /** Queues the units of the tail that are not queued yet. The bytes of a unit never change, so they may go while the tail fills. */
  #queueTail(): void {
    this.#link();
    const buffer = this.#tail;
    const first = this.#tailQueued;
    const count = buffer.count;
    const full = count === BUFFER_UNITS;
    if (first === count) return;
    // A new file gets its header first: without beginTimestamp the units of a killed process could not be read.
    if (!this.#exists && buffer.firstUnit + first === 1) this.#addHeaderStep();
    this.#tailQueued = count;
    const position = this.#layout.unitPosition(buffer.firstUnit + first);
    this.#add((next) => {
      const written: Done = (error) => {
        buffer.inFlight = false;
        if (error === undefined && full && !buffer.written) this.#release(buffer);
        next(error);
      };
      this.#open((file) => {
        if (buffer.written) return written(undefined);
        buffer.inFlight = true;
        file.write(buffer.bytes, first * UNIT_BYTES, (count - first) * UNIT_BYTES, position, written);
      }, written);
    });
  }

  #release(buffer: UnitBuffer): void {
    const index = this.#pending.indexOf(buffer);
    if (index >= 0) this.#pending.splice(index, 1);
    if (this.#spare.length < SPARE_BUFFERS) this.#spare.push(buffer);
  }

  /** Queues one write per run of dirty slot pages, at most SLOT_CHUNK bytes each. */
  #addSlotSteps(): void {
    const pages = this.#dirtyPages;
    const scratch = new Uint8Array(Math.min(SLOT_CHUNK, pages.length << PAGE_SHIFT));
    let page = 0;
    while (page < pages.length) {
      if (pages[page] === 0) {
        page++;
        continue;
      }
      const first = page;
      while (page < pages.length && pages[page] === 1 && page - first < SLOT_CHUNK >>> PAGE_SHIFT) page++;
      const from = Math.max(0, ((first << PAGE_SHIFT) - HEADER_BYTES) / SLOT_BYTES);
      const to = Math.min(this.#slotCount, ((page << PAGE_SHIFT) - HEADER_BYTES) / SLOT_BYTES);
      this.#add((next) => {
        const view = viewOf(scratch);
        for (let slot = from; slot < to; slot++) view.setInt32((slot - from) * SLOT_BYTES, this.#slots[slot]!);
        const position = this.#layout.slotPosition(from);
        this.#open((file) => file.write(scratch, 0, (to - from) * SLOT_BYTES, position, next), next);
      });
    }
    this.#add((next) => {
      pages.fill(0);
      next(undefined);
    });
  }
}

const NOTHING = new Uint8Array(0);

function newBuffer(firstUnit: number): UnitBuffer {
  const bytes = new Uint8Array(BUFFER_UNITS * UNIT_BYTES);
  return { bytes, view: viewOf(bytes), firstUnit, count: 0, inFlight: false, written: false };
}
