import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CollectingLogger, FakeClock, GantryError } from '../common/index.ts';
import { encodeBinaryHeader } from './binary-header.ts';
import { FLAG_RESPONSE, SerializeType } from './codes.ts';
import { RawPeer, requestFrame, stop, until } from './raw-peer.test.support.ts';
import { RemotingServer, type RemotingServerOptions } from './server.ts';
import type { Channel, Responder } from './types.ts';

const ECHO = 34;
const FAST = 30;
const DEFER = 11;
const TAKE_OVER = 12;
const THROWS = 13;
const THROWS_CODE = 14;
const SILENT = 15;
const HALF_WRITTEN = 16;

interface Fixture {
  server: RemotingServer;
  port: number;
  logger: CollectingLogger;
  clock: FakeClock;
  deferred: Responder[];
  taken: Array<{ channel: Channel; opaque: number }>;
}

async function withServer(
  reading: 'onread' | 'data',
  run: (fixture: Fixture) => Promise<void>,
  limits: RemotingServerOptions['limits'] = {},
): Promise<void> {
  const logger = new CollectingLogger();
  const clock = new FakeClock();
  const server = new RemotingServer({ clock, logger, reading, limits });
  const deferred: Responder[] = [];
  const taken: Fixture['taken'] = [];
  server.register(ECHO, (request) => {
    const ext = { ...request.header.toObject(), from: request.channel.remoteAddress };
    request.respond(0, request.header.remark ?? null, ext, request.bodyCopy());
  });
  server.register(FAST, (request) => {
    const writer = request.begin(0);
    writer.numberField('offset', request.opaque);
    writer.endHeader();
    writer.endFrame();
  });
  server.register(DEFER, (request) => {
    deferred.push(request.defer());
  });
  server.register(TAKE_OVER, (request) => {
    request.takeOver();
    taken.push({ channel: request.channel, opaque: request.opaque });
  });
  server.register(THROWS, () => {
    throw new Error('out of order');
  });
  server.register(THROWS_CODE, (request) => {
    if (request.header.get('queueId') === undefined) request.header.int('queueId');
    throw new GantryError('MESSAGE', 'too long', { responseCode: 13 });
  });
  server.register(SILENT, () => {});
  server.register(HALF_WRITTEN, (request) => {
    const writer = request.begin(0);
    writer.field('lost', 'x');
    throw new GantryError('MESSAGE', 'changed my mind', { responseCode: 13 });
  });
  const port = await server.listen('127.0.0.1', 0);
  try {
    await run({ server, port, logger, clock, deferred, taken });
  } finally {
    await stop(server, clock);
  }
}

