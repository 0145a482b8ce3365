// A peer for tests that writes what bytes it likes, and waits for conditions instead of for time.

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { FakeClock } from '../common/index.ts';
import { FLAG_ONEWAY, FRAME_LIMIT } from './codes.ts';
import { decodeFrame } from './frame.ts';
import { FrameReader } from './frame-reader.ts';
import { FrameWriter } from './frame-writer.ts';
import { HeaderView } from './header-view.ts';
import type { ExtFields } from './types.ts';

export interface ReceivedFrame {
  code: number;
  opaque: number;
  flag: number;
  remark: string | undefined;
  ext: Record<string, string>;
  body: Buffer;
}

/** A whole request frame. */
export function requestFrame(
  code: number,
  opaque: number,
  ext: ExtFields | null = null,
  body: Uint8Array | null = null,
  oneway = false,
): Buffer {
  const writer = new FrameWriter();
  writer.begin(code, opaque, oneway ? FLAG_ONEWAY : 0);
  if (ext) writer.fields(ext);
  writer.endHeader();
  if (body) writer.body(body);
  writer.endFrame();
  return Buffer.from(writer.take().bytes);
}

/** Asks `condition` once a loop turn until it holds; the test's own time limit is the only clock. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

/** Stops a server whose clock stands still, whether or not its peers have gone. */
export async function stop(server: { close(graceMs: number): Promise<void> }, clock: FakeClock): Promise<void> {
  let stopped = false;
  const closed = server.close(0).then(() => {
    stopped = true;
  });
  await until(() => {
    clock.advance(1_000);
    return stopped;
  });
  await closed;
}

export class RawPeer {
  readonly socket: Socket;
  readonly frames: ReceivedFrame[] = [];
  ended = false;
  closed = false;
  readonly #reader = new FrameReader(FRAME_LIMIT);

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.setNoDelay(true);
    socket.on('data', (data: Buffer) => {
      this.#reader.read(data, 0, data.length, (buffer, start, end) => {
        const header = new HeaderView();
        const bodyStart = decodeFrame(buffer, start, end, header);
        const { code, opaque, flag, remark } = header;
        const body = Buffer.from(buffer.subarray(bodyStart, end));
        this.frames.push({ code, opaque, flag, remark, ext: header.toObject(), body });
        return true;
      });
    });
    socket.on('error', () => {});
    socket.on('end', () => {
      this.ended = true;
    });
    socket.on('close', () => {
      this.closed = true;
    });
  }

  static async open(port: number): Promise<RawPeer> {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    await once(socket, 'connect');
    return new RawPeer(socket);
  }

  get address(): string {
    return `127.0.0.1:${this.socket.localPort}`;
  }

  write(bytes: Uint8Array): void {
    this.socket.write(bytes);
  }

  /** The answer to a request with this opaque. */
  async answer(opaque: number): Promise<ReceivedFrame> {
    await until(() => this.closed || this.frames.some((frame) => frame.opaque === opaque));
    const found = this.frames.find((frame) => frame.opaque === opaque);
    if (found === undefined) throw new Error(`closed before the answer to ${opaque}`);
    return found;
  }

  async call(
    code: number,
    opaque: number,
    ext: ExtFields | null = null,
    body: Uint8Array | null = null,
  ): Promise<ReceivedFrame> {
    this.write(requestFrame(code, opaque, ext, body));
    return this.answer(opaque);
  }

  async close(): Promise<void> {
    this.socket.destroy();
    await until(() => this.closed);
  }
}
