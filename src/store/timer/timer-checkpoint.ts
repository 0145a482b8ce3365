// config/timercheck: how far the timer had come when it was last written (docs/formats/timer.md). One page of 4096 bytes, rewritten in
// place by a single write whose fields lie in its first sector, so that a power cut leaves the old values or the new ones. Whoever sets
// a field has synced what it speaks of. RocketMQ: TimerCheckpoint.
//
//   0 lastReadTimeMs | 8 lastTimerLogFlushPos | 16 lastTimerQueueOffset | 24 masterTimerQueueOffset
//   32 stateVersion | 40 timestamp | 48 counter | 56 zeros                          each i64, big-endian

import { peekI64, viewOf, writeI64 } from '../../common/index.ts';
import { type FileSystem, makeDirectoryDurably, readWhole } from '../../io/index.ts';
import { syncFile, writeAt } from './timer-io.ts';

const FILE_BYTES = 4096;
const NETWORK_BYTES = 56;

export class TimerCheckpoint {
  /** Ms: slots before this one are done. */
  lastReadTimeMs = 0;
  /** What of the timer log the other fields rely on. */
  lastTimerLogFlushPos = 0;
  /** Next message of the timer's topic. */
  lastTimerQueueOffset = 0;
  masterTimerQueueOffset = 0;
  stateVersion = 0;
  timestamp = 0;
  counter = 0;
  readonly path: string;
  readonly #fs: FileSystem;

  constructor(fs: FileSystem, root: string) {
    this.#fs = fs;
    this.path = `${root}/config/timercheck`;
  }

  /** Reads the file; false if there is none. Values that no broker can have written read 0. */
  load(): boolean {
    const bytes = readWhole(this.#fs, this.path);
    if (bytes === undefined || bytes.length < 32) return false;
    const page = new Uint8Array(FILE_BYTES);
    page.set(bytes.subarray(0, FILE_BYTES));
    const view = viewOf(page);
    const field = (at: number): number => {
      const value = peekI64(view, at);
      return Number.isSafeInteger(value) && value >= 0 ? value : 0;
    };
    this.lastReadTimeMs = field(0);
    this.lastTimerLogFlushPos = field(8);
    this.lastTimerQueueOffset = field(16);
    this.masterTimerQueueOffset = field(24);
    this.stateVersion = field(32);
    this.timestamp = field(40);
    this.counter = field(48);
    return true;
  }

  /** The form that a slave is answered. */
  encode(): Uint8Array {
    const bytes = new Uint8Array(NETWORK_BYTES);
    const view = viewOf(bytes);
    const values = [
      this.lastReadTimeMs,
      this.lastTimerLogFlushPos,
      this.lastTimerQueueOffset,
      this.masterTimerQueueOffset,
      this.stateVersion,
      this.timestamp,
      this.counter,
    ];
    for (const [i, value] of values.entries()) writeI64(view, 8 * i, value);
    return bytes;
  }

  /** Writes the fields as they are now; durable when it resolves. @throws GantryError IO, DISK_FULL. */
  async flush(): Promise<void> {
    const page = new Uint8Array(FILE_BYTES);
    page.set(this.encode());
    const fresh = this.#fs.stat(this.path) === undefined;
    const folder = this.path.slice(0, this.path.lastIndexOf('/'));
    if (fresh) makeDirectoryDurably(this.#fs, folder);
    const file = this.#fs.open(this.path, 'create');
    try {
      await writeAt(file, page, 0);
      await syncFile(file);
    } finally {
      file.close();
    }
    if (fresh) this.#fs.syncDirectory(folder);
  }
}
