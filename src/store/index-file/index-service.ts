// The index of message keys: `topic#key` to the physical offsets of messages that may have that key (I3: candidates only, whoever asks
// compares the real key). A derived store: everything here can be built again from the CommitLog (docs/formats/index-file.md).
//
// Dispatch calls `beginMessage` for every record in log order and, if it answers true, `putKey` for each key. Both touch memory only.
// A full file is written and synced in the background while the next one fills.

import { type Clock, errorText, GantryError, type Logger } from '../../common/index.ts';
import type { Done, FileSystem } from '../../io/index.ts';
import type { DerivedStore } from './derived-store.ts';
import { IndexFile, type IndexUnit, walkChain } from './index-file.ts';
import { IndexHeader, type IndexLayout, indexFileName } from './index-format.ts';
import { type IndexType, queryHash } from './index-key.ts';
import { type IndexOptions, type IndexProgress, type LoadedIndex, loadIndex } from './index-load.ts';
import { compareSlots, cutFile, loadSlots, popUnits, removeNewestFirst, type StoreTimeOf } from './index-scan.ts';
import { indexSum } from './index-sum.ts';
import { IndexWriter } from './index-writer.ts';

/** Units that may wait for a disk that refuses them; beyond, the index stands still until the next start. */
const MAX_BACKLOG_BYTES = 64 * 1024 * 1024;

export class IndexService implements DerivedStore {
  readonly name = 'index';
  readonly #fs: FileSystem;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #path: string;
  readonly #layout: IndexLayout;
  readonly #storeTimeOf: StoreTimeOf | undefined;
  readonly #onSealed: ((endTimestamp: number) => void) | undefined;
  readonly #onUnsealed: IndexOptions['onUnsealed'];

  /** Oldest first; never an empty writer in front of the last. */
  #files: IndexFile[];
  /** Of the last file; undefined until the first key comes, and when there is no file. */
  #writer: IndexWriter | undefined;
  /** Physical offset of the last message begun; -1 before the first. */
  #lastMessage: number;
  #durableOffset: number;
  #durable: IndexProgress | undefined;
  /** Files that are full and not yet durable, oldest first. */
  #sealing: Array<{ file: IndexFile; writer: IndexWriter; done: boolean }> = [];
  #whenSealed: Array<() => void> = [];
  /** Why no more keys are taken until the next start; undefined while all is well. */
  #standstill: string | undefined;

  private constructor(options: IndexOptions, loaded: LoadedIndex) {
    this.#fs = options.fs;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#path = options.path;
    this.#layout = options.layout;
    this.#storeTimeOf = options.storeTimeOf;
    this.#onSealed = options.onSealed;
    this.#onUnsealed = options.onUnsealed;
    this.#files = loaded.files;
    this.#durableOffset = loaded.durableOffset;
    this.#durable = this.#progressTo(loaded.durableOffset);
    this.#lastMessage = loaded.durableOffset - 1;
  }

  /**
   * Opens the index folder. After a clean stop nothing is written.
   * @throws GantryError STORE_FILE_SIZE when a file does not fit the settings, IO.
   */
  static open(options: IndexOptions): IndexService {
    return new IndexService(options, loadIndex(options));
  }

  /** Every record that starts below this physical offset has its keys durably in the files: dispatch to the index goes on from here. */
  get durableOffset(): number {
    return this.#durableOffset;
  }

  /** The last flush: to be saved, for the next start to be given (IndexOptions.progress). Messages without keys leave no trace in the files. */
  get progress(): IndexProgress | undefined {
    return this.#durable;
  }

