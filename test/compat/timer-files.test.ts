// The timer's files: what Java wrote is written again byte for byte from the messages alone, and a store that Java left with pending timers
// is gone on with.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BrokerFixture } from '../../src/broker/broker-fixture.test.support.ts';
import { TIMER_TOPIC } from '../../src/broker/topic/topic-names.ts';
import { FakeClock, javaStringHash } from '../../src/common/index.ts';
import { MemoryFileSystem } from '../../src/io/memory-file-system.ts';
import { rollSlot, rollWindow, TimerMagic, TimerSlot, TimerUnit } from '../../src/store/index.ts';
import { TimerLog } from '../../src/store/timer/timer-log.ts';
import { TimerWheel } from '../../src/store/timer/timer-wheel.ts';
import { type GoldenManifest, goldenFiles, goldenManifest, packed, unpack } from './golden.ts';
import { filesBelow, storeConfig } from './open-store.ts';

interface TimerManifest extends GoldenManifest {
  timerCheckpoint: { lastReadTimeMs: number; lastTimerQueueOffset: number };
  timerLogUnits: Array<{ enqueueTime: number; offsetPy: number; sizePy: number }>;
}

const NAMES = ['514-plain-clean', '533-plain-clean', '550-plain-clean'];

for (const name of NAMES) {
  test(`${name}: timer log and wheel are written as Java wrote them`, async () => {
    const { timerLogUnits, messages } = goldenManifest(name) as TimerManifest;
    const fs = new MemoryFileSystem({ directories: ['/s'] });
    const log = new TimerLog(fs, '/s', 1024);
    const wheel = new TimerWheel(fs, '/s', 1000);
    const slot = new TimerSlot();
    const unit = new TimerUnit();
    const window = rollWindow(172_800, 1000);
    for (const { enqueueTime, offsetPy, sizePy } of timerLogUnits) {
      const { properties } = messages.find((message) => message.physicalOffset === offsetPy)!;
      const dueMs = Number(properties['TIMER_OUT_MS']);
      const onTheWay = rollSlot(dueMs, enqueueTime, window, 1000);
      const slotMs = onTheWay < 0 ? dueMs : onTheWay;
      const isDelete = properties['TIMER_DEL_UNIQKEY'] !== undefined;
      wheel.read(slotMs, slot);
      unit.prevPos = slot.lastPos;
      unit.magic = TimerMagic.DEFAULT | (onTheWay < 0 ? 0 : TimerMagic.ROLL) | (isDelete ? TimerMagic.DELETE : 0);
      unit.writeTime = enqueueTime;
      unit.delay = slotMs - enqueueTime;
      unit.offset = offsetPy;
      unit.size = sizePy;
      unit.topicHash = javaStringHash(properties['REAL_TOPIC']!);
      slot.lastPos = log.append(unit);
      if (slot.firstPos < 0) slot.firstPos = slot.lastPos;
      slot.num += isDelete ? -1 : 1;
      wheel.write(slotMs, slot);
    }
    await log.flush();
    await wheel.flush(wheel.takeDirty());
    const java = goldenFiles(name);
    const ours = packed(fs, '/s');
    for (const path of ['timerwheel', ...[...java.keys()].filter((path) => /^timerlog\/\d/.test(path))]) {
      assert.ok(Buffer.from(ours.get(path)!).equals(Buffer.from(java.get(path)!)), path);
    }
  });
}

async function open(
  name: string,
  nowMs: number,
): Promise<{ fs: MemoryFileSystem; clock: FakeClock; broker: BrokerFixture }> {
  const manifest = goldenManifest(name) as TimerManifest;
  const clock = new FakeClock(nowMs);
  const fs = new MemoryFileSystem({ clock });
  unpack(fs, '/store', goldenFiles(name));
  fs.settle();
  const broker = await BrokerFixture.open({
    fs,
    clock,
    store: storeConfig(manifest.brokerConf),
    broker: { mappedFileSizeTimerLog: 1024 },
  });
  await broker.context.timer.load();
  broker.context.timer.start();
  return { fs, clock, broker };
}

for (const name of NAMES) {
  test(`${name}: a start and a stop change no byte of the timer's files`, async () => {
    const { timerCheckpoint } = goldenManifest(name) as TimerManifest;
    const { fs, broker } = await open(name, timerCheckpoint.lastReadTimeMs);
    await broker.context.timer.stop();
    await broker.context.store.close();
    await broker.context.timer.close();
    const java = filesBelow(goldenFiles(name), 'timerlog', 'timerwheel', 'config/timercheck', 'config/timermetrics');
    const ours = packed(fs, '/store');
    for (const [path, bytes] of java) assert.ok(Buffer.from(ours.get(path)!).equals(Buffer.from(bytes)), path);
    assert.deepEqual(broker.logger.texts('warn'), []);
  });
}

for (const name of [...NAMES, '514-plain-crash', '533-plain-crash', '550-plain-crash']) {
  test(`${name}: what Java left waiting is delivered, once`, async () => {
    const { timerCheckpoint, messages } = goldenManifest(name) as TimerManifest;
    const { clock, broker } = await open(name, timerCheckpoint.lastReadTimeMs);
    const { store, timer } = broker.context;
    const before = new Map<string, number>();
    for (const { topic, queueId } of store.queues())
      before.set(`${topic}/${queueId}`, store.maxOffsetInQueue(topic, queueId));
    const waiting = messages.filter(
      ({ topic, properties }) =>
        topic === TIMER_TOPIC && Number(properties['TIMER_OUT_MS']) >= timerCheckpoint.lastReadTimeMs,
    );
    const deleted = new Set(
      waiting.map(({ properties }) => properties['TIMER_DEL_UNIQKEY']).filter((key) => key !== undefined),
    );
    const wanted = new Map<string, number>();
    for (const { properties, uniqKey } of waiting) {
      if (properties['TIMER_DEL_UNIQKEY'] !== undefined || deleted.has(uniqKey!)) continue;
      const queue = `${properties['REAL_TOPIC']}/${properties['REAL_QID']}`;
      wanted.set(queue, (wanted.get(queue) ?? 0) + 1);
    }
    assert.ok(wanted.size > 0);
    // Three days in steps that end with each slot.
    for (let i = 0; i < 3 * 24; i++) {
      clock.advance(3_600_000);
      for (let turn = 0; turn < 60; turn++) await new Promise(setImmediate);
    }
    for (const [queue, count] of wanted) {
      const [topic, queueId] = queue.split('/') as [string, string];
      const grown = store.maxOffsetInQueue(topic, Number(queueId)) - (before.get(queue) ?? 0);
      assert.equal(grown, count, queue);
    }
    assert.equal(timer.figures.setAside, 0);
    await timer.stop();
    await store.close();
    await timer.close();
  });
}
