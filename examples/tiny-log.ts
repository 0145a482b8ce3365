// A message log in one file and about a hundred lines, on node:fs alone: what `src/store` does, with everything left out that is not the
// idea. Read it first; every part names the file that does the same in earnest.
//
//   node dist/examples/tiny-log.js [file]
//
// The file is records, one behind the other:     length u32 | CRC-32 of the payload u32 | payload
// A message's number is its place in the order, 0, 1, 2, …; where each lies is not stored anywhere.

import * as fs from 'node:fs';
import { pathToFileURL } from 'node:url';

const HEAD_BYTES = 8;
/** Every so many messages the index remembers a position. */
const INDEX_EVERY = 16;
/** No record is longer: a length beyond it is damage, and nothing is allocated for it. */
const MAX_BYTES = 1024 * 1024;

// src/common/crc32.ts, which takes sixteen bytes a step: the CRC is what tells a record from what a crash left of one.
const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let bit = 0; bit < 8; bit++) c = c & 1 ? (c >>> 1) ^ 0xedb88320 : c >>> 1;
  return c >>> 0;
});

export function crc32(bytes: Uint8Array): number {
  let c = 0xffffffff;
  for (const byte of bytes) c = TABLE[(c ^ byte) & 0xff]! ^ (c >>> 8);
  return (c ^ 0xffffffff) >>> 0;
}

export class TinyLog {
  readonly #fd: number;
  /** Where message `n * INDEX_EVERY` starts. src/store/consume-queue/: there every message has a unit, one file for each topic and queue. */
  readonly #index: number[] = [];
  #count = 0;
  #end = 0;

  /** Opens a log, made if it is not there. What a crash left half written at its end is cut off. */
  constructor(path: string) {
    const made = !fs.existsSync(path);
    this.#fd = fs.openSync(path, fs.constants.O_RDWR | fs.constants.O_CREAT, 0o644);
    // The file's name is in its folder, and durable only when that is. src/io/whole-file.ts, makeDirectoryDurably.
    if (made) syncFolderOf(path);
    this.#recover();
  }

  /** Messages in the log; the next one gets this number. */
  get count(): number {
    return this.#count;
  }

  /**
   * Adds a message and answers its number. A message that is only appended survives the process and not the machine: that is ASYNC_FLUSH.
   * src/store/put/message-appender.ts and commit-log/commit-log.ts: records are encoded into memory, and one write takes all of a loop turn.
   */
  append(payload: Uint8Array): number {
    if (payload.length === 0 || payload.length > MAX_BYTES) throw new RangeError(`1 to ${MAX_BYTES} bytes, please`);
    const record = Buffer.alloc(HEAD_BYTES + payload.length);
    record.writeUInt32BE(payload.length, 0);
    record.writeUInt32BE(crc32(payload), 4);
    record.set(payload, HEAD_BYTES);
    for (let done = 0; done < record.length; ) {
      done += fs.writeSync(this.#fd, record, done, record.length - done, this.#end + done);
    }
    return this.#add(record.length);
  }

  /**
   * Makes everything appended so far survive a power cut: before it returns, no one may be told that a message is safe (SYNC_FLUSH).
   * src/store/flush/: one sync for all that wait (group commit). After a failed one nobody knows what the disk holds, and a second that
   * succeeds says nothing about the first: such a log takes no more messages.
   */
  sync(): void {
    fs.fdatasyncSync(this.#fd);
  }

  /** A message, or undefined if there is none of that number. From the nearest index entry on, heads are walked. src/store/read/. */
  read(number: number): Buffer | undefined {
    if (!Number.isInteger(number) || number < 0 || number >= this.#count) return undefined;
    let at = this.#index[Math.floor(number / INDEX_EVERY)]!;
    for (let n = number - (number % INDEX_EVERY); n < number; n++) at += HEAD_BYTES + this.#head(at)!.length;
    return this.#payload(at);
  }

  close(): void {
    fs.closeSync(this.#fd);
  }

  /**
   * The log is the truth and the index is derived from it: both the index and the end of the log are found by reading. src/store/recovery/:
   * there a checkpoint says how far what is derived was durable, so that not all has to be read.
   */
  #recover(): void {
    for (;;) {
      const payload = this.#payload(this.#end);
      if (payload === undefined) break;
      this.#add(HEAD_BYTES + payload.length);
    }
    // Cut means dead on disk: what is left there could be taken for records once new ones end where they begin. scan-log.ts, keep-aside.ts.
    if (fs.fstatSync(this.#fd).size === this.#end) return;
    fs.ftruncateSync(this.#fd, this.#end);
    fs.fdatasyncSync(this.#fd);
  }

  #add(bytes: number): number {
    if (this.#count % INDEX_EVERY === 0) this.#index.push(this.#end);
    this.#end += bytes;
    return this.#count++;
  }

  /** What the record at a position says of itself; undefined where the file ends. */
  #head(at: number): { length: number; crc: number } | undefined {
    const head = Buffer.alloc(HEAD_BYTES);
    if (fs.readSync(this.#fd, head, 0, HEAD_BYTES, at) < HEAD_BYTES) return undefined;
    return { length: head.readUInt32BE(0), crc: head.readUInt32BE(4) };
  }

  /** The payload of the record at a position; undefined if there is no whole one. src/message/record-reader.ts. */
  #payload(at: number): Buffer | undefined {
    const head = this.#head(at);
    if (head === undefined || head.length > MAX_BYTES) return undefined;
    const payload = Buffer.alloc(head.length);
    if (fs.readSync(this.#fd, payload, 0, head.length, at + HEAD_BYTES) < head.length) return undefined;
    // Eight zeros would be an empty record with the right CRC; a page that never reached the disk is full of them.
    return crc32(payload) === head.crc && head.length > 0 ? payload : undefined;
  }
}

function syncFolderOf(path: string): void {
  if (process.platform === 'win32') return;
  const fd = fs.openSync(path.slice(0, path.lastIndexOf('/')) || '.', fs.constants.O_RDONLY);
  fs.fsyncSync(fd);
  fs.closeSync(fd);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const log = new TinyLog(process.argv[2] ?? './tiny.log');
  const number = log.append(Buffer.from(`hello, ${new Date().toISOString()}`));
  log.sync();
  console.log(`message ${number} of ${log.count} is safe: ${log.read(number)}`);
  log.close();
}
