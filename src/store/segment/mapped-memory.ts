// Mapped segments: the log grows in the pages of its own files. The files are sparse at their full length; ahead of where the log ends a
// window of panes is prepared off the loop, each with its blocks reserved and its pages present:
//
//   |== chunk ==|== chunk, filling ====|---- pane ----|---- pane ----|  . . . sparse . . . |
//                            wrote ^     └ overlap ┘ reserved, mapped, waiting
//
// A pane goes on a little way into the next one, so that a record which runs over its end finds room. An append only ever touches a
// pane that is ready: where none is (the window lags behind, a record is longer than the overlap, the disk has no blocks) the bytes lie
// in memory of the process and a commit writes them. So a disk without space is the result of a call, and never a signal.
//
// What is left is a file that someone else cuts while it is mapped: touching a page behind the cut ends the process (SIGBUS). The length
// is looked at before each pane is mapped and each second; a file that was cut stops the log as a failed sync does.
// RocketMQ: DefaultMappedFile, AllocateMappedFileService. It maps whole files and lets the system find the blocks as pages are touched.

import { type Clock, GantryError, type Logger, SeldomWarning } from '../../common/index.ts';
import type { FileMapper, Mapping } from '../../io/index.ts';
import type { SegmentFile } from './segment-directory.ts';
import { BufferedMemory, type Chunk, type SegmentMemory } from './segment-memory.ts';

/** Bytes of a pane at most, and how far it goes on into the next one. */
const PANE_BYTES = 4 * 1024 * 1024;
const OVERLAP_BYTES = 64 * 1024;
/** Panes that are ready or being prepared ahead of where the log ends. */
const PANES_AHEAD = 4;
const LOOK_MS = 1000;
/** A disk that had no blocks is asked again after so long. */
const RETRY_MS = 10_000;

interface Pane {
  file: SegmentFile;
  start: number;
  end: number;
  /** Absent while it is being prepared. */
  mapping: Mapping | undefined;
  wanted: boolean;
}

export interface MappedMemoryOptions {
  mapper: FileMapper;
  clock: Clock;
  logger: Logger;
  /** Bytes of a file of the log. */
  fileSize: number;
  /** Pages are made ready for writing, not only present (see the decision page). */
  writable: boolean;
  /** Pages are locked into memory. */
  lock: boolean;
  /** The disk has no blocks for the log to go on into. */
  onDiskFull: (error: GantryError) => void;
}

export class MappedMemory implements SegmentMemory {
  onCut: (error: GantryError) => void = () => {};
  readonly #options: MappedMemoryOptions;
  readonly #buffered = new BufferedMemory();
  readonly #seldom: SeldomWarning;
  readonly #paneBytes: number;
  readonly #overlap: number;
  /** Ready or under way, in the order of the log. */
  #panes: Pane[] = [];
  readonly #used = new Map<Chunk, Pane>();
  /** End of the last pane, overlap apart. */
  #preparedTo = -1;
  #preparing = false;
  #notBefore = 0;
  #off = false;
  #place: { file: SegmentFile; offset: number; next: SegmentFile | undefined } | undefined;
  readonly #timer: { cancel(): void };

  constructor(options: MappedMemoryOptions) {
    const page = options.mapper.pageBytes;
    this.#options = options;
    this.#seldom = new SeldomWarning(options.clock, options.logger);
    // Small files have a few panes, too.
    this.#paneBytes = Math.min(PANE_BYTES, Math.ceil(options.fileSize / 4 / page) * page);
    this.#overlap = Math.min(OVERLAP_BYTES, this.#paneBytes);
    options.mapper.onLockFailed = (reason) => options.logger.warn(`pages of the log are not locked: ${reason}`);
    this.#timer = options.clock.every(LOOK_MS, () => this.#look());
  }

  chunkFor(file: SegmentFile, offset: number, size: number, mayMap: boolean): Chunk {
    const pane = this.#paneFor(file, offset, size);
    if (!mayMap || pane === undefined) return this.#buffered.chunkFor(file, offset, size);
    this.#panes.shift();
    const bytes = pane.mapping!.bytes.subarray(offset - pane.start);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const chunk: Chunk = { start: offset, used: 0, bytes, view, file, mapped: true };
    this.#used.set(chunk, pane);
    return chunk;
  }

  canMap(file: SegmentFile, offset: number): boolean {
    return this.#paneFor(file, offset, Math.min(this.#overlap, file.end - offset)) !== undefined;
  }

