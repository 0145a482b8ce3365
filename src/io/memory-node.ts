// What a disk in memory is made of: sparse byte arrays, files that know which of their writes are not yet durable, and
// directories that know which of their names are not. The disk itself, with its faults, is memory-file-system.ts.
//
// A file is held twice: `seen` is what programs read, `durable` is what a power cut leaves for certain. Between the two
// lies `unsynced`, the list of writes and length changes since the last sync, in order.

import { assert, type Random } from '../common/index.ts';

const PAGE = 4096;
/** The unit that a disk writes whole, except for the one that it was writing when the power went. */
export const SECTOR = 512;

/** Bytes in pages of 4 KiB; a page that was never written takes no memory and reads as zeros. */
export class SparseBytes {
  length = 0;
  readonly #pages = new Map<number, Uint8Array>();

  get pageCount(): number {
    return this.#pages.size;
  }

  /** Copies what there is of [position, position + length) and answers how much that was. */
  read(target: Uint8Array, targetStart: number, length: number, position: number): number {
    const wanted = Math.max(0, Math.min(length, this.length - position));
    let done = 0;
    while (done < wanted) {
      const at = position + done;
      const inPage = at % PAGE;
      const n = Math.min(PAGE - inPage, wanted - done);
      const page = this.#pages.get((at - inPage) / PAGE);
      if (page === undefined) target.fill(0, targetStart + done, targetStart + done + n);
      else target.set(page.subarray(inPage, inPage + n), targetStart + done);
      done += n;
    }
    return wanted;
  }

  write(source: Uint8Array, position: number): void {
    let done = 0;
    while (done < source.length) {
      const at = position + done;
      const inPage = at % PAGE;
      const n = Math.min(PAGE - inPage, source.length - done);
      const number = (at - inPage) / PAGE;
      let page = this.#pages.get(number);
      if (page === undefined) {
        page = new Uint8Array(PAGE);
        this.#pages.set(number, page);
      }
      page.set(source.subarray(done, done + n), inPage);
      done += n;
    }
    this.length = Math.max(this.length, position + source.length);
  }

  truncate(length: number): void {
    if (length < this.length) {
      for (const [number, page] of this.#pages) {
        if (number * PAGE >= length) this.#pages.delete(number);
        else if ((number + 1) * PAGE > length) page.fill(0, length - number * PAGE);
      }
    }
    this.length = length;
  }

