// A disk in memory that can do everything a real disk does to a program: lose what was not synced, keep half of it, fail,
// fill up and dawdle. What programs see and what is durable are kept apart (memory-tree.ts the names, memory-node.ts the
// content); `powerCut` lets a seed decide
// what of the difference survived. Every asynchronous completion passes through a scheduler that is handed in, so that a seed
// orders those too.
//
// It is as strict as POSIX allows: a file's sync does not make its name durable, a folder's sync does not make the folder's
// own name durable, an asynchronous write is seen when it completes and not before, and a failed sync loses what it covered.

import { assert, type Clock, GantryError, type Random, systemClock } from '../common/index.ts';
import type { DoneMapping, FileMapper, Mapping } from './file-mapper.ts';
import type { Done, DoneBytes, FileHandle, FileStat, FileSystem, OpenMode, SyncLane } from './file-system.ts';
import { type FaultRule, Faults, type Hold, type InjectedFault, type Operation } from './memory-faults.ts';
import { MemoryFileHandle, powerError } from './memory-file-handle.ts';
import { DirectoryNode, FileNode, MemoryMapping, type MemoryNode } from './memory-node.ts';
import { ioError, MemoryTree } from './memory-tree.ts';

const PAGE = 4096;

export interface MemoryFileSystemOptions {
  /** Runs each asynchronous completion, sooner or later. Default: `clock.soon`. */
  schedule?: (task: () => void) => void;
  /** For modification times and the default schedule; default the real clock. */
  clock?: Clock;
  /** Decides what a failed sync kept; without it, nothing is kept. */
  random?: Random;
  /** Folders that exist, durably, from the start. */
  directories?: readonly string[];
}

/** Work that was handed over and has not completed: does as much of it as a cut in its middle might leave. */
type Leave = ((random: Random) => void) | undefined;

export class MemoryFileSystem implements FileSystem {
  /** True: file syncs report success and do nothing, as a disk with a lying cache. Directory syncs still work. */
  syncLies = false;
  /** True: the write at which the process or the power goes may have been done in part; else nothing of it is there. */
  tearsInterrupted = false;
  /** Called before each operation that is attempted, for tests that count. */
  onOperation: ((operation: Operation, path: string) => void) | undefined;
  /** Maps files of this disk. */
  readonly mapper: FileMapper = {
    pageBytes: PAGE,
    onLockFailed: undefined,
    map: (handle, position, length, _options, done) => this.#map(handle, position, length, done),
  };
  /** What `usedFraction` answers while no capacity is set. */
  reportedUsedFraction = 0;
  /** What `partitionBytes` answers while no capacity is set. */
  reportedBytes = -1;

  #tree: MemoryTree;
  #boots = 1;
  readonly #ids = new WeakMap<MemoryNode, number>();
  #lastId = 0;
  #epoch = 0;
  #openHandles = 0;
  /** Open handles by descriptor number; the lowest free number goes to the next one, as POSIX has it. */
  #descriptors: Array<MemoryFileHandle | undefined> = [];
  #capacityPages: number | undefined;
  #operationsLeft = Number.POSITIVE_INFINITY;
  #down = false;
  readonly #mappings = new Set<MemoryMapping>();
  readonly #inFlight = new Set<{ leave: Leave }>();
  readonly #faults = new Faults();
  readonly #clock: Clock;
  readonly #random: Random | undefined;
  readonly #schedule: (task: () => void) => void;

  constructor(options: MemoryFileSystemOptions = {}) {
    const clock = options.clock ?? systemClock;
    this.#clock = clock;
    this.#random = options.random;
    this.#schedule = options.schedule ?? ((task) => clock.soon(task));
    this.#tree = new MemoryTree(clock);
    for (const path of options.directories ?? []) this.makeDirectory(path);
    this.settle();
  }

  // --- FileSystem

  open(path: string, mode: OpenMode): FileHandle {
    this.#begin('open', path);
    let node = this.#tree.find(path);
    if (node instanceof DirectoryNode) throw ioError('open', path, 'EISDIR');
    if (node === undefined) {
      if (mode !== 'create') throw ioError('open', path, 'ENOENT');
      this.#begin('create', path);
      node = this.#tree.create(path);
    }
    this.#openHandles++;
    return new MemoryFileHandle(this, path, node, mode !== 'read');
  }

