// What a connection sends: all frames of a loop turn gather in one buffer and leave in one write; long bodies and frames go between them as
// they are.

import type { Socket } from 'node:net';
import { assert } from '../common/index.ts';
import type { ConnectionHub } from './connection-hub.ts';
import { FrameWriter } from './frame-writer.ts';

/** Longer bodies and frames are handed to the socket as they are instead of being copied into the turn's buffer. */
export const COPY_LIMIT: number = 32 * 1024;
/** The first output of a turn is taken as it is from here on, if its buffer comes along: mostly nothing comes behind it. */
const OWN_PIECE_BYTES = 4 * 1024;
/** Output beyond this is set aside as it is: growing a buffer further would copy it again. */
const SEAL_BYTES = 256 * 1024;

export class ChannelOutput {
  /** Bytes that the socket has been given and the peer has not taken. */
  unsent = 0;
  readonly #hub: ConnectionHub;
  readonly #socket: Socket;
  readonly #onTaken: () => void;
  readonly #writer: FrameWriter;
  /** Output of this turn that does not lie in the writer's buffer, in order, before what does. */
  #pieces: Uint8Array[] = [];
  #piecesBytes = 0;
  #slabs: Buffer[] = [];
  /** What lay in the socket and the kernel at the last look. */
  #queueSize = 0;
  /** When it took something last, or had nothing to take. */
  #progressAt = 0;

  /** Calls `onTaken` whenever the peer's side has taken bytes. */
  constructor(hub: ConnectionHub, socket: Socket, onTaken: () => void) {
    this.#hub = hub;
    this.#socket = socket;
    this.#onTaken = onTaken;
    this.#writer = new FrameWriter(hub.slabs);
  }

  /** All that the peer has not taken. */
  get unsentBytes(): number {
    return this.unsent + this.#piecesBytes + this.#writer.length;
  }

  /** For whole frames. */
  get writer(): FrameWriter {
    const writer = this.#writer;
    if (writer.length > SEAL_BYTES && !writer.isOpen) this.#seal();
    return writer;
  }

  /** Ends the writer's frame with this body. */
  endFrame(body: Uint8Array | null | undefined): void {
    const writer = this.#writer;
    if (body && body.length > COPY_LIMIT) {
      writer.endFrame(body.length);
      this.#piece(body);
      return;
    }
    if (body) writer.body(body);
    writer.endFrame();
  }

  /** Appends bytes of whole frames; the pool's buffer that they lie in, if they do, is given back once they are no longer needed. */
  send(bytes: Uint8Array, slab: Buffer | undefined): void {
    assert(!this.#writer.isOpen, 'bytes are sent in the middle of a frame');
    const isFirst = this.#pieces.length === 0 && this.#writer.length === 0;
    if (bytes.length > COPY_LIMIT || (isFirst && slab !== undefined && bytes.length >= OWN_PIECE_BYTES)) {
      this.#piece(bytes);
      if (slab !== undefined) this.#slabs.push(slab);
      return;
    }
    this.writer.body(bytes);
    if (slab !== undefined) this.#hub.slabs.give(slab);
  }

  /** Writes the turn's output in one piece, or forgets it if nobody can get it any more; whether something was written. */
  flush(isWanted: boolean): boolean {
    assert(!this.#writer.isOpen, 'a frame is left unfinished at the end of a turn');
    this.#seal();
    const pieces = this.#pieces;
    if (pieces.length === 0) return false;
    const slabs = this.#slabs;
    const bytes = this.#piecesBytes;
    this.#pieces = [];
    this.#slabs = [];
    this.#piecesBytes = 0;
    if (isWanted) this.#write(pieces, slabs, bytes);
    else this.#recycle(slabs);
    return isWanted;
  }

  /** Takes back a frame that was begun and not ended. */
  abandon(): void {
    this.#writer.abandon();
  }

  /** Whether the peer has taken nothing for `stallMs` of what waits for it. */
  isStalled(now: number): boolean {
    const size = this.#socket.writableLength + queuedInKernel(this.#socket);
    if (size !== this.#queueSize) this.#progressAt = now;
    this.#queueSize = size;
    return now - this.#progressAt >= this.#hub.limits.stallMs;
  }

  /** Appends long bytes behind what has been written. */
  #piece(bytes: Uint8Array): void {
    this.#seal();
    this.#pieces.push(bytes);
    this.#piecesBytes += bytes.length;
  }

  #seal(): void {
    if (this.#writer.length === 0) return;
    const { bytes, slab } = this.#writer.take();
    this.#pieces.push(bytes);
    this.#slabs.push(slab);
    this.#piecesBytes += bytes.length;
  }

  #write(pieces: Uint8Array[], slabs: Buffer[], bytes: number): void {
    const socket = this.#socket;
    if (this.unsent === 0) this.#progressAt = this.#hub.now;
    this.unsent += bytes;
    const last = pieces.length - 1;
    if (last > 0) socket.cork();
    for (let i = 0; i < last; i++) socket.write(pieces[i]!);
    socket.write(pieces[last]!, () => this.#onWritten(slabs, bytes));
    if (last > 0) socket.uncork();
  }

  /** The peer's side has taken the bytes, or never will. */
  #onWritten(slabs: Buffer[], bytes: number): void {
    this.#recycle(slabs);
    this.unsent -= bytes;
    this.#progressAt = this.#hub.now;
    this.#onTaken();
  }

  #recycle(slabs: Buffer[]): void {
    for (const slab of slabs) this.#hub.slabs.give(slab);
  }
}

/** Bytes that libuv holds because the kernel's buffer is full; 0 where Node does not tell. */
function queuedInKernel(socket: Socket): number {
  const handle = (socket as { _handle?: { writeQueueSize?: number } | null })._handle;
  return handle?.writeQueueSize ?? 0;
}
