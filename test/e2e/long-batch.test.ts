// Batches of 1 MiB over the wire: what one connection sends stays in its order, each batch is stored whole or not at all, and neither a
// peer that goes away nor a disk that is full nor a stop in the middle changes that.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger } from '../../src/common/index.ts';
import { decodeMessages, decodeOffsetMessageId, encodeBatch } from '../../src/message/index.ts';
import { RequestCode, ResponseCode } from '../../src/remoting/index.ts';
import {
  FakeClock,
  MemoryFileSystem,
  type StartBrokerOptions,
  startBroker,
  type TestBroker,
} from '../../src/testing/index.ts';
import { type Fields, jsonRequest, ONEWAY, sendFields, until, WirePeer } from './wire-peer.ts';

const MEMBERS = 1024;
const BATCH = encodeBatch(
  Array.from({ length: MEMBERS }, (_, i) => ({
    flag: i,
    body: Buffer.alloc(1000, i),
    properties: Buffer.from(`KEYS\u0001k${i}\u0002`),
  })),
);

const fields = (batch: boolean, changes: Fields = {}): Fields =>
  sendFields('Orders', { d: '1', m: String(batch), ...changes });
const batchFrame = (opaque: number, flag = 0): Buffer =>
  jsonRequest(RequestCode.SEND_BATCH_MESSAGE, opaque, fields(true), BATCH, flag);
const smallFrame = (opaque: number): Buffer =>
  jsonRequest(RequestCode.SEND_MESSAGE_V2, opaque, fields(false), Buffer.from(`small ${opaque}`));

async function withBroker(run: (server: TestBroker) => Promise<void>, options: StartBrokerOptions = {}): Promise<void> {
  const logger = new CollectingLogger();
  const server = await startBroker({ logger, ...options });
  try {
    await run(server);
    assert.deepEqual(logger.texts('error'), []);
  } finally {
    await server.stop();
  }
}

const stored = (server: TestBroker): number => server.broker.context.store.maxOffsetInQueue('Orders', 0, false);

for (const flushDiskType of ['ASYNC_FLUSH', 'SYNC_FLUSH'] as const) {
  test(`what a connection sends behind a batch of 1 MiB is stored behind it (${flushDiskType})`, () =>
    withBroker(
      async (server) => {
        const peer = await WirePeer.open(server.address);
        const other = await WirePeer.open(server.address);
        peer.write(Buffer.concat([smallFrame(1), batchFrame(2), smallFrame(3), batchFrame(4, ONEWAY), smallFrame(5)]));
        // The others go on, in whatever place they get.
        for (let i = 1; i <= 20; i++) assert.equal((await other.call(RequestCode.HEART_BEAT, i)).code >= 0, true);
        const answers = [];
        for (const opaque of [1, 2, 3, 5]) answers.push(await peer.answer(opaque));
        assert.deepEqual(
          answers.map(({ code, ext }) => [code, ext.queueOffset]),
          [
            [0, '0'],
            [0, '1'],
            [0, `${1 + MEMBERS}`],
            [0, `${2 + 2 * MEMBERS}`],
          ],
        );
        const ids = answers[1]!.ext.msgId!.split(',');
        assert.equal(ids.length, MEMBERS);
        const { store } = server.broker.context;
        for (const i of [0, 1, 500, MEMBERS - 1]) {
          const [message] = decodeMessages((await store.recordAt(decodeOffsetMessageId(ids[i]!).offset))!);
          assert.deepEqual([message!.queueOffset, message!.flag, message!.body[0]], [1 + i, i, i & 0xff]);
          assert.equal(message!.properties.get('KEYS'), `k${i}`);
        }
        await peer.close();
        await other.close();
      },
      { storeConfig: { flushDiskType } },
    ));
}

test('a peer that goes away behind its batch leaves all of it or nothing, and nobody waits for it', () =>
  withBroker(async (server) => {
    const other = await WirePeer.open(server.address);
    assert.equal((await other.call(RequestCode.SEND_MESSAGE_V2, 1, fields(false), Buffer.from('x'))).code, 0);
    for (let i = 0; i < 10; i++) {
      const peer = await WirePeer.open(server.address);
      // Half of them do not send the last byte.
      const frame = batchFrame(1);
      const written = new Promise<void>((resolve) => {
        peer.socket.write(frame.subarray(0, frame.length - (i % 2)), () => resolve());
      });
      await written;
      if (i % 3 === 0) peer.socket.resetAndDestroy();
      else await peer.close();
    }
    await other.call(RequestCode.SEND_MESSAGE_V2, 2, fields(false), Buffer.from('x'));
    await until(() => [...server.broker.context.store.queues()].length > 0 && stored(server) >= 2);
    const before = stored(server);
    const late = await WirePeer.open(server.address);
    late.write(batchFrame(7));
    assert.equal((await late.answer(7)).code, 0);
    const { store } = server.broker.context;
    await until(() => store.maxOffsetInQueue('Orders', 0) === stored(server));
    assert.ok(stored(server) >= before + MEMBERS);
    assert.equal((stored(server) - 2) % MEMBERS, 0);
    await late.close();
    await other.close();
  }));

