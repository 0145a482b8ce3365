// Work of which one run at a time is enough, and the newest request must be honoured: a request that comes while a run is under way
// causes one more run after it, however many such requests there are.

/** Runs `work` on request, never twice at once. */
export class Coalesced {
  readonly #work: () => Promise<void>;
  #running: Promise<void> | undefined;
  #again = false;

  /** `work` must not reject. */
  constructor(work: () => Promise<void>) {
    this.#work = work;
  }

  /** Resolves after a run that began at or after this call. */
  run(): Promise<void> {
    if (this.#running !== undefined) {
      this.#again = true;
      return this.#running;
    }
    this.#running = this.#runs();
    return this.#running;
  }

  async #runs(): Promise<void> {
    try {
      do {
        this.#again = false;
        await this.#work();
      } while (this.#again);
    } finally {
      // Cleared in the same step as the last look at `again`: a request in between would be lost.
      this.#running = undefined;
    }
  }
}