  stat(path: string): FileStat | undefined {
    this.#requirePower('look at', path);
    const node = this.#tree.find(path);
    if (node === undefined) return undefined;
    const isDirectory = node instanceof DirectoryNode;
    return {
      size: isDirectory ? PAGE : node.seen.length,
      isDirectory,
      modifiedMs: node.modifiedMs,
      id: this.#idOf(node),
    };
  }

  list(path: string): string[] {
    this.#requirePower('list', path);
    const node = this.#tree.find(path);
    if (node === undefined) return [];
    if (node instanceof FileNode) throw ioError('list', path, 'ENOTDIR');
    // Reversed, so that nobody relies on an order that a real directory does not promise.
    return [...node.seen.keys()].reverse();
  }

  makeDirectory(path: string): void {
    this.#begin('makeDirectory', path);
    this.#tree.makeDirectory(path);
  }

  remove(path: string): void {
    this.#begin('remove', path);
    const node = this.#tree.find(path);
    if (node === undefined) return;
    if (node instanceof DirectoryNode) throw ioError('remove', path, 'EISDIR');
    this.#tree.remove(path);
  }

  removeLater(path: string, done: Done): void {
    const remove = (): void => {
      const node = this.#tree.find(path);
      const { directory, name } = this.#tree.place(path, 'remove');
      if (node instanceof DirectoryNode) throw ioError('remove', path, 'EISDIR');
      if (node !== undefined) this.#tree.change([{ directory, name, node: undefined }]);
    };
    const run = (): void => {
      remove();
      this.#tree.settleDirectory(this.#tree.place(path, 'remove').directory);
    };
    const leave = (random: Random): void => {
      if (random.int(2) === 0) remove();
    };
    this.#attemptLater('remove', path, done, run, leave);
  }

