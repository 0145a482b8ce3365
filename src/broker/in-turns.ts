// What takes long, done between other work: the whole table of topics or of offsets as the text of one answer would hold up the loop for a
// tenth of a second and more.

import type { Clock } from '../common/index.ts';
import { toJson } from '../remoting/index.ts';

/** Ms of work, and bytes of text, after which other work has its turn. */
const TURN_MS = 2;
const TURN_CHARS = 256 * 1024;
/** Items of which each is looked at in a microsecond at most. */
const TURN_ITEMS = 2000;

/** The UTF-8 bytes of a text that comes in pieces, of which each is quickly made; an empty one says that it takes long. */
export async function bytesInTurns(clock: Clock, pieces: Iterable<string>): Promise<Buffer> {
  const parts: Buffer[] = [];
  let until = clock.monotonic() + TURN_MS;
  let text = '';
  for (const piece of pieces) {
    text += piece;
    if (text.length < TURN_CHARS && clock.monotonic() < until) continue;
    parts.push(Buffer.from(text));
    text = '';
    await new Promise<void>((resolve) => clock.soon(resolve));
    until = clock.monotonic() + TURN_MS;
  }
  parts.push(Buffer.from(text));
  return Buffer.concat(parts);
}

/** The entries of a map, one by one, as `toJson` writes them, and the braces around them; `undefined` stands for nothing yet. */
export function* mapPieces(entries: Iterable<readonly [string, unknown] | undefined>): Generator<string> {
  let before = '{';
  for (const entry of entries) {
    if (entry === undefined) {
      yield '';
      continue;
    }
    yield `${before}${JSON.stringify(entry[0])}:${toJson(entry[1])}`;
    before = ',';
  }
  yield before === '{' ? '{}' : '}';
}

/** Calls `look` for each item; items may come and go meanwhile. */
export async function forEachInTurns<T>(clock: Clock, items: Iterable<T>, look: (item: T) => void): Promise<void> {
  let left = TURN_ITEMS;
  for (const item of items) {
    look(item);
    if (--left > 0) continue;
    left = TURN_ITEMS;
    await new Promise<void>((resolve) => clock.soon(resolve));
  }
}

/**
 * Works that are done one after the other, a step at a time: what is short at once, and what is long with other work in between, so that a
 * table may have changed from one step to the next.
 */
export class InTurns {
  readonly #clock: Clock;
  #works: Array<Iterator<unknown, void>> = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether something is left to do. */
  get isBusy(): boolean {
    return this.#works.length > 0;
  }

  /** Does a work, behind those that are not done; each step is quickly made. */
  run(work: Iterator<unknown, void>): void {
    if (this.#works.push(work) === 1) this.#go();
  }

  /** Leaves what is not done. */
  stop(): void {
    this.#works = [];
  }

  #go(): void {
    const works = this.#works;
    for (let left = TURN_ITEMS; works.length > 0; ) {
      if (works[0]!.next().done === true) works.shift();
      else if (--left === 0) {
        this.#clock.soon(() => {
          if (works === this.#works) this.#go();
        });
        return;
      }
    }
  }
}