  /** Gives every page of a range its memory, as far as `freePages` go; false if they do not suffice. */
  reserve(position: number, length: number, freePages: number): boolean {
    let free = freePages;
    for (let number = Math.floor(position / PAGE); number * PAGE < position + length; number++) {
      if (this.#pages.has(number)) continue;
      if (free-- <= 0) return false;
      this.#pages.set(number, new Uint8Array(PAGE));
    }
    return true;
  }

  /** Whether the page that holds a position has its memory. */
  hasPage(position: number): boolean {
    return this.#pages.has(Math.floor(position / PAGE));
  }

  /** How many bytes of a write at `position` fit when only `freePages` more pages may be taken. */
  fitting(length: number, position: number, freePages: number): number {
    let free = freePages;
    for (let number = Math.floor(position / PAGE); number * PAGE < position + length; number++) {
      if (this.#pages.has(number)) continue;
      if (free <= 0) return Math.max(0, number * PAGE - position);
      free--;
    }
    return length;
  }

  clone(): SparseBytes {
    const copy = new SparseBytes();
    copy.length = this.length;
    for (const [number, page] of this.#pages) copy.#pages.set(number, page.slice());
    return copy;
  }
}

/** A write (`bytes`) or, without bytes, a change of the length to `position`. */
interface Change {
  order: number;
  position: number;
  bytes: Uint8Array | undefined;
}

/** A file's content, whatever its names are. */
export class FileNode {
  seen: SparseBytes = new SparseBytes();
  modifiedMs: number;
  /** Where programs have it in their memory. */
  readonly mappings: Set<MemoryMapping> = new Set();
  #durable = new SparseBytes();
  #unsynced: Change[] = [];
  #order = 0;

  constructor(modifiedMs: number) {
    this.modifiedMs = modifiedMs;
  }

  /** The ordinal that the next change will get; a sync started now covers the changes below it. */
  get order(): number {
    return this.#order;
  }

  get unsyncedCount(): number {
    return this.#unsynced.length;
  }

  /** Takes ownership of `bytes`. */
  write(bytes: Uint8Array, position: number): void {
    this.seen.write(bytes, position);
    this.#unsynced.push({ order: this.#order++, position, bytes });
    for (const mapping of this.mappings) mapping.refresh(bytes, position);
  }

  /** Bytes that a program has changed in its memory: the whole page is what reaches the disk, or not. */
  writeInPage(bytes: Uint8Array, position: number): void {
    this.seen.write(bytes, position);
    for (const mapping of this.mappings) mapping.refresh(bytes, position);
    const page = new Uint8Array(PAGE);
    const start = position - (position % PAGE);
    const length = this.seen.read(page, 0, PAGE, start);
    this.#unsynced.push({ order: this.#order++, position: start, bytes: page.subarray(0, length) });
  }

  truncate(length: number): void {
    if (length === this.seen.length) return;
    this.seen.truncate(length);
    this.#unsynced.push({ order: this.#order++, position: length, bytes: undefined });
  }

  /** Makes every change below `order` durable. */
  settle(order: number): void {
    const covered = this.#take(order);
    for (const change of covered) apply(this.#durable, change);
  }

  /**
   * A sync that failed: the kernel has marked the pages clean, so that no later sync covers them. What reached the disk is
   * anyone's guess; without a `random`, nothing did. Programs go on to see the bytes.
   */
  lose(order: number, random: Random | undefined): void {
    const covered = this.#take(order);
    if (random !== undefined) keepSome(this.#durable, covered, random);
  }

  /** The power is gone: of what was unsynced, some reached the disk. */
  powerCut(random: Random, unit?: number): void {
    keepSome(this.#durable, this.#unsynced, random, unit);
    this.#unsynced = [];
    this.seen = this.#durable.clone();
  }

  /** A copy of what programs see, all of it durable. */
  clone(): FileNode {
    const copy = new FileNode(this.modifiedMs);
    copy.seen = this.seen.clone();
    copy.#durable = this.seen.clone();
    return copy;
  }

  #take(order: number): Change[] {
    let n = 0;
    while (n < this.#unsynced.length && this.#unsynced[n]!.order < order) n++;
    return this.#unsynced.splice(0, n);
  }
}

/**
 * A range of a file in a program's memory. What the program changes there is found by comparison, page by page, whenever anything is
 * asked of the disk; so an unsynced page may reach the disk in any of the states that it had then, and others not.
 */
export class MemoryMapping {
  readonly node: FileNode;
  readonly position: number;
  readonly bytes: Uint8Array;
  readonly #last: Uint8Array;

  constructor(node: FileNode, position: number, length: number) {
    this.node = node;
    this.position = position;
    this.bytes = new Uint8Array(length);
    node.seen.read(this.bytes, 0, length, position);
    this.#last = this.bytes.slice();
    node.mappings.add(this);
  }

  /** Puts what the program has changed into the file. */
  absorb(): void {
    const { bytes, position } = this;
    const last = this.#last;
    for (let page = 0; page < bytes.length; page += PAGE) {
      const pageEnd = Math.min(page + PAGE, bytes.length);
      if (Buffer.compare(bytes.subarray(page, pageEnd), last.subarray(page, pageEnd)) === 0) continue;
      let from = page;
      while (bytes[from] === last[from]) from++;
      let to = pageEnd;
      while (bytes[to - 1] === last[to - 1]) to--;
      const changed = bytes.slice(from, to);
      last.set(changed, from);
      // A real system ends the process here (SIGBUS), whether or not the disk has a block left.
      assert(this.node.seen.hasPage(position + from), 'a mapped page was changed that has no block');
      this.node.writeInPage(changed, position + from);
    }
  }

  /** The file has other bytes at a place now. */
  refresh(bytes: Uint8Array, position: number): void {
    const from = Math.max(position, this.position);
    const to = Math.min(position + bytes.length, this.position + this.bytes.length);
    if (from >= to) return;
    const part = bytes.subarray(from - position, to - position);
    this.bytes.set(part, from - this.position);
    this.#last.set(part, from - this.position);
  }

  end(): void {
    this.node.mappings.delete(this);
  }
}

function apply(target: SparseBytes, change: Change): void {
  if (change.bytes === undefined) target.truncate(change.position);
  else target.write(change.bytes, change.position);
}

/**
 * Applies to `target` what a real disk could have kept of `changes`: nothing, all, a beginning, any of the writes, or any of
 * the sectors of any of the writes. Where two writes overlap the later one lies on top, as in a page cache. Lengths go through
 * a journal, in order: once a change of the length is lost, so are the later ones, and bytes beyond the length with them.
 */
function keepSome(target: SparseBytes, changes: readonly Change[], random: Random, unit?: number): void {
  if (changes.length === 0) return;
  const style = random.int(8);
  if (style === 0) return;
  const grown = style === 1 ? changes.length : random.int(changes.length + 1);
  let length = target.length;
  let lengthLost = false;
  for (let i = 0; i < changes.length; i++) {
    const change = changes[i]!;
    if (change.bytes === undefined) {
      if (i >= grown) lengthLost = true;
      else if (!lengthLost) target.truncate(change.position);
      if (!lengthLost) length = change.position;
      continue;
    }
    const write = lengthLost ? clip(change, target.length) : change;
    if (i < grown) length = Math.max(length, write.position + write.bytes!.length);
    if (style === 1 || (style <= 3 && i < grown)) apply(target, write);
    else if (style <= 3 && i === grown) tear(target, write, random, unit);
    else if (style >= 4) {
      const choice = random.int(3);
      if (choice === 0) apply(target, write);
      else if (choice === 1) tear(target, write, random, unit);
    }
  }
  // The length of a grown file may be on the disk without the bytes: then they read as zeros.
  if (style !== 1 && length > target.length && random.int(4) === 0) target.truncate(length);
}

function clip(change: Change, length: number): Change {
  const bytes = change.bytes!.subarray(0, Math.max(0, length - change.position));
  return bytes.length === change.bytes!.length
    ? change
    : { ...change, position: Math.min(change.position, length), bytes };
}

/**
 * Keeps part of one write: a beginning that ends at any byte, or any of its units, of which the last may be cut at any byte. With a `unit`
 * given also the likely cases: the last one whole, and all but one, which makes a record that looks whole from outside.
 */
function tear(target: SparseBytes, change: Change, random: Random, unit?: number): void {
  const bytes = change.bytes;
  if (bytes === undefined || bytes.length === 0) return;
  if (random.int(2) === 0) {
    target.write(bytes.subarray(0, random.int(bytes.length)), change.position);
    return;
  }
  const step = unit ?? SECTOR;
  const wholeLast = unit !== undefined && random.int(2) === 0;
  const hole = unit !== undefined && random.int(2) === 0 ? random.int(Math.ceil(bytes.length / step) + 1) : -1;
  const end = change.position + bytes.length;
  const first = change.position - (change.position % step);
  for (let at = change.position; at < end; ) {
    const next = Math.min(end, at - (at % step) + step);
    const kept = hole < 0 ? random.int(2) === 0 : (at - (at % step) - first) / step !== hole;
    if (kept) {
      const stop = next === end && !wholeLast ? at + random.int(next - at + 1) : next;
      target.write(bytes.subarray(at - change.position, stop - change.position), at);
    }
    at = next;
  }
}

/** Names of a folder, as seen and as durable. */
export class DirectoryNode {
  seen: Map<string, MemoryNode> = new Map();
  durable: Map<string, MemoryNode> = new Map();
  modifiedMs: number;

  constructor(modifiedMs: number) {
    this.modifiedMs = modifiedMs;
  }

  /** A copy of what programs see, all of it durable. */
  clone(): DirectoryNode {
    const copy = new DirectoryNode(this.modifiedMs);
    for (const [name, node] of this.seen) copy.seen.set(name, node.clone());
    copy.durable = new Map(copy.seen);
    return copy;
  }
}

export type MemoryNode = FileNode | DirectoryNode;

/** One step that changes names: a creation, a removal, or the two halves of a rename, which survive together or not at all. */
export type NameChange = ReadonlyArray<{ directory: DirectoryNode; name: string; node: MemoryNode | undefined }>;

/** Makes one step durable. */
export function settleNames(change: NameChange): void {
  for (const { directory, name, node } of change) {
    if (node === undefined) directory.durable.delete(name);
    else directory.durable.set(name, node);
  }
}

/** Of the unsynced steps, keeps what a real file system could have kept: none, all, a beginning, or any of them. */
export function keepSomeNames(changes: readonly NameChange[], random: Random): void {
  const style = random.int(4);
  if (style === 0) return;
  const kept = style === 1 ? changes.length : random.int(changes.length + 1);
  for (let i = 0; i < changes.length; i++) {
    if (style <= 2 ? i < kept : random.int(2) === 0) settleNames(changes[i]!);
  }
}
