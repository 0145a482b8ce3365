// A handle of a disk in memory: what it may still do is judged here, all work is the disk's.

import { GantryError } from '../common/index.ts';
import type { Done, DoneBytes, FileHandle } from './file-system.ts';
import type { MemoryFileSystem } from './memory-file-system.ts';
import type { FileNode } from './memory-node.ts';
import { ioError } from './memory-tree.ts';

export class MemoryFileHandle implements FileHandle {
  readonly path: string;
  readonly fd = -1;
  readonly node: FileNode;
  /** What the system calls it; `fd` stays -1, so that nobody hands it to the real one. */
  readonly number: number;
  readonly #disk: MemoryFileSystem;
  readonly #epoch: number;
  readonly #writable: boolean;
  #open = true;

  constructor(disk: MemoryFileSystem, path: string, node: FileNode, writable: boolean) {
    this.path = path;
    this.node = node;
    this.#disk = disk;
    this.#epoch = disk.epoch;
    this.#writable = writable;
    this.number = disk.handleOpened(this);
  }

  readSync(target: Uint8Array, targetStart: number, length: number, position: number): number {
    this.#require('read', false);
    return this.#disk.readNow(this, target, targetStart, length, position);
  }

  read(target: Uint8Array, targetStart: number, length: number, position: number, done: DoneBytes): void {
    this.#later(
      'read',
      false,
      () => this.#disk.readLater(this, target, targetStart, length, position, done),
      (error) => done(error, 0),
    );
  }

  writeSync(source: Uint8Array, sourceStart: number, length: number, position: number): void {
    this.#require('write', true);
    // A copy even of a Buffer, whose `slice` would share its memory.
    this.#disk.writeNow(this, new Uint8Array(source.subarray(sourceStart, sourceStart + length)), position);
  }

  write(source: Uint8Array, sourceStart: number, length: number, position: number, done: Done): void {
    const bytes = source.subarray(sourceStart, sourceStart + length);
    this.#later('write', true, () => this.#disk.writeLater(this, bytes, position, done), done);
  }

  sync(done: Done): void {
    this.#later('sync', false, () => this.#disk.syncLater(this, done), done);
  }

  syncSync(): void {
    this.#require('sync', false);
    this.#disk.syncNow(this);
  }

  truncateSync(length: number): void {
    this.#require('change the length of', true);
    this.#disk.truncateNow(this, length);
  }

  readNoMore(): void {}

  size(): number {
    this.#require('look at', false);
    return this.node.seen.length;
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#disk.handleClosed(this.#epoch, this.number);
  }

  #require(action: string, write: boolean): void {
    if (!this.#open || this.#epoch !== this.#disk.epoch) throw ioError(action, this.path, 'EBADF');
    if (write && !this.#writable) throw ioError(action, this.path, 'EBADF');
    if (this.#disk.isDown) throw powerError(action, this.path);
  }

  /** Starts asynchronous work; what cannot start is reported to its callback, as a real disk does it. */
  #later(action: string, write: boolean, start: () => void, fail: (error: GantryError) => void): void {
    try {
      this.#require(action, write);
      start();
    } catch (error) {
      if (!(error instanceof GantryError)) throw error;
      this.#disk.failLater(fail, error);
    }
  }
}

export function powerError(action: string, path: string): GantryError {
  return ioError(action, path, 'the power is off');
}
