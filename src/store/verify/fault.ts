// What is found where it must not be, and which bytes of the log nothing can be said of.

/** A place of a file that is not what it must be. */
export interface Fault {
  /** Whose file it is: of the log, or of what is derived from it. */
  readonly of: 'log' | 'queue' | 'index' | 'timer' | 'compaction';
  readonly file: string;
  readonly byte: number;
  readonly reason: string;
}

/** Bytes of the log that are no record, in order. What names one of them is not wrong for that. */
export class DamagedRuns {
  readonly #runs: Array<{ start: number; end: number }> = [];

  add(start: number, end: number): void {
    this.#runs.push({ start, end });
  }

  has(offset: number): boolean {
    let [low, high] = [0, this.#runs.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#runs[middle]!.end <= offset) low = middle + 1;
      else high = middle;
    }
    return low < this.#runs.length && this.#runs[low]!.start <= offset;
  }
}