for (const reading of ['onread', 'data'] as const) {
  describe(`RemotingServer reading by ${reading}`, () => {
    it('finds a request wherever its bytes are cut', () =>
      withServer(reading, async ({ port }) => {
        const peer = await RawPeer.open(port);
        const other = await RawPeer.open(port);
        const body = Buffer.from('body');
        const length = requestFrame(ECHO, 0, { topic: 'T' }, body).length;
        for (let cut = 1; cut < length; cut++) {
          const frame = requestFrame(ECHO, cut, { topic: 'T' }, body);
          peer.write(frame.subarray(0, cut));
          // The answer to somebody else shows that the server has been there meanwhile.
          await other.call(FAST, cut);
          peer.write(frame.subarray(cut));
          const answer = await peer.answer(cut);
          assert.equal(answer.ext['topic'], 'T');
          assert.equal(answer.body.toString(), 'body');
          assert.equal(answer.flag, FLAG_RESPONSE);
        }
        await peer.close();
        await other.close();
      }));

    it('answers many requests of one write, each once', () =>
      withServer(reading, async ({ port }) => {
        const peer = await RawPeer.open(port);
        const count = 3_000;
        peer.write(
          Buffer.concat(Array.from({ length: count }, (_, i) => requestFrame(FAST, i, { pad: 'x'.repeat(i % 90) }))),
        );
        await until(() => peer.frames.length === count);
        peer.frames.forEach((frame, i) => {
          assert.equal(frame.opaque, i);
          assert.equal(frame.ext['offset'], String(i));
        });
        await peer.close();
      }));

    it('never shows bytes of one connection to another', () =>
      withServer(reading, async ({ port }) => {
        const peers = await Promise.all(Array.from({ length: 12 }, () => RawPeer.open(port)));
        const bodies = peers.map((_, i) => Buffer.alloc(70_000 + i * 1_111, 65 + i));
        const frames = peers.map((_, i) => requestFrame(ECHO, i, { name: `peer${i}` }, bodies[i]!));
        for (let at = 0, step = 1_777; at < 90_000; at += step) {
          peers.forEach((peer, i) => {
            peer.write(frames[i]!.subarray(at, at + step));
          });
          await new Promise((resolve) => setImmediate(resolve));
        }
        for (const [i, peer] of peers.entries()) {
          const answer = await peer.answer(i);
          assert.equal(answer.ext['name'], `peer${i}`);
          assert.ok(answer.body.equals(bodies[i]!));
          await peer.close();
        }
      }));

    it('carries frames of many megabytes in both directions', () =>
      withServer(reading, async ({ port }) => {
        const peer = await RawPeer.open(port);
        const body = Buffer.alloc(5_000_000, 7);
        const [small, large] = await Promise.all([peer.call(FAST, 1), peer.call(ECHO, 2, null, body)]);
        assert.equal(small.code, 0);
        assert.ok(large.body.equals(body));
        await peer.close();
      }));

    it('never answers a one-way request', () =>
      withServer(reading, async ({ port }) => {
        const peer = await RawPeer.open(port);
        for (const code of [ECHO, FAST, DEFER, THROWS, THROWS_CODE, SILENT, HALF_WRITTEN, 999]) {
          peer.write(requestFrame(code, code, null, null, true));
        }
        await peer.call(FAST, 1);
        assert.deepEqual(
          peer.frames.map((frame) => frame.opaque),
          [1],
        );
        await peer.close();
      }));

    it('says what is wrong: unknown code, thrown errors, no answer', () =>
      withServer(reading, async ({ port, logger }) => {
        const peer = await RawPeer.open(port);
        const outcome = async (code: number, ext = {}): Promise<[number, string | undefined]> => {
          const answer = await peer.call(code, code, ext);
          peer.frames.length = 0;
          return [answer.code, answer.remark];
        };
        assert.deepEqual(await outcome(4711), [3, ' request type 4711 not supported']);
        assert.deepEqual(await outcome(-5), [3, ' request type -5 not supported']);
        assert.deepEqual(await outcome(THROWS), [1, 'out of order']);
        assert.deepEqual(await outcome(THROWS_CODE, { queueId: 1 }), [13, 'too long']);
        assert.deepEqual(await outcome(THROWS_CODE), [1, 'the custom field <queueId> is null']);
        assert.deepEqual(await outcome(SILENT), [1, 'no answer to request 15']);
        assert.deepEqual(await outcome(HALF_WRITTEN), [13, 'changed my mind']);
        assert.equal((await peer.call(ECHO, 77)).code, 0);
        assert.equal(logger.texts('error').length, 2);
        await peer.close();
      }));

    it('answers later, once, in any order, and not at all to a peer that has gone', () =>
      withServer(reading, async ({ port, deferred, taken, server }) => {
        const peer = await RawPeer.open(port);
        peer.write(Buffer.concat([requestFrame(DEFER, 1), requestFrame(DEFER, 2), requestFrame(TAKE_OVER, 3)]));
        await until(() => taken.length === 1);
        const [channel] = server.channels;
        assert.equal(channel!.inFlight, 3);
        deferred[1]!.respond(0, 'second');
        deferred[0]!.respond(0, 'first');
        deferred[0]!.respond(0, 'again');
        taken[0]!.channel.drop(1);
        await peer.call(FAST, 4);
        assert.deepEqual(
          peer.frames.map((frame) => [frame.opaque, frame.remark]),
          [
            [2, 'second'],
            [1, 'first'],
            [4, undefined],
          ],
        );
        assert.equal(channel!.inFlight, 0);
        peer.write(requestFrame(DEFER, 5));
        await until(() => deferred.length === 3);
        await peer.close();
        await until(() => server.channels.size === 0);
        deferred[2]!.respond(0, 'too late');
      }));

    it('takes binary headers and answers in JSON', () =>
      withServer(reading, async ({ port }) => {
        const peer = await RawPeer.open(port);
        const header = encodeBinaryHeader(ECHO, 9, 0, 'hello', { topic: 'T' });
        const head = Buffer.alloc(8);
        head.writeInt32BE(4 + header.length, 0);
        head.writeInt32BE((SerializeType.ROCKETMQ << 24) | header.length, 4);
        peer.write(Buffer.concat([head, header]));
        const answer = await peer.answer(9);
        assert.equal(answer.remark, 'hello');
        assert.equal(answer.ext['topic'], 'T');
        await peer.close();
      }));

    it('answers what was asked before the peer ended its side, then ends', () =>
      withServer(reading, async ({ port, logger, server }) => {
        const peer = await RawPeer.open(port);
        peer.socket.end(Buffer.concat(Array.from({ length: 700 }, (_, i) => requestFrame(FAST, i))));
        await until(() => peer.ended);
        assert.equal(peer.frames.length, 700);
        await until(() => server.channels.size === 0);
        assert.deepEqual(logger.texts('warn'), []);
      }));

    it('takes the peer from a PROXY header of either version, however it is cut', () =>
      withServer(reading, async ({ port }) => {
        const v2 = Buffer.concat([
          Buffer.from('0d0a0d0a000d0a515549540a21110010', 'hex'),
          Buffer.from([10, 1, 2, 3, 127, 0, 0, 1, 0x30, 0x39, 0, 80]),
          Buffer.from([4, 0, 1, 0]),
        ]);
        const v6 = Buffer.concat([
          Buffer.from('0d0a0d0a000d0a515549540a21210024', 'hex'),
          Buffer.from(`${'00'.repeat(15)}01${'00'.repeat(16)}00500051`, 'hex'),
        ]);
        const local = Buffer.from('0d0a0d0a000d0a515549540a20000000', 'hex');
        const cases: Array<[Buffer, string | undefined]> = [
          [Buffer.from('PROXY TCP4 10.9.8.7 127.0.0.1 4321 10911\r\n'), '10.9.8.7:4321'],
          [Buffer.from('PROXY TCP6 2001:db8::1 ::1 4321 10911\r\n'), '[2001:db8::1]:4321'],
          [Buffer.from('PROXY UNKNOWN\r\n'), undefined],
          [v2, '10.1.2.3:12345'],
          [v6, '[0:0:0:0:0:0:0:1]:80'],
          [local, undefined],
        ];
        for (const [head, expected] of cases) {
          for (const cut of [0, 1, head.length - 1]) {
            const peer = await RawPeer.open(port);
            const bytes = Buffer.concat([head, requestFrame(ECHO, 1)]);
            const other = await RawPeer.open(port);
            peer.write(bytes.subarray(0, cut));
            await other.call(FAST, 1);
            peer.write(bytes.subarray(cut));
            assert.equal((await peer.answer(1)).ext['from'], expected ?? peer.address);
            await peer.close();
            await other.close();
          }
        }
      }));

    it('sends requests to its clients and matches their answers', () =>
      withServer(reading, async ({ port, server, clock }) => {
        const peer = await RawPeer.open(port);
        await peer.call(FAST, 1);
        const [channel] = server.channels;
        channel!.sendOneway(40, { consumerGroup: 'g' });
        const answered = channel!.invoke(307, { clientId: 'c' }, null, 1_000);
        await until(() => peer.frames.length === 3);
        const [, oneway, request] = peer.frames;
        assert.deepEqual([oneway!.code, oneway!.flag, oneway!.ext], [40, 2, { consumerGroup: 'g' }]);
        assert.deepEqual([request!.code, request!.flag, request!.ext], [307, 0, { clientId: 'c' }]);
        const response = requestFrame(0, request!.opaque, { x: '1' }, Buffer.from('info'));
        peer.write(Buffer.from(response.toString('latin1').replace('"flag":0', '"flag":1'), 'latin1'));
        const { code, ext, body } = await answered;
        assert.deepEqual([code, ext, Buffer.from(body).toString()], [0, { x: '1' }, 'info']);

        const late = assert.rejects(channel!.invoke(307, null, null, 1_000), { code: 'REMOTING_TIMEOUT' });
        clock.advance(1_000);
        await late;
        const lost = assert.rejects(channel!.invoke(307, null, null, 1_000), { code: 'REMOTING_CLOSED' });
        let gone = 0;
        channel!.onClose(() => gone++);
        await peer.close();
        await lost;
        await until(() => gone === 1);
        channel!.onClose(() => gone++);
        assert.equal(gone, 2);
        await assert.rejects(channel!.invoke(307, null, null, 1_000), { code: 'REMOTING_CLOSED' });
      }));
  });
}

