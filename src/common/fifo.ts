// A queue of objects: taking from the head of a long array moves all that is behind it, or leaves it to luck.

/** Taken places at the head that are put up with. */
const MOST_TAKEN = 1024;

export class Fifo<T> {
  #items: Array<T | undefined> = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** The oldest; undefined if there is none. */
  peek(): T | undefined {
    return this.#items[this.#head];
  }

  /** Takes the oldest out. */
  shift(): T | undefined {
    if (this.length === 0) return undefined;
    const item = this.#items[this.#head];
    this.#items[this.#head++] = undefined;
    if (this.#head === this.#items.length) {
      this.#items = [];
      this.#head = 0;
    } else if (this.#head > MOST_TAKEN && 2 * this.#head > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }

  /** Takes all out, the oldest first. */
  drain(): T[] {
    const all = this.#items.slice(this.#head) as T[];
    this.#items = [];
    this.#head = 0;
    return all;
  }
}