test('a half-closed peer still gets the answer to its batch', () =>
  withBroker(async (server) => {
    const peer = await WirePeer.open(server.address);
    peer.socket.end(batchFrame(1));
    const answer = await peer.answer(1);
    assert.deepEqual([answer.code, answer.ext.queueOffset, stored(server)], [0, '0', MEMBERS]);
    await peer.close();
  }));

test('a batch that the disk has no room for is refused whole, and the next one stored', async () => {
  const disk = new MemoryFileSystem({ directories: ['/gantry'] });
  const clock = new FakeClock();
  await withBroker(
    async (server) => {
      const peer = await WirePeer.open(server.address);
      peer.write(smallFrame(1));
      assert.equal((await peer.answer(1)).code, 0);
      const fault = disk.fail({ operation: 'write', path: 'commitlog', code: 'DISK_FULL', keepBytes: 300_000 });
      peer.write(batchFrame(2));
      const refused = await peer.answer(2);
      assert.equal(fault.hits, 1);
      assert.equal(refused.code, ResponseCode.SERVICE_NOT_AVAILABLE);
      assert.equal(refused.ext.msgId, undefined);
      assert.equal(stored(server), 1);
      // The store takes sends again a little after the disk does.
      let opaque = 3;
      let answer = await peer.call(RequestCode.SEND_BATCH_MESSAGE, opaque, fields(true), BATCH);
      while (answer.code !== 0) {
        clock.advance(500);
        answer = await peer.call(RequestCode.SEND_BATCH_MESSAGE, ++opaque, fields(true), BATCH);
      }
      assert.equal(answer.ext.queueOffset, '1');
      await peer.close();
    },
    { disk, clock },
  );
  await withBroker(async (server) => assert.equal(stored(server), 1 + MEMBERS), { disk });
});

test('a batch whose topic is deleted while it comes is not stored in a topic that is not there', () =>
  withBroker(async (server) => {
    const { store, topics } = server.broker.context;
    const peer = await WirePeer.open(server.address);
    peer.write(smallFrame(1));
    await peer.answer(1);
    const begin = store.beginBatch.bind(store);
    store.beginBatch = (request) => {
      topics.delete('Orders');
      return begin(request);
    };
    peer.write(batchFrame(2));
    const answer = await peer.answer(2);
    assert.deepEqual([answer.code, stored(server)], [ResponseCode.TOPIC_NOT_EXIST, 1]);
    await peer.close();
  }));

test('a stop answers the batch that is being encoded', async () => {
  const disk = new MemoryFileSystem({ directories: ['/gantry'] });
  const server = await startBroker({ disk });
  const peer = await WirePeer.open(server.address);
  const { store } = server.broker.context;
  const begun = new Promise<void>((resolve) => {
    const begin = store.beginBatch.bind(store);
    store.beginBatch = (request) => {
      resolve();
      return begin(request);
    };
  });
  peer.write(Buffer.concat([batchFrame(1), smallFrame(2)]));
  await begun;
  const stopped = server.stop();
  assert.equal((await peer.answer(1)).code, 0);
  assert.equal((await peer.answer(2)).code, 0);
  await stopped;
  await peer.close();
  await withBroker(async (again) => assert.equal(stored(again), MEMBERS + 1), { disk });
});

test('what a connection sends behind a batch of 1 MiB to a topic that is being created is stored behind it', () => {
  const disk = new MemoryFileSystem({ directories: ['/gantry'] });
  return withBroker(
    async (server) => {
      const peer = await WirePeer.open(server.address);
      const fresh = { b: 'Fresh' };
      const small = (opaque: number): Buffer =>
        jsonRequest(RequestCode.SEND_MESSAGE_V2, opaque, fields(false, fresh), Buffer.from('small'));
      const batch = jsonRequest(RequestCode.SEND_BATCH_MESSAGE, 2, fields(true, fresh), BATCH);
      const hold = disk.hold('sync', 'topics.json');
      peer.write(Buffer.concat([small(1), batch, small(3), small(4)]));
      // All of it has come before the topic is saved.
      for (let turn = 0; turn < 500; turn++) await new Promise((resolve) => setImmediate(resolve));
      assert.equal(hold.waiting, 1);
      hold.end();
      const places = [];
      for (const opaque of [1, 2, 3, 4]) places.push(Number((await peer.answer(opaque)).ext.queueOffset));
      assert.deepEqual(places, [0, 1, 1 + MEMBERS, 2 + MEMBERS]);
    },
    { disk },
  );
});