  #progressTo(durableOffset: number): IndexProgress {
    const last = this.#files.findLast((file) => file.header.unitCount > 0);
    return { durableOffset, file: last?.name ?? '', units: last?.header.unitCount ?? 0 };
  }

  /** With what the newest file holds, for the next start to compare. */
  #summed(progress: IndexProgress): IndexProgress {
    const file = this.#files.find(({ name }) => name === progress.file);
    if (file === undefined || file.damaged) return progress;
    try {
      return { ...progress, crc: indexSum(this.#fs, file.path, this.#layout, progress.units) };
    } catch {
      return progress;
    }
  }

  /** Store time (ms) and physical offset of the newest message in the index; 0 if there is none. RocketMQ: indexLastUpdate*. */
  get lastUpdateTimestamp(): number {
    return this.#files.at(-1)?.header.endTimestamp ?? 0;
  }
  get lastUpdatePhysicalOffset(): number {
    return this.#files.at(-1)?.header.endPhyOffset ?? 0;
  }

  /** Why keys are not taken until the next start; undefined while all is well. What is missing then comes from the log. */
  get standstill(): string | undefined {
    return this.#standstill;
  }

  /** The files' headers, oldest first, for tools and health output. */
  describe(): Array<{ name: string; header: Readonly<IndexHeader>; damaged: boolean }> {
    return this.#files.map(({ name, header, damaged }) => ({ name, header, damaged }));
  }

  // --- Dispatch

  /**
   * To be called for each record, in log order and before its keys, rolled-back transactions too (they get no keys). False: the index has
   * this record already, or takes no keys now; then `putKey` must not be called.
   * RocketMQ: an equal offset is indexed again, which doubles the keys of one message at each recovery; here it is not.
   */
  beginMessage(phyOffset: number): boolean {
    if (phyOffset <= this.#lastMessage || this.#standstill !== undefined) return false;
    const writer = this.#writer;
    if (writer === undefined || writer.full) this.#nextFile();
    else if (writer.troubled && writer.backlogBytes > MAX_BACKLOG_BYTES)
      return this.#stop('too much waits for the disk');
    this.#lastMessage = phyOffset;
    return true;
  }

  /**
   * Adds one key of the message that was begun last.
   * @param hash a stored hash (`keyHash`), not negative.
   * @param storeTimestamp ms.
   */
  putKey(hash: number, phyOffset: number, storeTimestamp: number): void {
    if (this.#writer!.full) this.#nextFile();
    this.#writer!.put(hash, phyOffset, storeTimestamp);
  }

  // --- Queries

  /**
   * Candidates for a key, newest first, each offset once. There are foreign ones among them (another key with the same hash), and no
   * limit counts them: the caller compares the real key and breaks off when it has enough.
   * @param begin, end store times in ms, both inclusive; compared with the second that a unit keeps.
   */
  async *candidates(
    topic: string,
    key: string,
    begin: number,
    end: number,
    type: IndexType = 'K',
  ): AsyncGenerator<IndexUnit, void, void> {
    const hash = queryHash(topic, key, type);
    const seen = new Set<number>();
    const files = this.#files.slice();
    for (let i = files.length - 1; i >= 0; i--) {
      const file = files[i]!;
      if (file.damaged || file.matches(begin, end)) {
        try {
          for await (const unit of walkChain(this.#fs, file, hash, begin, end, (what) => this.#damaged(file, what))) {
            if (seen.has(unit.physicalOffset)) continue;
            seen.add(unit.physicalOffset);
            yield unit;
          }
        } catch (error) {
          if (!(error instanceof GantryError)) throw error;
          // A file that retention removed meanwhile holds nothing that is still in the log.
          if (this.#files.includes(file)) this.#logger.error(`index file ${file.path}: ${errorText(error)}`);
        }
      }
      if (!file.damaged && file.header.beginTimestamp < begin) return;
    }
  }

  // --- Life cycle

  /** Makes the keys put so far durable, and `durableOffset` follow. Costs what was added since, not the slot table. */
  flush(done: Done): void {
    const message = this.#lastMessage;
    const progress = this.#progressTo(message + 1);
    this.#afterSealing(() => {
      const writer = this.#writer;
      if (writer === undefined || message < this.#durableOffset) return done(undefined);
      writer.flush((error) => {
        if (error === undefined) {
          this.#durableOffset = Math.max(this.#durableOffset, message + 1);
          this.#durable = progress;
        } else this.#giveUp(error);
        done(error);
      });
    });
  }

  /**
   * Writes everything, slots and headers too, and syncs: the files are then what a Java broker would have left. Never fails: what could
   * not be made durable is removed, and comes back from the log at the next start.
   */
  async close(): Promise<void> {
    const last = this.#files.at(-1);
    if (last?.slots !== undefined) this.#writer = this.#continue(last);
    if (last !== undefined && this.#writer !== undefined) this.#seal(last, this.#writer);
    this.#writer = undefined;
    this.#standstill ??= 'the index is closed';
    for (const { writer } of this.#sealing) writer.stopTrying();
    await new Promise<void>((resolve) => this.#afterSealing(resolve));
    const bad = this.#files.findIndex((file) => file.writer !== undefined);
    this.#durable = bad < 0 ? this.#summed(this.#progressTo(this.#lastMessage + 1)) : undefined;
    if (bad < 0) return;
    try {
      removeNewestFirst(this.#fs, this.#path, this.#files.splice(bad));
    } catch (error) {
      this.#logger.error(`index files that are not whole could not be removed: ${errorText(error)}`);
    }
  }

  /**
   * Drops the units of records that start at or beyond `physicalOffset`, durably on return. No put may come meanwhile.
   * @throws GantryError IO, DISK_FULL.
   */
  async truncateTo(physicalOffset: number): Promise<void> {
    // Nothing is beyond it: what waits for a disk that is full keeps nobody from starting.
    if (this.#lastMessage < physicalOffset && this.#durableOffset <= physicalOffset) {
      const last = this.#files.at(-1)?.header.endPhyOffset ?? -1;
      if (last < physicalOffset) return;
    }
    await this.#quiet();
    await this.#unseal(physicalOffset);
    for (let file = this.#files.at(-1); file !== undefined; file = this.#files.at(-1)) {
      const { header } = file;
      if (header.endPhyOffset < physicalOffset) break;
      if (header.unitCount > 0 && header.beginPhyOffset < physicalOffset) {
        // A damaged file stays as it is: what it says of records that are gone is found out when they are read.
        if (file.damaged) header.endPhyOffset = physicalOffset - 1;
        else this.#cut(file, physicalOffset);
        break;
      }
      this.#files.pop();
      removeNewestFirst(this.#fs, this.#path, [file]);
    }
    if (physicalOffset < this.#durableOffset) this.#durable = undefined;
    this.#durableOffset = Math.min(this.#durableOffset, physicalOffset);
    this.#lastMessage = Math.min(this.#lastMessage, physicalOffset - 1);
  }

  /** Lengths of all files. */
  get storedBytes(): number {
    return this.#files.length * this.#layout.fileBytes;
  }

  /**
   * Removes the oldest files that hold nothing at or beyond `minPhysicalOffset`, the log's first; never the last file. One after the other,
   * off the loop and durably. Answers how many. @throws GantryError IO.
   */
  async deleteExpired(minPhysicalOffset: number): Promise<number> {
    let count = 0;
    while (this.#files.length > 1) {
      const file = this.#files[0]!;
      if (file.header.endPhyOffset >= minPhysicalOffset || file.writer !== undefined) break;
      this.#files.shift();
      const error = await new Promise<GantryError | undefined>((resolve) => this.#fs.removeLater(file.path, resolve));
      if (error !== undefined) {
        this.#files.unshift(file);
        throw error;
      }
      count++;
    }
    return count;
  }

  /** Removes all files. The index is empty and usable afterwards. */
  async destroy(): Promise<void> {
    for (const { writer } of this.#sealing) writer.stopTrying();
    await new Promise<void>((resolve) => this.#afterSealing(resolve));
    const writer = this.#writer;
    if (writer !== undefined) await new Promise<void>((resolve) => writer.abandon(resolve));
    this.#writer = undefined;
    await this.#unseal(0);
    for (const file of this.#files) this.#fs.remove(file.path);
    this.#files = [];
    this.#durable = undefined;
    this.#durableOffset = 0;
    this.#lastMessage = -1;
    this.#standstill = undefined;
  }

  /** After a start that failed: lets the files go as they are. What they lack comes back from the log. */
  release(): void {
    this.#standstill ??= 'the start has failed';
    for (const { writer } of this.#sealing) writer.abandon(() => {});
    this.#writer?.abandon(() => {});
  }

  // --- Files

  /** Gives `#writer` a file with room: the last one, or a new one. */
  #nextFile(): void {
    const last = this.#files.at(-1);
    if (last !== undefined && this.#writer !== undefined) this.#seal(last, this.#writer);
    else if (last !== undefined && !last.damaged) {
      const full = last.header.indexCount >= this.#layout.units;
      // A full file whose slots are only in memory is not whole yet; it is sealed before the next one begins.
      const writer = full && last.slots === undefined ? undefined : this.#continue(last);
      if (writer !== undefined && full) this.#seal(last, writer);
      else if (writer !== undefined) {
        this.#writer = writer;
        return;
      }
    }
    const name = indexFileName(this.#clock.now(), last?.name);
    const header = last === undefined ? new IndexHeader() : IndexHeader.following(last.header);
    const file = new IndexFile(this.#path, name, this.#layout, header);
    this.#files.push(file);
    this.#writer = this.#newWriter(file, new Int32Array(this.#layout.slots), false);
  }

  /** A writer that goes on behind the units of a file; undefined (and a report) if the file cannot be read. */
  #continue(file: IndexFile): IndexWriter | undefined {
    const known = file.slots;
    file.slots = undefined;
    try {
      const handle = this.#fs.open(file.path, 'read');
      try {
        const slots = known ?? loadSlots(handle, this.#layout, file.header.indexCount);
        const writer = this.#newWriter(file, slots, true);
        if (known !== undefined) compareSlots(handle, this.#layout, slots, (slot) => writer.slotChanged(slot));
        return writer;
      } finally {
        handle.close();
      }
    } catch (error) {
      if (!(error instanceof GantryError)) throw error;
      file.writer = undefined;
      this.#damaged(file, error.message);
      return undefined;
    }
  }

  #newWriter(file: IndexFile, slots: Int32Array, exists: boolean): IndexWriter {
    file.writer = new IndexWriter({
      fs: this.#fs,
      clock: this.#clock,
      path: file.path,
      layout: this.#layout,
      header: file.header,
      slots,
      exists,
      previous: exists ? undefined : this.#sealing.at(-1)?.writer,
      onTrouble: (error) => this.#logger.error(`index file ${file.path} is behind, trying again: ${error.message}`),
    });
    return file.writer;
  }

  /** Starts writing a file whole. Its writer answers lookups until that is done. */
  #seal(file: IndexFile, writer: IndexWriter): void {
    const entry = { file, writer, done: false };
    this.#sealing.push(entry);
    writer.seal((error) => {
      entry.done = true;
      if (error === undefined) file.writer = undefined;
      else this.#giveUp(error);
      this.#sealed();
    });
  }

  /** Takes note of sealed files in order, as far as none is missing in between. */
  #sealed(): void {
    for (let first = this.#sealing[0]; first?.done; first = this.#sealing[0]) {
      this.#sealing.shift();
      if (first.writer.fault !== undefined || this.#standsBehindFault(first.file)) continue;
      // The file's last message may go on in the next file.
      this.#durableOffset = Math.max(this.#durableOffset, first.file.header.endPhyOffset);
      if (first.file.header.indexCount >= this.#layout.units) this.#onSealed?.(first.file.header.endTimestamp);
    }
    if (this.#sealing.length > 0) return;
    const waiting = this.#whenSealed;
    this.#whenSealed = [];
    for (const fn of waiting) fn();
  }

  #standsBehindFault(file: IndexFile): boolean {
    const index = this.#files.indexOf(file);
    return this.#files.some((other, i) => i < index && other.writer?.fault !== undefined);
  }

  #afterSealing(fn: () => void): void {
    if (this.#sealing.length === 0) fn();
    else this.#whenSealed.push(fn);
  }

  /** Waits until the disk has everything, and takes the last file out of its writer's hands. */
  async #quiet(): Promise<void> {
    await new Promise<void>((resolve) => this.#afterSealing(resolve));
    const writer = this.#writer;
    const file = this.#files.at(-1);
    if (writer === undefined || file === undefined) return;
    await new Promise<void>((resolve, reject) =>
      writer.flush((error) => (error === undefined ? resolve() : reject(error))),
    );
    await new Promise<void>((resolve) => writer.abandon(resolve));
    this.#writer = file.writer = undefined;
    if (file.header.unitCount === 0) this.#files.pop();
    else file.slots = writer.slots;
  }

  /** Takes back that full files are durable which a cut at an offset will change. */
  async #unseal(physicalOffset: number): Promise<void> {
    const isFull = ({ header }: IndexFile): boolean => header.indexCount >= this.#layout.units;
    const first = this.#files.findIndex((file) => isFull(file) && file.header.endPhyOffset >= physicalOffset);
    if (first < 0 || this.#onUnsealed === undefined) return;
    const kept = this.#files.slice(0, first).filter(isFull);
    const sound = kept.every((file) => file.writer === undefined);
    const end = sound ? (kept.at(-1)?.header.endTimestamp ?? 0) : 0;
    await new Promise<void>((resolve, reject) =>
      this.#onUnsealed!(end, (error) => (error === undefined ? resolve() : reject(error))),
    );
  }

  #cut(file: IndexFile, physicalOffset: number): void {
    const { header } = file;
    const handle = this.#fs.open(file.path, 'read');
    try {
      file.slots ??= loadSlots(handle, this.#layout, header.indexCount);
      popUnits(handle, this.#layout, file.slots, header, (offset) => offset >= physicalOffset, this.#storeTimeOf);
    } finally {
      handle.close();
    }
    cutFile(this.#fs, file.path, this.#layout, header);
  }

  // --- Trouble

  /** Reports a damaged file once; new keys go to a fresh one. */
  #damaged(file: IndexFile, what: string): void {
    if (file.damaged) return;
    file.damaged = true;
    this.#logger.warn(`index file ${file.path} is damaged: ${what}; new keys go to another file`);
    if (file === this.#files.at(-1)) this.#writer?.stopFilling();
  }

  /** A file could not be made durable: it and what comes after it is removed at the stop and built again at the next start. */
  #giveUp(error: GantryError): void {
    this.#stop(error.message);
  }

  #stop(reason: string): false {
    if (this.#standstill === undefined) {
      const from = this.#durableOffset;
      this.#logger.error(
        `the index takes no more keys until the next start, which adds them from offset ${from} on: ${reason}`,
      );
      this.#standstill = reason;
    }
    return false;
  }
}
