// The timer wheel: for each tick of 14 days one slot that names the first and the newest unit of the timer log due then
// (docs/formats/timer.md). The slot of a time t is (t / precision) mod slots; it counts only if its own time is t / precision.
//
//   slot    0 time / precision i64 | 8 firstPos i64 | 16 lastPos i64 | 24 num i32 | 28 magic i32
//
// With timerWheelSnapshotFlush the file is not changed in place: a snapshot, timerwheel.POSITION, holds exactly the units of the timer
// log that begin before that position; the two newest are kept.
//
// In memory the file is pages of 4096 bytes that exist once something was written to them, so that a wheel costs what it holds. Pages that
// changed are written by `flush`. RocketMQ: TimerWheel, which holds the whole file twice and compares both byte by byte at each flush.

import { peekI64, viewOf, writeI64 } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import { syncFile, writeAt } from './timer-io.ts';

export const SLOT_BYTES = 32;
/** Slots of seven days of seconds; the wheel has twice as many. */
export const WHEEL_SLOTS_TOTAL: number = 7 * 86_400;
/** Slots that a new message stays away from, so that it cannot meet one that is not read yet. */
export const BLANK_SLOTS = 60;
export const SLOTS: number = WHEEL_SLOTS_TOTAL * 2;
const WHEEL_BYTES = SLOTS * SLOT_BYTES;
const PAGE_BYTES = 4096;
const PAGE_SLOTS = PAGE_BYTES / SLOT_BYTES;
const PAGES = WHEEL_BYTES / PAGE_BYTES;
const READ_PAGES = 256;
const KEPT_SNAPSHOTS = 2;

/** A slot, filled anew by `read`. */
export class TimerSlot {
  firstPos = -1;
  lastPos = -1;
  /** Messages minus orders to delete some. */
  num = 0;
}

/** A copy of the pages that were to be written. */
export type WheelPages = ReadonlyMap<number, Uint8Array>;

export class TimerWheel {
  readonly path: string;
  readonly precisionMs: number;
  readonly #fs: FileSystem;
  readonly #pages: Array<DataView | undefined> = new Array(PAGES);
  /** After `load` of a snapshot: the position that it goes to in the timer log. */
  loadedTo: number | undefined;
  readonly #dirty = new Set<number>();
  #onDisk = false;

  constructor(fs: FileSystem, root: string, precisionMs: number) {
    this.#fs = fs;
    this.path = `${root}/timerwheel`;
    this.precisionMs = precisionMs;
  }

  /**
   * Reads the file, or the newest snapshot if that was written later. False if there is none, or one of another length, which is replaced
   * by the next flush.
   */
  load(): boolean {
    const source = this.source();
    if (source === undefined) return false;
    this.#read(source.path);
    this.loadedTo = source.position;
    this.#onDisk = source.path === this.path;
    return true;
  }

  /** The file that `load` reads; of a snapshot, with its position. undefined: there is none of the right length. */
  source(): { path: string; position: number | undefined } | undefined {
    const [newest] = this.#snapshots();
    const modified = (path: string): number => this.#fs.stat(path)?.modifiedMs ?? Number.NEGATIVE_INFINITY;
    const isSnapshot =
      newest !== undefined && modified(newest.path) >= modified(this.path) && this.#isWheel(newest.path);
    if (isSnapshot) return newest;
    return this.#isWheel(this.path) ? { path: this.path, position: undefined } : undefined;
  }

