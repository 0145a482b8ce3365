import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger, FakeClock, queueOffset } from '../../common/index.ts';
import { MemoryFileSystem, readWhole } from '../../io/index.ts';
import { defaultBrokerConfig } from '../broker-config.ts';
import { ConsumerOffsetManager } from './consumer-offset-manager.ts';

function manager(fs = new MemoryFileSystem({ directories: ['/config'] })): {
  fs: MemoryFileSystem;
  logger: CollectingLogger;
  offsets: ConsumerOffsetManager;
} {
  const logger = new CollectingLogger();
  const environment = { fs, clock: new FakeClock(), logger, folder: '/config' };
  return { fs, logger, offsets: new ConsumerOffsetManager(environment, defaultBrokerConfig()) };
}

test('commits are kept by group, topic and queue, and may go back with a warning', () => {
  const { offsets, logger } = manager();
  assert.equal(offsets.query('G', 'T', 0), -1);
  offsets.commit('c', 'G', 'T', 0, 5);
  offsets.commit('c', 'G', 'T', 1, 7);
  offsets.commit('c', 'H', 'T', 0, 9);
  offsets.commit('c', 'G', 'T', 0, 3);
  assert.deepEqual(
    [offsets.query('G', 'T', 0), offsets.query('G', 'T', 1), offsets.query('H', 'T', 0), offsets.query('G', 'U', 0)],
    [3, 7, 9, -1],
  );
  assert.equal(logger.texts('warn').length, 1);
  assert.deepEqual(offsets.topicsOf('G'), ['T']);
  assert.deepEqual(offsets.groupsOf('T').sort(), ['G', 'H']);
});

test('a commit of the same offset is no change; a changed table is saved once', () => {
  const { offsets, fs } = manager();
  offsets.commit('c', 'G', 'T', 0, 5);
  offsets.persistIfChanged();
  assert.equal(offsets.changed, false);
  offsets.commit('c', 'G', 'T', 0, 5);
  assert.equal(offsets.changed, false);
  offsets.commit('c', 'G', 'T', 0, 6);
  assert.equal(offsets.changed, true);
  offsets.persistIfChanged();
  const again = manager(fs).offsets;
  again.load();
  assert.equal(again.query('G', 'T', 0), 6);
});

test('the offsets of a broadcasting group are kept under its own name, as RocketMQ writes them, and list no group', () => {
  const { offsets, fs } = manager();
  offsets.commit('c', 'G@broadcast', 'T', 0, 5);
  offsets.commit('c', 'G', 'T', 0, 7);
  offsets.persistIfChanged();
  const text = Buffer.from(readWhole(fs, '/config/consumerOffset.json')!).toString();
  assert.match(text, /"T@G@broadcast":\{\s*0:5\s*\}/);
  assert.doesNotMatch(text, /"G@broadcast":/);
  const again = manager(fs).offsets;
  again.load();
  assert.equal(again.query('G@broadcast', 'T', 0), 5);
  assert.equal(again.query('G', 'T', 0), 7);
  assert.deepEqual(again.groupsOf('T'), ['G']);
});

test('the data version moves on with every 500 commits', () => {
  const { offsets } = manager();
  for (let i = 0; i < 1499; i++) offsets.commit('c', 'G', 'T', 0, i);
  assert.equal(offsets.dataVersion.counter, 2);
});

test('a pending reset wins over commits until a pull takes it', () => {
  const { offsets } = manager();
  offsets.commit('c', 'G', 'T', 0, 50);
  offsets.assignReset('G', 'T', 0, 10);
  assert.ok(offsets.hasReset('G', 'T', 0));
  offsets.commit('c', 'G', 'T', 0, 60);
  assert.equal(offsets.query('G', 'T', 0), 10);
  assert.equal(offsets.takeReset('G', 'T', 0), 10);
  assert.equal(offsets.takeReset('G', 'T', 0), -1);
  assert.equal(offsets.query('G', 'T', 0), 60);
  assert.ok(!offsets.hasReset('G', 'T', 0));
});

test('pulled offsets are shown in the file, and not loaded', () => {
  const { offsets, fs } = manager();
  offsets.commitPull('G', 'T', 0, 8);
  assert.equal(offsets.queryPull('G', 'T', 0), 8);
  assert.equal(offsets.queryPull('G', 'T', 1), -1);
  assert.deepEqual(offsets.topicsOf('G'), [], 'a pull is no commit');
  offsets.persist();
  const text = Buffer.from(readWhole(fs, '/config/consumerOffset.json')!).toString();
  assert.match(text, /"pullOffsetTable":\{\n\t\t"T@G":\{\n\t\t\t0:8\n\t\t\}\n\t\}\n\}$/);
  const again = manager(fs).offsets;
  again.load();
  assert.equal(again.queryPull('G', 'T', 0), -1);
});

test('removed groups and topics are gone, also for who kept their entry', () => {
  const { offsets } = manager();
  for (const group of ['G', 'H']) for (const topic of ['T', 'U']) offsets.commit('c', group, topic, 0, 1);
  const kept = offsets.find('G', 'T')!;
  offsets.removeTopic('T');
  assert.ok(kept.removed);
  assert.deepEqual(offsets.topicsOf('G'), ['U']);
  offsets.removeGroup('H');
  assert.deepEqual(offsets.groupsOf('U'), ['G']);
});

test('offsets are cloned as they are', () => {
  const { offsets } = manager();
  offsets.commit('c', 'G', 'T', 0, 4);
  offsets.commit('c', 'H', 'T', 1, 9);
  offsets.clone('G', 'H', 'T');
  assert.equal(offsets.query('H', 'T', 0), 4);
  assert.equal(offsets.query('H', 'T', 1), -1);
});

test('B26: consumers see what is not yet durable: a start lowers offsets above the end of their queue', () => {
  const { offsets, logger } = manager();
  offsets.commit('c', 'G', 'T', 0, 12);
  offsets.commit('c', 'G', 'T', 1, 3);
  const store = { maxOffsetInQueue: (_topic: string, queueId: number) => queueOffset(queueId === 0 ? 10 : 3) };
  assert.equal(offsets.clampTo(store), 1);
  assert.equal(offsets.query('G', 'T', 0), 10);
  assert.equal(offsets.query('G', 'T', 1), 3);
  assert.match(logger.texts('warn')[0]!, /T@G queue 0 is lowered from 12 to the queue's end 10/);
});