  removeTree(path: string): void {
    this.#begin('remove', path);
    if (this.#tree.find(path) !== undefined) this.#tree.remove(path);
  }

  rename(from: string, to: string): void {
    this.#begin('rename', from);
    const node = this.#tree.find(from);
    if (node === undefined) throw ioError('rename', from, 'ENOENT');
    const source = this.#tree.place(from, 'rename');
    const target = this.#tree.place(to, 'rename');
    const old = target.directory.seen.get(target.name);
    if (old instanceof DirectoryNode && (node instanceof FileNode || old.seen.size > 0)) {
      throw ioError('rename', from, node instanceof FileNode ? 'EISDIR' : 'ENOTEMPTY');
    }
    if (old instanceof FileNode && node instanceof DirectoryNode) throw ioError('rename', from, 'ENOTDIR');
    if (old === node) return;
    this.#tree.change([
      { ...source, node: undefined },
      { ...target, node },
    ]);
  }

  syncDirectory(path: string): void {
    this.#begin('syncDirectory', path);
    const directory = this.#tree.find(path);
    if (!(directory instanceof DirectoryNode)) throw ioError('sync the directory', path, 'ENOENT');
    this.#tree.settleDirectory(directory);
  }

  syncDirectoryLater(path: string, done: Done): void {
    // As with a file, what comes after the call is not covered.
    const directory = this.#tree.find(path);
    const covered = new Set(this.#tree.changes);
    this.#attemptLater('syncDirectory', path, done, () => {
      if (directory instanceof DirectoryNode) this.#tree.settleDirectory(directory, covered);
    });
  }

  createSized(path: string, length: number, done: Done): void {
    const create = (): FileNode => {
      const node = this.#tree.find(path);
      if (node instanceof DirectoryNode) throw ioError('create', path, 'EISDIR');
      return node ?? this.#tree.create(path);
    };
    const run = (): void => {
      const node = create();
      node.truncate(length);
      if (!this.syncLies) node.settle(node.order);
      this.#tree.settleDirectory(this.#tree.place(path, 'create').directory);
    };
    const leave = (random: Random): void => {
      const reached = random.int(4);
      if (reached === 0) return;
      const node = create();
      if (reached >= 2) node.truncate(length);
      if (reached === 3) node.settle(node.order);
    };
    this.#attemptLater('createSized', path, done, run, leave);
  }

  bootId(): string {
    return `boot-${this.#boots}`;
  }

  #idOf(node: MemoryNode): number {
    let id = this.#ids.get(node);
    if (id === undefined) {
      id = ++this.#lastId;
      this.#ids.set(node, id);
    }
    return id;
  }

  #map(handle: FileHandle, position: number, length: number, done: DoneMapping): void {
    assert(handle instanceof MemoryFileHandle && position % PAGE === 0, 'a mapping of another disk, or in a page');
    const { node } = handle;
    let mapped: Mapping | undefined;
    const run = (): void => {
      const free = this.#capacityPages === undefined ? Infinity : this.#capacityPages - this.#tree.usedPages;
      if (!node.seen.reserve(position, length, free)) {
        throw new GantryError('DISK_FULL', `no space left while trying to reserve ${handle.path}`);
      }
      const mapping = new MemoryMapping(node, position, length);
      this.#mappings.add(mapping);
      const end = (): void => {
        if (!this.#mappings.has(mapping)) return;
        mapping.absorb();
        mapping.end();
        this.#mappings.delete(mapping);
      };
      mapped = { bytes: mapping.bytes, end };
    };
    this.#attemptLater('map', handle.path, (error) => done(error, mapped), run);
  }

  usedFraction(path: string): number {
    this.#requirePower('look at', path);
    if (this.#capacityPages === undefined) return this.reportedUsedFraction;
    return this.#capacityPages === 0 ? 1 : this.#tree.usedPages / this.#capacityPages;
  }

  partitionBytes(path: string): number {
    this.#requirePower('look at', path);
    return this.#capacityPages === undefined ? this.reportedBytes : this.#capacityPages * PAGE;
  }

  openSyncLane(): SyncLane {
    return { sync: (file, done) => file.sync(done), close: () => Promise.resolve() };
  }

  // --- Faults

  /** Makes matching operations fail: the next one, or as many as `rule.times` says. */
  fail(rule: FaultRule): InjectedFault {
    return this.#faults.add(rule);
  }

  /** Holds the completions of matching asynchronous operations until they are released. */
  hold(operation: Operation, path?: string | RegExp): Hold {
    return this.#faults.hold(operation, path, (task) => this.#schedule(task));
  }

  /** Leaves room for `bytes` more in blocks of 4 KiB; a write beyond that does what fits and fails with DISK_FULL. */
  fillAfter(bytes: number): void {
    this.#capacityPages = this.#tree.usedPages + Math.floor(bytes / PAGE);
  }

  /** Sets when a file was written last. */
  setModified(path: string, modifiedMs: number): void {
    this.#tree.find(path)!.modifiedMs = modifiedMs;
  }

  /** Ends a full disk. */
  freeSpace(): void {
    this.#capacityPages = undefined;
  }

  /** After `operations` more that change something the power goes: everything fails with IO until `powerCut` or `kill`. */
  powerOffAfter(operations: number): void {
    this.#operationsLeft = operations;
  }

  /** The power is off since the count of `powerOffAfter` ran out. */
  get isDown(): boolean {
    return this.#down;
  }

  /** Handles that are open; a power cut or kill closes all. */
  get openHandles(): number {
    return this.#openHandles;
  }

  /** Makes everything that programs see durable, as after a long quiet time. */
  settle(): void {
    this.#absorb();
    this.#tree.settle();
  }

  /**
   * The machine loses its power and comes back. Of every unsynced write, length and name the seed keeps all, some or nothing;
   * what was in flight may have been done in part. Faults, holds and a power-off count end; all handles are dead.
   * `unit`: bytes that are written back whole: a sector, which is the default, or a page.
   */
  powerCut(random: Random, unit?: number): void {
    this.#boots++;
    this.#endProcess(random);
    this.#tree.powerCut(random, unit);
  }

  /** The process is killed: the system keeps all that was written; what was in flight is done, in part done or not. Handles are dead. */
  kill(random: Random): void {
    this.#endProcess(random);
  }

  /** A disk of its own with the same content, all of it durable, and no faults. */
  clone(options: Omit<MemoryFileSystemOptions, 'directories'> = {}): MemoryFileSystem {
    this.#absorb();
    const copy = new MemoryFileSystem({ clock: this.#clock, ...options });
    copy.#tree = this.#tree.clone(copy.#clock);
    return copy;
  }

  // --- For MemoryFileHandle

  /** The number of power cuts and kills so far; a handle from before is dead. */
  get epoch(): number {
    return this.#epoch;
  }

  /** Gives a fresh handle its number. */
  handleOpened(handle: MemoryFileHandle): number {
    let number = this.#descriptors.indexOf(undefined);
    if (number < 0) number = this.#descriptors.length;
    this.#descriptors[number] = handle;
    return number;
  }

  handleClosed(epoch: number, number: number): void {
    if (epoch !== this.#epoch) return;
    this.#openHandles--;
    this.#descriptors[number] = undefined;
  }

  /** Who has a descriptor's number now: the system knows the number only, and a closed one may be another file's by the time. */
  #holder(number: number, action: string, path: string): FileNode {
    const holder = this.#descriptors[number];
    if (holder === undefined) throw ioError(action, path, 'EBADF');
    return holder.node;
  }

  readNow(handle: MemoryFileHandle, target: Uint8Array, start: number, length: number, position: number): number {
    this.#begin('read', handle.path);
    return handle.node.seen.read(target, start, length, position);
  }

  writeNow(handle: MemoryFileHandle, bytes: Uint8Array, position: number): void {
    if (this.tearsInterrupted && this.#operationsLeft === 0 && this.#random !== undefined && !this.#down) {
      const part = bytes.slice(0, this.#random.int(bytes.length + 1));
      const fits = this.#fitting(handle.node, part.length, position);
      if (fits > 0) handle.node.write(part.slice(0, fits), position);
    }
    const fault = this.#attempt('write', handle.path);
    this.#write(handle.path, handle.node, bytes, position, fault);
  }

  writeLater(handle: MemoryFileHandle, source: Uint8Array, position: number, done: Done): void {
    const fault = this.#attempt('write', handle.path);
    const bytes = new Uint8Array(source);
    const run = (): void => {
      assert(same(source, bytes), 'the source of an asynchronous write changed before it completed');
      try {
        this.#write(handle.path, this.#holder(handle.number, 'write', handle.path), bytes, position, fault);
      } catch (error) {
        return done(error as GantryError);
      }
      done(undefined);
    };
    const leave = (random: Random): void => {
      if (fault !== undefined || random.int(2) === 1) return;
      const length = this.tearsInterrupted && random.int(2) === 0 ? random.int(bytes.length) : bytes.length;
      const fits = this.#fitting(handle.node, length, position);
      if (fits > 0) handle.node.write(bytes.slice(0, fits), position);
    };
    this.#submit('write', handle.path, leave, run);
  }

  readLater(
    handle: MemoryFileHandle,
    target: Uint8Array,
    start: number,
    length: number,
    position: number,
    done: DoneBytes,
  ): void {
    const fault = this.#attempt('read', handle.path);
    this.#submit('read', handle.path, undefined, () => {
      if (fault !== undefined) return done(fault.error, 0);
      let node: FileNode;
      try {
        node = this.#holder(handle.number, 'read', handle.path);
      } catch (error) {
        return done(error as GantryError, 0);
      }
      done(undefined, node.seen.read(target, start, length, position));
    });
  }

  syncNow(handle: MemoryFileHandle): void {
    this.#sync(handle.node, handle.node.order, this.#attempt('sync', handle.path));
  }

  syncLater(handle: MemoryFileHandle, done: Done): void {
    const fault = this.#attempt('sync', handle.path);
    const order = handle.node.order;
    this.#submit('sync', handle.path, undefined, () => {
      try {
        const node = this.#holder(handle.number, 'sync', handle.path);
        if (node === handle.node) this.#sync(node, order, fault);
      } catch (error) {
        return done(error as GantryError);
      }
      done(undefined);
    });
  }

  truncateNow(handle: MemoryFileHandle, length: number): void {
    this.#begin('truncate', handle.path);
    handle.node.truncate(length);
    handle.node.modifiedMs = this.#clock.now();
  }

  /** Reports an error to a callback, later as everything. */
  failLater(done: (error: GantryError) => void, error: GantryError): void {
    this.#schedule(() => done(error));
  }

  // --- Inside

  /** How much of a write there is room for. */
  #fitting(node: FileNode, length: number, position: number): number {
    if (this.#capacityPages === undefined) return length;
    return node.seen.fitting(length, position, this.#capacityPages - this.#tree.usedPages);
  }

  #write(path: string, node: FileNode, bytes: Uint8Array, position: number, fault: Struck | undefined): void {
    const allowed = fault === undefined ? bytes.length : Math.min(bytes.length, fault.keepBytes);
    const fits = this.#fitting(node, allowed, position);
    if (fits > 0) node.write(fits === bytes.length ? bytes : bytes.slice(0, fits), position);
    node.modifiedMs = this.#clock.now();
    if (fits < allowed) {
      throw new GantryError('DISK_FULL', `no space left while trying to write ${path}`);
    }
    if (fault !== undefined && !fault.silent) throw fault.error;
  }

  #sync(node: FileNode, order: number, fault: Struck | undefined): void {
    if (fault !== undefined) {
      node.lose(order, this.#random);
      if (!fault.silent) throw fault.error;
    } else if (!this.syncLies) {
      node.settle(order);
    }
  }

  /** Attempts an operation that completes later: a fault, and what `work` throws then, are reported to `done`. */
  #attemptLater(operation: Operation, path: string, done: Done, work: () => void, leave?: Leave): void {
    let fault: Struck | undefined;
    try {
      fault = this.#attempt(operation, path);
    } catch (error) {
      return this.failLater(done, error as GantryError);
    }
    this.#submit(operation, path, fault === undefined ? leave : undefined, () => {
      let failure = fault?.error;
      try {
        if (failure === undefined) work();
      } catch (error) {
        failure = error as GantryError;
      }
      done(failure);
    });
  }

  #submit(operation: Operation, path: string, leave: Leave, work: () => void): void {
    const epoch = this.#epoch;
    const entry = { leave };
    this.#inFlight.add(entry);
    const task = (): void => {
      // The process that waited for this is gone.
      if (epoch !== this.#epoch || this.#down) return;
      this.#inFlight.delete(entry);
      this.#absorb();
      work();
    };
    if (!this.#faults.held(operation, path, task)) this.#schedule(task);
  }

  #endProcess(random: Random): void {
    this.#absorb();
    this.#unmap();
    this.#down = false;
    this.#operationsLeft = Number.POSITIVE_INFINITY;
    this.#capacityPages = undefined;
    this.#faults.clear();
    const interrupted = [...this.#inFlight];
    this.#inFlight.clear();
    for (const entry of interrupted) {
      try {
        entry.leave?.(random);
      } catch {
        // The folder is gone meanwhile: nothing is left of it.
      }
    }
    this.#epoch++;
    this.#openHandles = 0;
    this.#descriptors = [];
  }

  /** Counts an operation, applies power-off, and answers the fault that strikes it. */
  #attempt(operation: Operation, path: string): Struck | undefined {
    this.#requirePower(operation, path);
    this.onOperation?.(operation, path);
    this.#absorb();
    if (operation !== 'read' && operation !== 'open' && --this.#operationsLeft < 0) {
      this.#down = true;
      this.#unmap();
      throw powerError(operation, path);
    }
    const rule = this.#faults.strike(operation, path);
    if (rule === undefined) return undefined;
    const code = rule.code ?? 'IO';
    const text =
      code === 'IO' ? `cannot ${operation} ${path}: EIO` : `no space left while trying to ${operation} ${path}`;
    return { error: new GantryError(code, text), keepBytes: rule.keepBytes ?? 0, silent: rule.silent ?? false };
  }

  /** Looks what programs have changed in mapped pages. */
  #absorb(): void {
    if (!this.#down) for (const mapping of this.#mappings) mapping.absorb();
  }

  /** The process is gone, and its memory. */
  #unmap(): void {
    for (const mapping of this.#mappings) mapping.end();
    this.#mappings.clear();
  }

  #begin(operation: Operation, path: string): void {
    const fault = this.#attempt(operation, path);
    if (fault !== undefined) throw fault.error;
  }

  #requirePower(operation: string, path: string): void {
    if (this.#down) throw powerError(operation, path);
  }
}

/** What a fault does to one operation. */
interface Struck {
  error: GantryError;
  keepBytes: number;
  silent: boolean;
}

function same(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}