  #isWheel(path: string): boolean {
    const stat = this.#fs.stat(path);
    return stat !== undefined && !stat.isDirectory && stat.size === WHEEL_BYTES;
  }

  /** Newest first. RocketMQ: getMaxSnapshotFlag. */
  #snapshots(): Array<{ path: string; position: number }> {
    const folder = folderOf(this.path);
    return this.#fs
      .list(folder)
      .flatMap((name) => {
        const position = /^timerwheel\.(\d{1,16})$/.exec(name)?.[1];
        return position === undefined ? [] : [{ path: `${folder}/${name}`, position: Number(position) }];
      })
      .sort((a, b) => b.position - a.position);
  }

  #read(path: string): void {
    const file = this.#fs.open(path, 'read');
    try {
      const block = new Uint8Array(READ_PAGES * PAGE_BYTES);
      for (let first = 0; first < PAGES; first += READ_PAGES) {
        const count = Math.min(READ_PAGES, PAGES - first);
        file.readSync(block, 0, count * PAGE_BYTES, first * PAGE_BYTES);
        const words = new Float64Array(block.buffer);
        for (let i = 0; i < count; i++) {
          const from = (i * PAGE_BYTES) / 8;
          let k = from;
          while (k < from + PAGE_BYTES / 8 && words[k] === 0) k++;
          if (k === from + PAGE_BYTES / 8) continue;
          this.#pages[first + i] = viewOf(block.slice(i * PAGE_BYTES, (i + 1) * PAGE_BYTES));
        }
      }
    } finally {
      file.close();
    }
  }

  /** Forgets everything; the next flush writes a new file. */
  clear(): void {
    this.loadedTo = undefined;
    this.#pages.fill(undefined);
    this.#dirty.clear();
    this.#onDisk = false;
  }

  /** The slot of a time; false, and an empty one, if nothing is due then. */
  read(timeMs: number, slot: TimerSlot): boolean {
    const tick = Math.floor(timeMs / this.precisionMs);
    const index = tick % SLOTS;
    const page = this.#pages[Math.floor(index / PAGE_SLOTS)];
    const at = (index % PAGE_SLOTS) * SLOT_BYTES;
    if (page === undefined || peekI64(page, at) !== tick || tick === 0) {
      slot.firstPos = -1;
      slot.lastPos = -1;
      slot.num = 0;
      return false;
    }
    slot.firstPos = peekI64(page, at + 8);
    slot.lastPos = peekI64(page, at + 16);
    slot.num = page.getInt32(at + 24);
    return true;
  }

  /** Writes the slot of a time. */
  write(timeMs: number, slot: TimerSlot): void {
    const tick = Math.floor(timeMs / this.precisionMs);
    const index = tick % SLOTS;
    const number = Math.floor(index / PAGE_SLOTS);
    const page = this.#pages[number] ?? viewOf(new Uint8Array(PAGE_BYTES));
    this.#pages[number] = page;
    const at = (index % PAGE_SLOTS) * SLOT_BYTES;
    writeI64(page, at, tick);
    writeI64(page, at + 8, slot.firstPos);
    writeI64(page, at + 16, slot.lastPos);
    page.setInt32(at + 24, slot.num);
    this.#dirty.add(number);
  }

  /** Empties the slot of a time. */
  erase(timeMs: number): void {
    const index = Math.floor(timeMs / this.precisionMs) % SLOTS;
    const number = Math.floor(index / PAGE_SLOTS);
    const page = this.#pages[number];
    if (page === undefined) return;
    const at = (index % PAGE_SLOTS) * SLOT_BYTES;
    for (let i = 0; i < SLOT_BYTES; i += 4) page.setInt32(at + i, 0);
    this.#dirty.add(number);
  }

  /** The time that the slot which `timeMs` would take holds now; -1 if it was never written. */
  occupant(timeMs: number): number {
    const index = Math.floor(timeMs / this.precisionMs) % SLOTS;
    const page = this.#pages[Math.floor(index / PAGE_SLOTS)];
    if (page === undefined) return -1;
    const tick = peekI64(page, (index % PAGE_SLOTS) * SLOT_BYTES);
    return tick === 0 ? -1 : tick * this.precisionMs;
  }

  /** The first time in [fromMs, toMs) at which something is due; -1 if there is none. */
  next(fromMs: number, toMs: number): number {
    const end = Math.min(Math.floor(toMs / this.precisionMs), Math.floor(fromMs / this.precisionMs) + SLOTS);
    let tick = Math.floor(fromMs / this.precisionMs);
    while (tick < end) {
      const index = tick % SLOTS;
      const page = this.#pages[Math.floor(index / PAGE_SLOTS)];
      const last = Math.min(end, tick + PAGE_SLOTS - (index % PAGE_SLOTS));
      if (page === undefined) {
        tick = last;
        continue;
      }
      for (let at = (index % PAGE_SLOTS) * SLOT_BYTES; tick < last; tick++, at += SLOT_BYTES) {
        if (peekI64(page, at) === tick) return tick * this.precisionMs;
      }
    }
    return -1;
  }

  /** Every slot of a time from `fromMs` on, in no order. */
  *from(fromMs: number): Generator<number> {
    const from = Math.max(1, Math.floor(fromMs / this.precisionMs));
    for (const page of this.#pages) {
      if (page === undefined) continue;
      for (let at = 0; at < PAGE_BYTES; at += SLOT_BYTES) {
        const tick = peekI64(page, at);
        if (tick >= from) yield tick * this.precisionMs;
      }
    }
  }

  /** Messages due from `fromMs` on. RocketMQ: getAllNum. */
  countFrom(fromMs: number): number {
    const slot = new TimerSlot();
    let count = 0;
    for (const timeMs of this.from(fromMs)) if (this.read(timeMs, slot)) count += slot.num;
    return count;
  }

  /** The pages that changed since the last call, as they are now. */
  takeDirty(): WheelPages {
    const pages = new Map<number, Uint8Array>();
    if (!this.#onDisk) for (let i = 0; i < PAGES; i++) if (this.#pages[i] !== undefined) this.#dirty.add(i);
    for (const number of this.#dirty) pages.set(number, new Uint8Array(this.#pages[number]!.buffer).slice());
    this.#dirty.clear();
    return pages;
  }

  /** Has pages written again that could not be. */
  giveBack(pages: WheelPages): void {
    for (const number of pages.keys()) if (this.#pages[number] !== undefined) this.#dirty.add(number);
  }

  /**
   * Writes pages; they are durable when it resolves. A file that is not there yet gets its name when it is whole: an empty wheel would say that
   * nothing waits. @throws GantryError IO, DISK_FULL.
   */
  async flush(pages: WheelPages): Promise<void> {
    if (!this.#onDisk) {
      await this.#writeWhole(this.path, pages);
      this.#fs.syncDirectory(folderOf(this.path));
      this.#onDisk = true;
      return;
    }
    if (pages.size === 0) return;
    const file = this.#fs.open(this.path, 'write');
    try {
      for (const [number, page] of pages) await writeAt(file, page, number * PAGE_BYTES);
      await syncFile(file);
    } finally {
      file.close();
    }
  }

  /** Makes a file of these pages, by another name first; its name is not durable yet. */
  async #writeWhole(path: string, pages: WheelPages): Promise<void> {
    const unfinished = `${path}.tmp`;
    this.#fs.remove(unfinished);
    const file = this.#fs.open(unfinished, 'create');
    try {
      file.truncateSync(WHEEL_BYTES);
      for (const [number, page] of pages) await writeAt(file, page, number * PAGE_BYTES);
      await syncFile(file);
    } finally {
      file.close();
    }
    this.#fs.rename(unfinished, path);
  }

  /** All pages, as they are now. */
  takeAll(): WheelPages {
    const pages = new Map<number, Uint8Array>();
    for (const [number, page] of this.#pages.entries()) {
      if (page !== undefined) pages.set(number, new Uint8Array(page.buffer).slice());
    }
    return pages;
  }

  /**
   * Writes a snapshot of the wheel that held the units before `position`, by another name first, and removes all but the two newest; it is
   * durable when it resolves. @throws GantryError IO, DISK_FULL. RocketMQ: backup.
   */
  async snapshot(pages: WheelPages, position: number): Promise<void> {
    await this.#writeWhole(`${this.path}.${position}`, pages);
    for (const old of this.#snapshots().slice(KEPT_SNAPSHOTS)) this.#fs.remove(old.path);
    this.#fs.syncDirectory(folderOf(this.path));
  }

  /** Removes all snapshots, durably: the file itself is newer. */
  removeSnapshots(): void {
    const snapshots = this.#snapshots();
    for (const { path } of snapshots) this.#fs.remove(path);
    if (snapshots.length > 0) this.#fs.syncDirectory(folderOf(this.path));
  }
}

function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/'));
}
