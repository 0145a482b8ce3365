import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CollectingLogger, FakeClock } from '../common/index.ts';
import { CHUNK_BYTES, type ConnectionLimits } from './connection-hub.ts';
import type { KeptBody } from './kept-body.ts';
import { RawPeer, requestFrame, stop, until } from './raw-peer.test.support.ts';
import { RemotingServer } from './server.ts';

const CODE = 30;
const LARGE = 31;

interface Fixture {
  server: RemotingServer;
  port: number;
  clock: FakeClock;
  logger: CollectingLogger;
}

async function withServer(
  limits: Partial<ConnectionLimits>,
  reading: 'onread' | 'data',
  run: (fixture: Fixture) => Promise<void>,
): Promise<void> {
  const clock = new FakeClock();
  const logger = new CollectingLogger();
  const server = new RemotingServer({ clock, logger, limits, reading });
  const port = await server.listen('127.0.0.1', 0);
  try {
    await run({ server, port, clock, logger });
  } finally {
    await stop(server, clock);
  }
}

for (const reading of ['onread', 'data'] as const) {
  describe(`limits, reading by ${reading}`, () => {
    it('one flooding peer gets a bounded share of each turn', () =>
      withServer({}, reading, async ({ server, port }) => {
        const turns: Array<Map<number, { frames: number; bytes: number }>> = [new Map()];
        let handled = 0;
        server.register(CODE, (request) => {
          const turn = turns.at(-1)!;
          const share = turn.get(request.channel.id) ?? { frames: 0, bytes: 0 };
          share.frames++;
          share.bytes += request.bodyEnd - request.bodyStart;
          turn.set(request.channel.id, share);
          handled++;
          request.respond(0);
        });
        server.onTurnEnd(() => turns.push(new Map()));
        const flood = await RawPeer.open(port);
        const other = await RawPeer.open(port);
        const tiny = Buffer.concat(Array.from({ length: 20_000 }, (_, i) => requestFrame(CODE, i, null, null, true)));
        const fat = Buffer.concat(
          Array.from({ length: 40 }, (_, i) => requestFrame(CODE, i, null, Buffer.alloc(50_000), true)),
        );
        flood.write(tiny);
        flood.write(fat);
        other.write(requestFrame(CODE, 7));
        await other.answer(7);
        const before = handled;
        await until(() => handled === 20_041);
        assert.ok(before < 20_041, 'the other peer waited for the whole flood');
        for (const turn of turns) {
          for (const { frames, bytes } of turn.values()) {
            assert.ok(frames <= 256, `${frames} frames in one turn`);
            // A chunk may complete a frame that began in the last one.
            assert.ok(bytes <= CHUNK_BYTES + 50_000, `${bytes} bytes in one turn`);
          }
        }
        await flood.close();
        await other.close();
      }));

    it('what is handled in the share of a later turn gets the end of a turn, also if nothing more comes', () =>
      withServer({ turnMessages: 10 }, reading, async ({ server, port }) => {
        const waiting: Array<() => void> = [];
        let ended = 0;
        server.register(CODE, () => {
          waiting.push(() => ended++);
        });
        server.onTurnEnd(() => {
          for (const end of waiting.splice(0)) end();
        });
        const peer = await RawPeer.open(port);
        peer.write(Buffer.concat(Array.from({ length: 95 }, (_, i) => requestFrame(CODE, i, null, null, true))));
        await until(() => ended === 95);
        await peer.close();
      }));

    it('a peer whose handler asks for a rest gets it while others send, and none while it is alone', () =>
      withServer({}, reading, async ({ server, port, clock }) => {
        server.register(LARGE, (request) => {
          request.channel.holdInput();
          request.respond(0);
          request.channel.resumeInput(3);
        });
        server.register(CODE, (request) => request.respond(0));
        const holder = await RawPeer.open(port);
        await holder.call(LARGE, 1);
        await holder.call(LARGE, 2);
        const other = await RawPeer.open(port);
        await other.call(CODE, 1);
        await holder.call(LARGE, 3);
        holder.write(requestFrame(LARGE, 4));
        for (let i = 0; i < 20; i++) await other.call(CODE, 10 + i);
        assert.ok(!holder.frames.some(({ opaque }) => opaque === 4));
        clock.advance(2);
        for (let i = 0; i < 20; i++) await other.call(CODE, 40 + i);
        assert.ok(!holder.frames.some(({ opaque }) => opaque === 4));
        clock.advance(1);
        await holder.answer(4);
      }));

    it('what comes behind a request whose handler holds the input waits, and nobody else does', () =>
      withServer({}, reading, async ({ server, port }) => {
        const handled: string[] = [];
        let release = (): void => {};
        let kept: KeptBody | undefined;
        server.register(LARGE, (request) => {
          kept = request.keepBody();
          const { channel } = request;
          channel.holdInput();
          const responder = request.defer();
          release = () => {
            responder.respond(0, String(kept!.bytes.reduce((sum, byte) => sum + byte, 0)));
            kept!.release();
            channel.resumeInput();
          };
        });
        server.register(CODE, (request) => {
          handled.push(`${request.channel.remoteAddress} ${request.opaque}`);
          request.respond(0);
        });
        const [holder, other] = [await RawPeer.open(port), await RawPeer.open(port)];
        for (const size of [100, 300_000]) {
          handled.length = 0;
          kept = undefined;
          const large = requestFrame(LARGE, 1, null, Buffer.alloc(size, 1));
          holder.write(Buffer.concat([large, requestFrame(CODE, 2), requestFrame(CODE, 3)]));
          await until(() => kept !== undefined);
          holder.write(requestFrame(CODE, 4));
          for (let i = 0; i < 20; i++) await other.call(CODE, 10 + i, null, Buffer.alloc(50_000, 2));
          assert.ok(handled.every((text) => text.startsWith(other.address)));
          release();
          assert.equal((await holder.answer(1)).remark, String(size));
          await holder.answer(4);
          assert.deepEqual(
            handled.slice(-3),
            [2, 3, 4].map((opaque) => `${holder.address} ${opaque}`),
          );
          holder.frames.length = 0;
          other.frames.length = 0;
        }
        // One that has gone meanwhile keeps nobody from anything.
        kept = undefined;
        holder.write(Buffer.concat([requestFrame(LARGE, 1), requestFrame(CODE, 2)]));
        await until(() => kept !== undefined);
        await holder.close();
        release();
        await other.call(CODE, 99);
        await until(() => server.channels.size === 1);
        await other.close();
      }));

    it('a long frame that was given back does not lie where another one is read to', () =>
      withServer({}, reading, async ({ server, port }) => {
        const bodies: number[] = [];
        server.register(LARGE, (request) => {
          const { bytes } = request.keepBody();
          const [first] = bytes;
          assert.ok(bytes.every((byte) => byte === first));
          bodies.push(first!);
          if (bodies.length % 2 === 0) request.keepBody().release();
        });
        const peers = await Promise.all(Array.from({ length: 6 }, () => RawPeer.open(port)));
        for (let round = 0; round < 10; round++) {
          peers.forEach((peer, i) => {
            peer.write(requestFrame(LARGE, round, null, Buffer.alloc(70_000 + 30_000 * i, 10 * round + i), true));
          });
        }
        await until(() => bodies.length === 60);
        assert.deepEqual(
          bodies.sort((a, b) => a - b),
          Array.from({ length: 60 }, (_, i) => 10 * Math.floor(i / 6) + (i % 6)),
        );
        for (const peer of peers) await peer.close();
      }));

    it('the share of a turn is smaller while others send, too', () =>
      withServer({}, reading, async ({ server, port, clock }) => {
        let handled = 0;
        let most = 0;
        let inTurn = 0;
        server.register(CODE, (request) => {
          if (!request.oneway) return request.respond(0);
          handled++;
          inTurn++;
        });
        server.onTurnEnd(() => {
          most = Math.max(most, inTurn);
          inTurn = 0;
        });
        const [flood, other] = [await RawPeer.open(port), await RawPeer.open(port)];
        const frames = Buffer.concat(Array.from({ length: 1000 }, (_, i) => requestFrame(CODE, i, null, null, true)));
        const mostOf = async (): Promise<number> => {
          const goal = handled + 1000;
          most = 0;
          flood.write(frames);
          await until(() => handled === goal && inTurn === 0);
          return most;
        };
        assert.ok((await mostOf()) > 64);
        await other.call(CODE, 1);
        assert.ok((await mostOf()) <= 64);
        clock.advance(1000);
        assert.ok((await mostOf()) > 64);
        await flood.close();
        await other.close();
      }));

    it('floods are served in turn', () =>
      withServer({ turnMessages: 10 }, reading, async ({ server, port }) => {
        const order: number[] = [];
        server.register(CODE, (request) => {
          order.push(request.channel.id);
          request.respond(0);
        });
        const peers = await Promise.all([RawPeer.open(port), RawPeer.open(port), RawPeer.open(port)]);
        await until(() => server.channels.size === 3);
        const flood = Buffer.concat(Array.from({ length: 400 }, (_, i) => requestFrame(CODE, i, null, null, true)));
        for (const peer of peers) peer.write(flood);
        await until(() => order.length === 1_200);
        // Until the first of them is through, nobody is more than a few shares ahead of another.
        const counts = new Map<number, number>();
        for (const id of order) {
          counts.set(id, (counts.get(id) ?? 0) + 1);
          if (counts.size < 3) continue;
          if (Math.max(...counts.values()) === 400) break;
          assert.ok(Math.max(...counts.values()) - Math.min(...counts.values()) <= 60, [...counts.values()].join(' '));
        }
        for (const peer of peers) await peer.close();
      }));

    it('while the owner is pressed, who had his share of a turn waits and others go on', () =>
      withServer({}, reading, async ({ server, port, clock }) => {
        let pressed = false;
        const handled = new Map<string, number>();
        server.register(CODE, (request) => {
          const { remoteAddress } = request.channel;
          handled.set(remoteAddress, (handled.get(remoteAddress) ?? 0) + 1);
          request.respond(0);
        });
        server.holdWhile(() => pressed);
        const [flood, other] = [await RawPeer.open(port), await RawPeer.open(port)];
        const floods = (): number => handled.get(flood.address) ?? 0;
        const frame = requestFrame(CODE, 0, null, Buffer.alloc(50_000), true);
        const sendFlood = (frames: number): void => flood.write(Buffer.concat(Array(frames).fill(frame)));
        pressed = true;
        sendFlood(100);
        await until(() => floods() > 0);
        for (let i = 1; i <= 50; i++) await other.call(CODE, i);
        assert.ok(floods() <= 3, `${floods()} frames of the flood under pressure`);
        pressed = false;
        server.ease();
        await until(() => floods() === 100);

        // A hold that nobody ends is over after a while.
        pressed = true;
        sendFlood(10);
        await until(() => {
          clock.advance(100);
          return floods() === 110;
        });
        await flood.close();
        await other.close();
      }));

    it('says how long input waited for an owner who is pressed still, and of no other input', () =>
      withServer({}, reading, async ({ server, port, clock }) => {
        let pressed = false;
        const waits: number[] = [];
        server.register(CODE, () => {
          waits.push(server.heldInput.heldMs);
        });
        server.holdWhile(
          () => pressed,
          () => 200,
        );
        const peer = await RawPeer.open(port);
        const send = (frames: number): void => {
          peer.write(Buffer.concat(Array(frames).fill(requestFrame(CODE, 0, null, Buffer.alloc(50_000), true))));
        };
        pressed = true;
        send(10);
        await until(() => {
          clock.advance(100);
          return waits.length >= 10;
        });
        assert.ok(
          waits.some((ms) => ms >= 200),
          `waited ${waits.join(' ')} ms`,
        );
        pressed = false;
        waits.length = 0;
        send(10);
        await until(() => waits.length === 10);
        assert.deepEqual(new Set(waits), new Set([0]));
        pressed = true;
        waits.length = 0;
        send(10);
        await until(() => waits.length > 0);
        pressed = false;
        server.ease();
        await until(() => waits.length === 10);
        assert.deepEqual(new Set(waits), new Set([0]), 'what it waited for is over');
        await peer.close();
      }));

    it('stops reading from a peer that does not take its answers, until it does', () =>
      withServer({ unsentLimit: 500_000 }, reading, async ({ server, port }) => {
        const requests = 400;
        let handled = 0;
        server.register(LARGE, (request) => {
          handled++;
          request.respond(0, null, null, Buffer.alloc(100_000, handled));
        });
        server.register(CODE, (request) => request.respond(0));
        const peer = await RawPeer.open(port);
        const other = await RawPeer.open(port);
        await other.call(CODE, 1);
        peer.socket.pause();
        peer.write(Buffer.concat(Array.from({ length: requests }, (_, i) => requestFrame(LARGE, i))));
        const slow = [...server.channels].find((each) => each.remoteAddress === peer.address)!;
        await until(() => slow.unsentBytes > 500_000);
        // The kernel's buffers grow for a while; then rounds with somebody else change nothing.
        for (let rounds = 0, last = -1, opaque = 2; rounds < 50; opaque++) {
          await other.call(CODE, opaque);
          rounds = handled === last ? rounds + 1 : 0;
          last = handled;
        }
        assert.ok(handled < requests, `${handled} requests handled`);
        assert.ok(slow.unsentBytes < 700_000, `${slow.unsentBytes} bytes wait`);
        peer.socket.resume();
        await until(() => peer.frames.length === requests);
        assert.deepEqual(
          peer.frames.map((frame) => frame.opaque),
          Array.from({ length: requests }, (_, i) => i),
        );
        assert.equal(slow.unsentBytes, 0);
        await peer.close();
        await other.close();
      }));
  });
}

