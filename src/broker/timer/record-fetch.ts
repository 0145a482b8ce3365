// Reads the messages that units of the timer log name, many at once.

import { errorText } from '../../common/index.ts';
import { GetResult, type MessageStore } from '../../store/index.ts';
import { copyLater } from '../store-reads.ts';
import type { DueUnits } from './due-units.ts';
import type { TimerRecord } from './timer-record.ts';

/** Records and bytes of one read. */
const MOST = 128;
const MOST_BYTES = 1024 * 1024;
const KEPT_BYTES = 4 * MOST_BYTES;
const NO_BYTES = new Uint8Array(0);

/** Why there is no message where a unit points: `isLater`: the disk does not give it now; else nothing there could ever be it. */
export interface Missing {
  readonly isLater: boolean;
  readonly reason: string;
}

/** What one read gave, in the order of the units. Good until the next read. */
export class Fetched {
  readonly #due: DueUnits;
  readonly #from: number;
  readonly #missing: Array<Missing | undefined> = [];
  readonly #bytes: Uint8Array[] = [];
  readonly #starts: number[] = [];

  constructor(due: DueUnits, from: number) {
    this.#due = due;
    this.#from = from;
  }

  get length(): number {
    return this.#missing.length;
  }

  /** Adds the next unit's place, without a message. */
  push(missing: Missing): void {
    this.#missing.push(missing);
    this.#bytes.push(NO_BYTES);
    this.#starts.push(0);
  }

  lacks(k: number, missing: Missing): void {
    this.#missing[k] = missing;
  }

  /** The record of unit `k` lies at `start` of `bytes`. */
  lies(k: number, bytes: Uint8Array, start: number): void {
    this.#missing[k] = undefined;
    this.#bytes[k] = bytes;
    this.#starts[k] = start;
  }

  /** Opens the message of unit `k`; why not, if there is none. */
  open(k: number, message: TimerRecord): Missing | undefined {
    const missing = this.#missing[k];
    if (missing !== undefined) return missing;
    const i = this.#from + k;
    const start = this.#starts[k]!;
    const size = this.#due.sizes[i]!;
    const isThere =
      message.open(this.#bytes[k]!, start, start + size) &&
      message.storeSize === size &&
      message.physicalOffset === this.#due.offsets[i];
    if (!isThere) return gone('what lies there is not its record');
    return message.isOfTimer ? undefined : gone('a message of another topic lies there');
  }
}

export class RecordFetch {
  readonly #store: MessageStore;
  readonly #result = new GetResult();
  #bytes: Uint8Array = new Uint8Array(MOST_BYTES);

  constructor(store: MessageStore) {
    this.#store = store;
  }

  /** The messages of the units [from, ...), as many as one read takes, in order. */
  async read(due: DueUnits, from: number): Promise<Fetched> {
    const { minimum, committed } = this.#store.watermarks;
    const fetched = new Fetched(due, from);
    const wanted: number[] = [];
    let bytes = 0;
    for (let i = from; i < due.count && fetched.length < MOST; i++) {
      const offset = due.offsets[i]!;
      const size = due.sizes[i]!;
      if (wanted.length > 0 && bytes + size > MOST_BYTES) break;
      if (offset < minimum) fetched.push(gone('the CommitLog begins behind it'));
      else if (offset + size > committed) fetched.push(gone('the CommitLog ends before it'));
      else {
        wanted.push(i);
        bytes += size;
        fetched.push({ isLater: true, reason: '' });
      }
    }
    if (wanted.length === 0) return fetched;
    if (this.#bytes.length < bytes || this.#bytes.length > KEPT_BYTES) {
      this.#bytes = new Uint8Array(Math.max(bytes, MOST_BYTES));
    }
    const failure = await this.#fetch(due, wanted, fetched, from, this.#bytes, bytes);
    if (failure === undefined) return fetched;
    // One of them cannot be read: each for itself.
    for (const i of wanted) {
      const size = due.sizes[i]!;
      const alone = await this.#fetch(due, [i], fetched, from, new Uint8Array(size), size);
      if (alone !== undefined) fetched.lacks(i - from, { isLater: true, reason: alone });
    }
    return fetched;
  }

  /** Fills in what was wanted; the reason if it cannot be read. */
  async #fetch(
    due: DueUnits,
    wanted: readonly number[],
    fetched: Fetched,
    from: number,
    target: Uint8Array,
    bytes: number,
  ): Promise<string | undefined> {
    const result = this.#result;
    result.count = wanted.length;
    result.totalBytes = bytes;
    result.copied = 0;
    result.copiedPart = 0;
    for (let k = 0; k < wanted.length; k++) {
      const i = wanted[k]!;
      result.positions[k] = due.offsets[i]!;
      result.sizes[k] = due.sizes[i]!;
    }
    try {
      await copyLater(this.#store, result, target);
    } catch (error) {
      return errorText(error);
    }
    let k = 0;
    let at = 0;
    for (const i of wanted) {
      // Damaged records were taken out of the result.
      if (k >= result.count || result.positions[k] !== due.offsets[i]) {
        fetched.lacks(i - from, gone('its record is damaged'));
        continue;
      }
      fetched.lies(i - from, target, at);
      at += due.sizes[i]!;
      k++;
    }
    return undefined;
  }
}

function gone(reason: string): Missing {
  return { isLater: false, reason };
}
