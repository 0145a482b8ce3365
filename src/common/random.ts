// Randomness is passed in, so that a seed replays a bad day.

/** A source of random numbers. */
export interface Random {
  /** A whole number in [0, bound). */
  int(bound: number): number;
  /** A fraction in [0, 1). */
  fraction(): number;
}

export const systemRandom: Random = {
  int: (bound) => Math.floor(Math.random() * bound),
  fraction: () => Math.random(),
};

/** A small seeded generator (mulberry32): the same seed gives the same sequence on every machine. */
export class SeededRandom implements Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 0x1_0000_0000;
  }

  int(bound: number): number {
    return Math.floor(this.fraction() * bound);
  }
}
