// A batch that is too long for one turn of the loop: it is checked and encoded in shares, into a buffer of its own, and put when that is
// done. Until then it has no place in the log and no queue offset, so that it may be given up at any time.
//
//   step, step, ...          check: the sum of the records' bytes ─► buffer ─► encode, as if it were the log's first batch
//   MessageStore.putBatch    places and time go into the records, and the buffer becomes a piece of the log as it is

import { viewOf } from '../../common/index.ts';
import type { CommitLog } from '../commit-log/commit-log.ts';
import type { BatchEncoder } from './batch-encoder.ts';
import { PutMessageStatus, type PutRequest } from './put.ts';

const EMPTY = new Uint8Array(0);
/** A byte costs about so many times less to check than to encode. */
const CHECK_RATIO = 8;

export class LongBatch {
  readonly request: PutRequest;
  readonly encoder: BatchEncoder;
  /** Anything but PUT_OK: why the batch cannot be stored (`reason` in words). */
  status: PutMessageStatus;
  reason: string;
  readonly #log: CommitLog;
  #isChecked = false;
  #bytes: Uint8Array | undefined;

  /** `request` and the bytes that it points to are borrowed until the last step. */
  constructor(request: PutRequest, encoder: BatchEncoder, log: CommitLog) {
    this.request = request;
    this.encoder = encoder;
    this.#log = log;
    this.status = encoder.begin(request);
    this.reason = encoder.reason;
  }

  /** Refuses the batch before anything is done for it. */
  refuse(status: PutMessageStatus, reason: string): void {
    this.status = status;
    this.reason = reason;
  }

  /** Works on about `budget` more bytes of the batch. True when nothing is left to do before the put, or the batch cannot be stored. */
  step(budget: number): boolean {
    const { encoder } = this;
    if (this.status !== PutMessageStatus.PUT_OK) return true;
    if (this.#isChecked) {
      if (this.#bytes === undefined) this.#bytes = this.#log.takeBuffer(encoder.total);
      encoder.write(this.#bytes, viewOf(this.#bytes), 0, 0, 0, 0, budget);
      return encoder.isAtEnd;
    }
    this.status = encoder.check(CHECK_RATIO * budget);
    this.reason = encoder.reason;
    if (this.status !== PutMessageStatus.PUT_OK) return true;
    if (encoder.isAtEnd) {
      this.#isChecked = true;
      if (!this.#log.fits(encoder.total)) {
        this.status = PutMessageStatus.MESSAGE_ILLEGAL;
        this.reason = encoder.doesNotFit;
      }
      encoder.rewind();
    }
    return this.status !== PutMessageStatus.PUT_OK;
  }

  /** Hands over the encoded records. */
  take(): Uint8Array {
    const bytes = this.#bytes ?? EMPTY;
    this.#bytes = undefined;
    return bytes;
  }

  /** Gives up the batch, or what is left of it behind a put. */
  release(): void {
    if (this.#bytes !== undefined) this.#log.giveBuffer(this.#bytes);
    this.#bytes = undefined;
  }
}