  #paneFor(file: SegmentFile, offset: number, size: number): Pane | undefined {
    this.#dropPanes((pane) => pane.end <= offset);
    const pane = this.#panes[0];
    const fits = pane?.mapping !== undefined && pane.file === file && pane.start <= offset && offset + size <= pane.end;
    return fits ? pane : undefined;
  }

  release(chunk: Chunk): void {
    if (!chunk.mapped) return this.#buffered.release(chunk);
    this.#used.get(chunk)?.mapping?.end();
    this.#used.delete(chunk);
  }

  takeBuffer(size: number): Uint8Array {
    return this.#buffered.takeBuffer(size);
  }

  giveBuffer(bytes: Uint8Array): void {
    this.#buffered.giveBuffer(bytes);
  }

  advance(file: SegmentFile, offset: number, next: SegmentFile | undefined): void {
    const enough = this.#preparedTo - offset >= PANES_AHEAD * this.#paneBytes;
    if (enough || this.#preparing || this.#off) return;
    this.#place = { file, offset, next };
    this.#prepare();
  }

  forget(file?: SegmentFile): void {
    this.#dropPanes((pane) => file === undefined || pane.file === file);
    this.#preparedTo = -1;
    this.#place = undefined;
    if (file !== undefined) return;
    this.#off = true;
    this.#timer.cancel();
  }

  #dropPanes(which: (pane: Pane) => boolean): void {
    if (this.#panes.length === 0 || !this.#panes.some(which)) return;
    for (const pane of this.#panes) {
      if (!which(pane)) continue;
      pane.wanted = false;
      pane.mapping?.end();
    }
    this.#panes = this.#panes.filter((pane) => pane.wanted);
  }

  /** Prepares the next pane of the window, one at a time. */
  #prepare(): void {
    const { mapper, clock, writable, lock } = this.#options;
    if (this.#place === undefined || this.#off || clock.monotonic() < this.#notBefore) return;
    const { offset, next } = this.#place;
    let { file } = this.#place;
    const page = mapper.pageBytes;
    let start = Math.max(this.#preparedTo, offset - ((offset - file.base) % page));
    if (start - offset >= PANES_AHEAD * this.#paneBytes) return;
    if (start >= file.end) {
      if (next === undefined || !next.ready) return;
      file = next;
      start = Math.max(start, file.base);
      if (start >= file.end) return;
    }
    if (!file.ready || this.#wasCut(file)) return;
    const end = Math.min(file.end, start + this.#paneBytes + this.#overlap);
    const pane: Pane = { file, start, end, mapping: undefined, wanted: true };
    this.#panes.push(pane);
    this.#preparing = true;
    this.#preparedTo = Math.min(file.end, start + this.#paneBytes);
    file.pin();
    mapper.map(file.handle(), start - file.base, end - start, { writable, lock }, (error, mapping) => {
      file.unpin();
      this.#preparing = false;
      if (error !== undefined) return this.#failed(pane, error);
      if (!pane.wanted || this.#off) mapping!.end();
      else pane.mapping = mapping;
      this.#prepare();
    });
  }

  #failed(pane: Pane, error: GantryError): void {
    this.#panes = this.#panes.filter((other) => other !== pane);
    if (pane.wanted) this.#preparedTo = -1;
    if (this.#off) return;
    if (error.code === 'DISK_FULL') {
      this.#notBefore = this.#options.clock.monotonic() + RETRY_MS;
      return this.#options.onDiskFull(error);
    }
    this.#off = true;
    this.#seldom.warn('map', `${error.message}; from now on the log is written through memory of the process`);
  }

  /** Looks whether a file that is mapped was cut. */
  #look(): void {
    const files = new Set<SegmentFile>();
    for (const pane of this.#used.values()) files.add(pane.file);
    for (const pane of this.#panes) files.add(pane.file);
    for (const file of files) if (this.#wasCut(file)) return;
    // A disk that had no blocks, or a next file that was not there yet.
    if (!this.#preparing) this.#prepare();
  }

  #wasCut(file: SegmentFile): boolean {
    let length: number;
    try {
      length = file.handle().size();
    } catch {
      return false;
    }
    if (length >= file.size) return false;
    this.#off = true;
    this.#dropPanes(() => true);
    this.onCut(new GantryError('IO', `${file.path} has ${length} bytes, ${file.size} are expected: it was cut`));
    return true;
  }
}
