// Topics and what the store derives of them: deleted while that is not on disk yet, or with a name that means something to JavaScript.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger } from '../../src/common/index.ts';
import { readWhole } from '../../src/io/index.ts';
import { RequestCode } from '../../src/remoting/index.ts';
import { FakeClock, startBroker, type TestBroker } from '../../src/testing/index.ts';
import { type Fields, sendFields, until, WirePeer } from './wire-peer.ts';

interface Fixture {
  server: TestBroker;
  clock: FakeClock;
  logger: CollectingLogger;
  ask: (code: number, ext: Fields, body?: string) => Promise<number>;
}

/** Looks for the flush of the derived files each 100 ms, and flushes after 1 s. */
const storeConfig = { flushIntervalConsumeQueue: 100, flushConsumeQueueThoroughInterval: 1_000 };
const FLUSH_MS = 1_200;

async function withBroker(run: (fixture: Fixture) => Promise<void>): Promise<void> {
  const clock = new FakeClock();
  const logger = new CollectingLogger();
  const server = await startBroker({ clock, logger, storeConfig });
  const peer = await WirePeer.open(server.address);
  let opaque = 1;
  try {
    await run({
      server,
      clock,
      logger,
      ask: async (code, ext, body = '') => (await peer.call(code, opaque++, ext, Buffer.from(body))).code,
    });
  } finally {
    await peer.close();
    await server.stop();
  }
}

const send = (topic: string, queueId: number): Fields => sendFields(topic, { e: String(queueId) });

test('a deleted topic’s folders do not keep everything else from being made durable', async () => {
  let disk: TestBroker['disk'];
  let lines: CollectingLogger | undefined;
  await withBroker(async ({ server, clock, logger, ask }) => {
    disk = server.disk;
    lines = logger;
    const { store } = server.broker.context;
    // Folders are made when the first 4 KiB of a queue are written; the topic goes between two flushes, and while one is under way.
    for (let round = 0; round < 3; round++) {
      for (let queueId = 0; queueId < 4; queueId++) {
        for (let i = 0; i < 300; i++)
          assert.equal(await ask(RequestCode.SEND_MESSAGE_V2, send('Brief', queueId), 'x'), 0);
      }
      await until(() => store.watermarks.dispatched === store.watermarks.wrote);
      if (round > 0) clock.advance(FLUSH_MS);
      assert.equal(await ask(RequestCode.DELETE_TOPIC_IN_BROKER, { topic: 'Brief' }), 0);
      clock.advance(FLUSH_MS);
      await ask(RequestCode.GET_MAX_OFFSET, { topic: 'Brief', queueId: '0' });
    }
    await ask(RequestCode.SEND_MESSAGE_V2, send('Lasting', 0), 'x');
  });
  assert.deepEqual([...lines!.texts('warn'), ...lines!.texts('error')], []);
  assert.equal(disk!.stat('/gantry/store/abort'), undefined, 'the stop was not clean');
});

test('topics with names that JavaScript knows are topics like all others', async () => {
  const names = ['__proto__', 'constructor', 'toString', '0', '__defineGetter__', 'hasOwnProperty'];
  let disk: TestBroker['disk'];
  await withBroker(async ({ server, clock, ask }) => {
    disk = server.disk;
    for (const name of names) {
      assert.equal(await ask(RequestCode.SEND_MESSAGE_V2, send(name, 0), 'x'), 0);
      assert.equal(await ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, { topic: name }), 3);
      assert.equal(await ask(RequestCode.GET_TOPIC_STATS_INFO, { topic: name }), 0);
    }
    await until(
      () => server.broker.context.store.watermarks.dispatched === server.broker.context.store.watermarks.wrote,
    );
    const bounds = (): string =>
      Buffer.from(readWhole(disk!, '/gantry/store/gantry/queue-bounds.json') ?? '').toString('utf8');
    await until(() => {
      clock.advance(100);
      return bounds().includes('hasOwnProperty');
    });
    for (const name of names) assert.ok(bounds().includes(`"${name}":{"0":[1,`), bounds());
    assert.equal(({} as Record<string, unknown>)['0'], undefined, 'every object has got a field');
  });
  const again = await startBroker({ disk: disk! });
  for (const name of names) assert.equal(again.broker.context.store.maxOffsetInQueue(name, 0), 1, name);
  await again.stop();
});

test('a group’s progress on a deleted topic does not come back after a kill: it would skip what is sent since', async () => {
  for (const topic of ['T', '__proto__']) {
    let disk: TestBroker['disk'];
    await withBroker(async ({ server, ask }) => {
      const { store, offsets } = server.broker.context;
      for (let i = 0; i < 5; i++) assert.equal(await ask(RequestCode.SEND_MESSAGE_V2, send(topic, 0), 'x'), 0);
      await until(() => store.watermarks.dispatched === store.watermarks.wrote);
      offsets.commit('c', 'G', topic, 0, 5);
      offsets.persist();
      assert.equal(await ask(RequestCode.DELETE_TOPIC_IN_BROKER, { topic }), 0);
      assert.equal(await ask(RequestCode.SEND_MESSAGE_V2, send(topic, 0), 'x'), 0);
      // What a process leaves that is killed now.
      disk = server.disk!.clone();
    });
    const again = await startBroker({ disk: disk! });
    const found = [
      again.broker.context.store.maxOffsetInQueue(topic, 0),
      again.broker.context.offsets.query('G', topic, 0),
    ];
    await again.stop();
    assert.deepEqual(found, [1, -1], topic);
  }
});