describe('RemotingServer', () => {
  it('calls turn-end callbacks once for all requests of a turn, before their answers leave', async () => {
    const clock = new FakeClock();
    const server = new RemotingServer({ clock, logger: new CollectingLogger() });
    const parked: Array<{ channel: Channel; opaque: number }> = [];
    let commits = 0;
    server.register(FAST, (request) => {
      request.takeOver();
      parked.push({ channel: request.channel, opaque: request.opaque });
    });
    server.onTurnEnd(() => {
      if (parked.length > 0) commits++;
      for (const { channel, opaque } of parked.splice(0)) {
        const frame = requestFrame(0, opaque).toString('latin1').replace('"flag":0', '"flag":1');
        channel.send(Buffer.from(frame, 'latin1'), 1);
      }
    });
    const port = await server.listen('127.0.0.1', 0);
    const peer = await RawPeer.open(port);
    peer.write(Buffer.concat(Array.from({ length: 200 }, (_, i) => requestFrame(FAST, i))));
    await until(() => peer.frames.length === 200);
    assert.ok(commits < 20, `${commits} commits for 200 requests of one write`);
    const [channel] = server.channels;
    assert.equal(channel!.inFlight, 0);
    await peer.close();
    await server.close();
  });

  it('stops after what is in flight has been answered, and answers what comes meanwhile', async () => {
    await withServer('onread', async ({ server, port, deferred }) => {
      const peer = await RawPeer.open(port);
      peer.write(requestFrame(DEFER, 1));
      await until(() => deferred.length === 1);
      const closed = server.close();
      await assert.rejects(RawPeer.open(port));
      // Not GO_AWAY: a 5.5.0 client that dials again and is refused waits for its whole timeout.
      assert.equal((await peer.call(FAST, 2)).code, 0);
      assert.equal(peer.ended, false);
      deferred[0]!.respond(0, 'done');
      assert.equal((await peer.answer(1)).remark, 'done');
      await until(() => peer.ended);
      peer.socket.end();
      await closed;
    });
  });

  it('does not wait for ever for an answer when it stops', async () => {
    await withServer('onread', async ({ server, port, deferred, clock }) => {
      const peer = await RawPeer.open(port);
      peer.write(requestFrame(DEFER, 1));
      await until(() => deferred.length === 1);
      const closed = server.close(5_000);
      clock.advance(5_000);
      await until(() => peer.ended);
      clock.advance(1_000);
      await closed;
      await peer.close();
    });
  });

  it('says so when its port is taken, or its address is none of ours', async () => {
    await withServer('onread', async ({ server, port }) => {
      await assert.rejects(server.listen('127.0.0.1', port), { code: 'PORT_TAKEN' });
      await assert.rejects(server.listen('203.0.113.1', 0), { code: 'ADDRESS' });
      const second = await server.listen('127.0.0.1', 0);
      const peer = await RawPeer.open(second);
      assert.equal((await peer.call(FAST, 1)).code, 0);
      await peer.close();
    });
  });
});
