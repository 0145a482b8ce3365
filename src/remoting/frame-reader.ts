// Cuts a connection's bytes into frames, however they arrive. Whole frames are handed on where they lie; of an unfinished one the
// bytes are kept until the rest comes: it gets one buffer of its own size, so that a large frame is copied once. A buffer that is longer
// than what a socket gives at once comes from a pool, and goes back to it if whoever handles the frame says that it is not wanted any more:
// memory outside of the engine's own heap makes it collect all the more often.

import { GantryError } from '../common/index.ts';
import type { SlabPool } from './slab-pool.ts';

/** Gets a frame `buffer[start, end)` without its length; false makes the reader stop behind it. */
export type FrameSink = (buffer: Buffer, start: number, end: number) => boolean;

/** The length field, and the header word that every frame has. */
const LENGTH_BYTES = 4;

/** Frames beyond this are read into buffers of the pool. */
const LONG_BYTES = 64 * 1024;

export class FrameReader {
  readonly #limit: number;
  readonly #slabs: SlabPool | undefined;
  /** Bytes of the unfinished frame, of its full size once its length is known. */
  #carry: Buffer | undefined;
  #carried = 0;
  /** Full size of the unfinished frame; 0 while its length is not complete. */
  #total = 0;

  /** While the sink has a frame in a buffer of the pool: that buffer. It may be given back to the pool once nobody reads it. */
  lent: Buffer | undefined;

  /** `limit` is the largest frame in bytes, with its length field; `slabs` the pool for long frames. */
  constructor(limit: number, slabs?: SlabPool) {
    this.#limit = limit;
    this.#slabs = slabs;
  }

  /** Bytes of an unfinished frame that wait for the rest. */
  get carried(): number {
    return this.#carried;
  }

  /** Size of the unfinished frame; 0 if it is not known yet. */
  get expected(): number {
    return this.#total;
  }

  /**
   * Hands each frame that is now whole to `sink`, and returns where it stopped: `end`, or earlier if the sink said so.
   * @throws GantryError FRAME if a length cannot be; the connection is of no use any more.
   */
  read(buffer: Buffer, start: number, end: number, sink: FrameSink): number {
    let at = start;
    if (this.#carried > 0) {
      at = this.#complete(buffer, start, end);
      if (this.#total === 0 || this.#carried < this.#total) return at;
      const frame = this.#carry!;
      const total = this.#total;
      this.#carry = undefined;
      this.#carried = 0;
      this.#total = 0;
      if (this.#slabs !== undefined && total > LONG_BYTES) this.lent = frame;
      const goesOn = sink(frame, LENGTH_BYTES, total);
      this.lent = undefined;
      if (!goesOn) return at;
    }
    while (end - at >= LENGTH_BYTES) {
      const total = this.#totalAt(buffer, at);
      if (end - at < total) break;
      const frameStart = at + LENGTH_BYTES;
      at += total;
      if (!sink(buffer, frameStart, at)) return at;
    }
    if (at < end) this.#keep(buffer, at, end);
    return end;
  }

  #keep(buffer: Buffer, start: number, end: number): void {
    this.#carried = end - start;
    this.#total = this.#carried < LENGTH_BYTES ? 0 : this.#totalAt(buffer, start);
    this.#carry = this.#room();
    buffer.copy(this.#carry, 0, start, end);
  }

  #room(): Buffer {
    if (this.#slabs !== undefined && this.#total > LONG_BYTES) return this.#slabs.take(this.#total);
    return Buffer.allocUnsafe(Math.max(this.#total, LENGTH_BYTES));
  }

  /** Takes what the unfinished frame lacks; returns where the rest begins. */
  #complete(buffer: Buffer, start: number, end: number): number {
    let at = start;
    if (this.#total === 0) {
      while (this.#carried < LENGTH_BYTES && at < end) this.#carry![this.#carried++] = buffer[at++]!;
      if (this.#carried < LENGTH_BYTES) return at;
      const head = this.#carry!;
      this.#total = this.#totalAt(head, 0);
      this.#carry = this.#room();
      head.copy(this.#carry, 0, 0, LENGTH_BYTES);
    }
    const more = Math.min(end - at, this.#total - this.#carried);
    buffer.copy(this.#carry!, this.#carried, at, at + more);
    this.#carried += more;
    return at + more;
  }

  /** Size of the frame at `at`, with its length field. */
  #totalAt(buffer: Buffer, at: number): number {
    const length = (buffer[at]! << 24) | (buffer[at + 1]! << 16) | (buffer[at + 2]! << 8) | buffer[at + 3]!;
    if (length >= LENGTH_BYTES && length + LENGTH_BYTES <= this.#limit) return length + LENGTH_BYTES;
    if (length >= 0 && length < LENGTH_BYTES) throw new GantryError('FRAME', `a frame of ${length} bytes is too short`);
    const text = buffer.toString('latin1', at, at + LENGTH_BYTES);
    const hint = /^[ -~]+$/.test(text) ? ` (the bytes are "${text}": not a RocketMQ client)` : '';
    throw new GantryError('FRAME', `a frame length of ${length} is outside 4 to ${this.#limit - LENGTH_BYTES}${hint}`);
  }
}
