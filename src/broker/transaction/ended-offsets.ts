// Which half messages of a queue have ended: a byte for each offset, in blocks that come and go. Between two rounds there may be a million
// of them, and a Map of so many stops the loop each time it grows.

const BLOCK = 8192;

interface Block {
  readonly bytes: Uint8Array;
  /** Bytes that are not 0. */
  count: number;
}

/** How it is known that a half message has ended; the values of the bytes. */
const RECORD = 1;
const HERE = 2;

/** Offsets with whether they ended here, since the start (true), or as a record says (false). */
export class EndedOffsets {
  readonly #blocks = new Map<number, Block>();
  #last: Block | undefined;
  #lastNumber = -1;
  size = 0;

  has(offset: number): boolean {
    return this.#at(offset) !== 0;
  }

  /** Whether it is there and ended here. */
  endedHere(offset: number): boolean {
    return this.#at(offset) === HERE;
  }

  set(offset: number, here: boolean): void {
    const number = Math.floor(offset / BLOCK);
    let block = this.#block(number);
    if (block === undefined) {
      block = { bytes: new Uint8Array(BLOCK), count: 0 };
      this.#blocks.set(number, block);
      this.#last = block;
      this.#lastNumber = number;
    }
    const at = offset - number * BLOCK;
    if (block.bytes[at] === 0) {
      block.count++;
      this.size++;
    }
    block.bytes[at] = here ? HERE : RECORD;
  }

  /** False if it was not there. */
  delete(offset: number): boolean {
    const number = Math.floor(offset / BLOCK);
    const block = this.#block(number);
    const at = offset - number * BLOCK;
    if (block === undefined || block.bytes[at] === 0) return false;
    block.bytes[at] = 0;
    this.size--;
    if (--block.count > 0) return true;
    this.#blocks.delete(number);
    if (this.#last === block) this.#forgetLast();
    return true;
  }

  /** Every offset. What is deleted meanwhile does no harm. */
  *keys(): Generator<number> {
    for (const [number, { bytes }] of this.#blocks) {
      for (let at = 0; at < BLOCK; at++) if (bytes[at] !== 0) yield number * BLOCK + at;
    }
  }

  #at(offset: number): number {
    const number = Math.floor(offset / BLOCK);
    return this.#block(number)?.bytes[offset - number * BLOCK] ?? 0;
  }

  #block(number: number): Block | undefined {
    if (number === this.#lastNumber) return this.#last;
    const block = this.#blocks.get(number);
    if (block !== undefined) {
      this.#last = block;
      this.#lastNumber = number;
    }
    return block;
  }

  #forgetLast(): void {
    this.#last = undefined;
    this.#lastNumber = -1;
  }
}
