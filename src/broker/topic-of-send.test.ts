import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { silentLogger, systemClock } from '../common/index.ts';
import { MemoryFileSystem, readWhole } from '../io/index.ts';
import { RemotingClient, type RemotingResponse, RequestCode, ResponseCode } from '../remoting/index.ts';
import { Broker } from './index.ts';
import { sendHeader } from './processor/sender.test.support.ts';
import { TopicConfig } from './topic/topic-config.ts';

const TABLE = '/store/config/topics.json';

interface World {
  fs: MemoryFileSystem;
  broker: Broker;
  send: (topic: string, body?: string) => Promise<RemotingResponse>;
  /** An administrator's request for a topic, in a list. */
  list: (topicName: string) => Promise<RemotingResponse>;
  /** Texts in the table on disk. */
  saved: () => string;
}

async function open(t: TestContext, logFileBytes = 256 * 1024): Promise<World> {
  const fs = new MemoryFileSystem({ directories: ['/store/config'] });
  const broker = await Broker.start({
    storeConfig: {
      storePathRootDir: '/store',
      mappedFileSizeCommitLog: logFileBytes,
      maxHashSlotNum: 100,
      maxIndexNum: 400,
    },
    config: { listenPort: 0, brokerIP1: '127.0.0.1' },
    host: '127.0.0.1',
    deps: { fs, logger: silentLogger },
  });
  t.after(() => broker.stop());
  const client = new RemotingClient({ clock: systemClock, logger: silentLogger });
  t.after(() => client.close());
  const address = `127.0.0.1:${broker.port}`;
  return {
    fs,
    broker,
    send: (topic, body = 'x') =>
      client.invoke(address, RequestCode.SEND_MESSAGE_V2, sendHeader({ b: topic }), Buffer.from(body), 10_000),
    list: (topicName) => {
      const topicConfigList = [{ topicName, readQueueNums: 4, writeQueueNums: 4, perm: 6 }];
      const body = Buffer.from(JSON.stringify({ topicConfigList }));
      return client.invoke(address, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {}, body, 10_000);
    },
    saved: () => Buffer.from(readWhole(fs, TABLE) ?? new Uint8Array()).toString(),
  };
}

test('a topic that a send creates is saved before the message is committed: a kill after the answer must not hide it', async (t) => {
  const { fs, send, saved } = await open(t);
  const savedAtCommit: boolean[] = [];
  fs.onOperation = (operation, path) => {
    if (operation !== 'write' || !path.startsWith('/store/commitlog/')) return;
    savedAtCommit.push(saved().includes('"Fresh"'));
  };
  assert.equal((await send('Fresh')).code, ResponseCode.SUCCESS);
  assert.deepEqual(savedAtCommit, [true]);
});

test('100 topics that sends create beside 20,000: two saves at most, in pieces, and each answer behind its own', async (t) => {
  const { fs, broker, send, saved } = await open(t);
  const { topics } = broker.context;
  const wishes = Array.from({ length: 20_000 }, (_, i) => ({
    topic: new TopicConfig(`Topic-${i}`),
    attributes: new Map<string, string>(),
  }));
  await topics.update(wishes);
  let saves = 0;
  let whole = 0;
  let longest = 0;
  let written = 0;
  fs.onOperation = (operation, path) => {
    if (path === `${TABLE}.tmp`) whole++;
    if (path !== `${TABLE}.next`) return;
    const size = fs.stat(path)?.size ?? 0;
    if (operation === 'sync') saves++;
    longest = Math.max(longest, size - written);
    written = size;
  };
  const answers = Array.from({ length: 100 }, async (_, i) => {
    const { code } = await send(`Fresh-${i}`);
    return code === ResponseCode.SUCCESS && saved().includes(`"Fresh-${i}"`);
  });
  assert.deepEqual(new Set(await Promise.all(answers)), new Set([true]));
  assert.ok(saves <= 2, `${saves} saves`);
  assert.equal(whole, 0, 'none in one piece');
  assert.ok(longest > 0 && longest < 66_000, `${longest} bytes in one turn`);
  fs.onOperation = undefined;
});

test('a send whose topic cannot be saved is refused and nothing of it is stored; the next one tries again', async (t) => {
  const { fs, broker, send, saved } = await open(t);
  const fault = fs.fail({ operation: 'sync', path: 'topics.json', times: Number.POSITIVE_INFINITY, code: 'IO' });
  const { wrote } = broker.context.store.watermarks;
  const refused = await send('Fresh');
  assert.equal(refused.code, ResponseCode.SYSTEM_ERROR);
  assert.match(refused.remark!, /^topic\[Fresh\] cannot be saved, and nothing was stored: /);
  assert.equal((await send('Fresh')).code, ResponseCode.SYSTEM_ERROR, 'it is there, but a power cut could take it');
  assert.equal(broker.context.store.watermarks.wrote, wrote);
  fault.clear();
  assert.equal((await send('Fresh')).code, ResponseCode.SUCCESS);
  assert.match(saved(), /"Fresh"/);
});

test('what one connection sends to a new topic is stored in its order', async (t) => {
  const { broker, send } = await open(t);
  const { store } = broker.context;
  const answers = await Promise.all(Array.from({ length: 200 }, (_, i) => send('Fresh', `body ${i}`)));
  assert.deepEqual(
    answers.map(({ ext }) => Number(ext['queueOffset'])),
    Array.from({ length: 200 }, (_, i) => i),
  );
  assert.equal(store.maxOffsetInQueue('Fresh', 0), 200);
});

test('more than may wait for a save: its sender is read no further, and all of it is stored in order when that is done', async (t) => {
  const { fs, broker, send } = await open(t, 64 * 1024 * 1024);
  const hold = fs.hold('sync', 'topics.json');
  const held = 40;
  const answers = Array.from({ length: held }, () => send('Fresh', 'x'.repeat(600 * 1024)));
  for (let turn = 0; hold.waiting === 0 || turn < 500; turn++) await setImmediate();
  assert.ok(broker.context.topics.isUnsaved('Fresh'));
  assert.equal(broker.context.store.watermarks.wrote, 0);
  hold.end();
  const places = (await Promise.all(answers)).map(({ ext }) => Number(ext['queueOffset']));
  assert.deepEqual(
    places,
    Array.from({ length: held }, (_, i) => i),
  );
});

test('a list of topics that could not be saved is no success the second time either', async (t) => {
  const { fs, broker, list, saved } = await open(t);
  const fault = fs.fail({ operation: 'sync', path: 'topics.json', times: Number.POSITIVE_INFINITY, code: 'IO' });
  assert.notEqual((await list('Listed')).code, ResponseCode.SUCCESS);
  assert.ok(broker.context.topics.isUnsaved('Listed'));
  assert.notEqual((await list('Listed')).code, ResponseCode.SUCCESS);
  fault.clear();
  assert.equal((await list('Listed')).code, ResponseCode.SUCCESS);
  assert.match(saved(), /"Listed"/);
});

test('a change of a topic that cannot be saved does not keep sends from it', async (t) => {
  const { fs, broker, send } = await open(t);
  assert.equal((await send('Fresh')).code, ResponseCode.SUCCESS);
  fs.fail({ operation: 'sync', path: 'topics.json', times: Number.POSITIVE_INFINITY, code: 'IO' });
  const { topics } = broker.context;
  const topic = topics.select('Fresh')!.with({ order: true });
  await assert.rejects(topics.update([{ topic, attributes: new Map() }]));
  assert.equal((await send('Fresh')).code, ResponseCode.SUCCESS);
});
