// Reads the messages that units of the timer log name, many at once.

import { errorText, viewOf } from '../../common/index.ts';
import { RecordOutcome, RecordView, readRecord, type StoredMessage, toMessage, Verify } from '../../message/index.ts';
import { GetResult, type MessageStore } from '../../store/index.ts';
import { copyLater } from '../store-reads.ts';
import { TIMER_TOPIC } from '../topic/topic-names.ts';
import type { DueUnits } from './due-units.ts';

/** Records and bytes of one read. */
const MOST = 128;
const MOST_BYTES = 1024 * 1024;
const KEPT_BYTES = 4 * MOST_BYTES;

/** What lies where a unit points: the message; `gone`: nothing that could ever be it; `later`: the disk did not give it now. */
export type Fetched = StoredMessage | { readonly gone: string } | { readonly later: string };

export class RecordFetch {
  readonly #store: MessageStore;
  readonly #result = new GetResult();
  #bytes: Uint8Array = new Uint8Array(MOST_BYTES);

  constructor(store: MessageStore) {
    this.#store = store;
  }

  /** The messages of the units [from, ...), as many as one read takes, in order. */
  async read(due: DueUnits, from: number): Promise<Fetched[]> {
    const { minimum, committed } = this.#store.watermarks;
    const fetched: Fetched[] = [];
    const wanted: number[] = [];
    let bytes = 0;
    for (let i = from; i < due.count && fetched.length < MOST; i++) {
      const offset = due.offsets[i]!;
      const size = due.sizes[i]!;
      if (wanted.length > 0 && bytes + size > MOST_BYTES) break;
      if (offset < minimum) fetched.push({ gone: 'the CommitLog begins behind it' });
      else if (offset + size > committed) fetched.push({ gone: 'the CommitLog ends before it' });
      else {
        wanted.push(i);
        bytes += size;
        fetched.push({ later: '' });
      }
    }
    if (wanted.length === 0) return fetched;
    const failure = await this.#fetch(due, wanted, fetched, from, bytes);
    if (failure === undefined) return fetched;
    // One of them cannot be read: each for itself.
    for (const i of wanted) {
      const alone = await this.#fetch(due, [i], fetched, from, due.sizes[i]!);
      if (alone !== undefined) fetched[i - from] = { later: alone };
    }
    return fetched;
  }

  /** Fills in what was wanted; the reason if it cannot be read. */
  async #fetch(
    due: DueUnits,
    wanted: readonly number[],
    fetched: Fetched[],
    from: number,
    bytes: number,
  ): Promise<string | undefined> {
    const result = this.#result;
    result.count = wanted.length;
    result.totalBytes = bytes;
    result.copied = 0;
    result.copiedPart = 0;
    wanted.forEach((i, k) => {
      result.positions[k] = due.offsets[i]!;
      result.sizes[k] = due.sizes[i]!;
    });
    if (this.#bytes.length < bytes) this.#bytes = new Uint8Array(bytes);
    const target = this.#bytes;
    try {
      await copyLater(this.#store, result, target);
    } catch (error) {
      return errorText(error);
    }
    const view = viewOf(target);
    const record = new RecordView();
    let k = 0;
    let at = 0;
    for (const i of wanted) {
      const offset = due.offsets[i]!;
      const size = due.sizes[i]!;
      // Damaged records were taken out of the result.
      if (k >= result.count || result.positions[k] !== offset) {
        fetched[i - from] = { gone: 'its record is damaged' };
        continue;
      }
      fetched[i - from] = messageAt(target, view, at, size, offset, record);
      at += size;
      k++;
    }
    if (this.#bytes.length > KEPT_BYTES) this.#bytes = new Uint8Array(MOST_BYTES);
    return undefined;
  }
}

function messageAt(
  bytes: Uint8Array,
  view: DataView,
  at: number,
  size: number,
  offset: number,
  record: RecordView,
): Fetched {
  const outcome = readRecord(bytes, view, at, at + size, Verify.STRUCTURE, record);
  if (outcome !== RecordOutcome.RECORD || record.totalSize !== size || record.physicalOffset !== offset) {
    return { gone: 'what lies there is not its record' };
  }
  const message = toMessage(bytes, record);
  return message.topic === TIMER_TOPIC ? message : { gone: `a message of ${message.topic} lies there` };
}