describe('limits in time', () => {
  it('closes a reader that takes nothing for 60 s, and not one that takes a little', () =>
    withServer({ unsentLimit: 100_000 }, 'onread', async ({ server, port, clock, logger }) => {
      const body = Buffer.alloc(8_000_000);
      server.register(LARGE, (request) => request.respond(0, null, null, body));
      const stalled = await RawPeer.open(port);
      const slow = await RawPeer.open(port);
      stalled.socket.pause();
      slow.socket.pause();
      const channelOf = (peer: RawPeer) => [...server.channels].find((each) => each.remoteAddress === peer.address)!;
      await until(() => server.channels.size === 2);
      const slowChannel = channelOf(slow);
      for (let i = 0; i < 8; i++) {
        stalled.write(requestFrame(LARGE, i));
        slow.write(requestFrame(LARGE, i));
      }
      await until(() => channelOf(stalled).unsentBytes > 1_000_000 && slowChannel.unsentBytes > 1_000_000);
      let received = 0;
      slow.socket.on('data', (data: Buffer) => {
        received += data.length;
      });
      slow.socket.pause();
      let seconds = 0;
      for (; server.channels.size === 2; seconds += 10) {
        // So much that it is felt beyond the buffers of both systems.
        const goal = received + 4_000_000;
        slow.socket.resume();
        await until(() => received > goal);
        slow.socket.pause();
        clock.advance(10_000);
        await new Promise((resolve) => setImmediate(resolve));
      }
      assert.ok(seconds >= 60, `closed after ${seconds} s`);
      assert.ok(slowChannel.isOpen);
      const [line] = logger.texts('warn');
      assert.match(line!, new RegExp(`${stalled.address}: it took none of \\d+ bytes for 60 s`));
      assert.equal(logger.texts('warn').length, 1);
      await stalled.close();
      await slow.close();
    }));

  it('closes a connection that is idle for 120 s', () =>
    withServer({}, 'onread', async ({ server, port, clock, logger }) => {
      server.register(CODE, (request) => request.respond(0));
      const idle = await RawPeer.open(port);
      const busy = await RawPeer.open(port);
      await until(() => server.channels.size === 2);
      clock.advance(119_000);
      await busy.call(CODE, 1);
      assert.equal(server.channels.size, 2);
      clock.advance(6_000);
      await until(() => idle.closed || idle.ended);
      await until(() => server.channels.size === 1);
      assert.equal((await busy.call(CODE, 2)).code, 0);
      assert.match(logger.texts('info').join(), new RegExp(`${idle.address}: idle for 120 s`));
      await idle.close();
      await busy.close();
    }));

  it('counts complaints instead of writing thousands of lines', () =>
    withServer({}, 'onread', async ({ server, port, clock, logger }) => {
      for (let i = 0; i < 25; i++) {
        const peer = await RawPeer.open(port);
        peer.write(Buffer.from('GET / HTTP/1.1\r\n\r\n'));
        await until(() => peer.closed || peer.ended);
        await peer.close();
      }
      assert.equal(logger.texts('warn').length, 20);
      const peer = await RawPeer.open(port);
      await until(() => server.channels.size === 1);
      clock.advance(5_000);
      assert.match(logger.texts('warn').at(-1)!, /closed 5 more connections for bad input/);
      await peer.close();
    }));
});
