// Pops that a Java broker has left: what it has revived we revive to the byte, should its position be lost; what was acknowledged with it does not
// come back.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ReviveWorld, ROUNDS_MS } from '../../src/broker/pop/revive/revive-world.test.support.ts';
import { FakeClock } from '../../src/common/index.ts';
import { MemoryFileSystem, readWhole, writeWhole } from '../../src/io/index.ts';
import { REVIVE_GROUP } from '../../src/message/index.ts';
import { goldenFiles, goldenManifest, unpack } from './golden.ts';
import { storeConfig } from './open-store.ts';

const REVIVE_TOPIC = 'rmq_sys_REVIVE_LOG_GoldenCluster';
const OFFSETS = '/store/config/consumerOffset.json';

/** A broker on a golden store, some seconds after the Java broker was gone. */
async function openGolden(name: string, forgetPosition: boolean): Promise<ReviveWorld> {
  const { brokerConf, messages } = goldenManifest(name);
  const w = new ReviveWorld(
    {
      brokerName: 'golden-a',
      brokerClusterName: 'GoldenCluster',
      listenPort: 30_911,
      mappedFileSizeTimerLog: Number(brokerConf['mappedFileSizeTimerLog']),
    },
    storeConfig(brokerConf),
  );
  w.clock = new FakeClock(messages.at(-1)!.storeTimestamp + 5000);
  w.fs = new MemoryFileSystem({ clock: w.clock });
  unpack(w.fs, '/store', goldenFiles(name));
  if (forgetPosition) {
    const text = Buffer.from(readWhole(w.fs, OFFSETS)!).toString('utf8');
    const entry = new RegExp(`"${REVIVE_TOPIC}@${REVIVE_GROUP}":\\{\\s*0:\\d+\\s*\\},?`);
    assert.match(text, entry);
    writeWhole(w.fs, OFFSETS, Buffer.from(text.replace(entry, '')), true);
  }
  w.fs.settle();
  return w.start();
}

for (const [name, topic, group, isThere] of [
  ['550-plain-clean', 'GoldenPop', 'GID_pop', false],
  ['550-v2topic', 'GoldenV2__', 'GID_v2_', false],
  ['550-plain-clean', 'GoldenPop', 'GID_pop', true],
  ['550-v2topic', 'GoldenV2__', 'GID_v2_', true],
] as const) {
  const what = isThere ? 'is not revived again, though its position is lost' : 'is what we revive, to the byte';
  test(`${name}: what Java has revived ${what}`, async () => {
    const w = await openGolden(name, true);
    const { topics } = w.broker.context;
    const retryTopic = [...topics.all()].find(
      ({ topicName }) => topicName.startsWith(`%RETRY%${group}`) && topicName.includes(`_${topic}`),
    )!.topicName;
    const java = await w.drain(retryTopic);
    assert.ok(java.length >= 2);
    if (isThere) {
      await w.pass(90_000, 250);
      assert.deepEqual(await w.drain(retryTopic), java, 'it is not revived once more');
      assert.equal(w.counts.done, java.length);
      return w.stop();
    }
    await w.settle(w.broker.context.store.deleteTopics([retryTopic]));
    topics.delete(retryTopic);
    await w.pass(90_000, 250);
    const ours = await w.drain(retryTopic);
    assert.equal(ours.length, java.length);
    for (const [i, message] of ours.entries()) {
      const { queueOffset, physicalOffset, storeTimestamp, offsetMessageId, ...same } = java[i]!;
      assert.deepEqual({ ...message, queueOffset, physicalOffset, storeTimestamp, offsetMessageId }, java[i]);
      assert.deepEqual([...message.properties], [...same.properties], 'also in their order');
    }
    await w.stop();
  });
}

test('550-plain-clean: what waits in the timer, check points and acknowledgements, is read; nothing comes back', async () => {
  const w = await openGolden('550-plain-clean', false);
  const { offsets, store } = w.broker.context;
  assert.equal(offsets.query(REVIVE_GROUP, REVIVE_TOPIC, 0), 1);
  await w.pass(90_000, 250);
  assert.equal(store.maxOffsetInQueue(REVIVE_TOPIC, 0), 16);
  assert.equal(offsets.query(REVIVE_GROUP, REVIVE_TOPIC, 0), 15);
  assert.equal((await w.drain('%RETRY%GID_pop_GoldenPop')).length, 2);
  assert.deepEqual([w.counts.checkPoints, w.counts.acks, w.counts.strays], [2, 12, 0]);
  await w.stop();
});

test('550-plain-crash: acknowledgements behind the position that a kill has left are passed', async () => {
  const w = await openGolden('550-plain-crash', false);
  await w.pass(ROUNDS_MS, 250);
  assert.equal(w.broker.context.offsets.query(REVIVE_GROUP, REVIVE_TOPIC, 0), 15);
  assert.equal((await w.drain('%RETRY%GID_pop_GoldenPop')).length, 2);
});
