// Batches that are too long for one turn of the loop wait here and are encoded one after the other, a share each turn: what other
// connections send is served in between. Of one connection there is at most one, since its input is held meanwhile; so each waits for at
// most one of every other connection, and only one of them needs memory for its records.

import { type Clock, errorText, InvariantError, type Logger } from '../../common/index.ts';
import type { LongBatch } from '../../store/index.ts';

/** Bytes of batch bodies that are encoded in one turn: some 100 microseconds. */
const TURN_BYTES = 128 * 1024;

/** Called once: the batch may be put now, or `fault` says what went wrong with it (a mistake of ours). */
export type BatchReady = (batch: LongBatch, fault: string | undefined) => void;

export class LongBatches {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #waiting: Array<{ batch: LongBatch; ready: BatchReady }> = [];

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Batches that are not ready yet. */
  get size(): number {
    return this.#waiting.length;
  }

  add(batch: LongBatch, ready: BatchReady): void {
    if (this.#waiting.push({ batch, ready }) === 1) this.#clock.soon(this.#turn);
  }

  readonly #turn = (): void => {
    const { batch, ready } = this.#waiting[0]!;
    let fault: string | undefined;
    try {
      if (!batch.step(TURN_BYTES)) {
        this.#clock.soon(this.#turn);
        return;
      }
    } catch (error) {
      if (error instanceof InvariantError) throw error;
      fault = errorText(error);
      this.#logger.error(`a batch cannot be encoded: ${fault}`);
    }
    this.#waiting.shift();
    if (this.#waiting.length > 0) this.#clock.soon(this.#turn);
    ready(batch, fault);
  };
}
