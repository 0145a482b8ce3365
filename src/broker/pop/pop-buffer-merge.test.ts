// Pops and acknowledgements that meet in memory (enablePopBufferMerge).

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BrokerConfig } from '../broker-config.ts';
import { numbered } from '../clock-world.test.support.ts';
import { PopWorld } from './pop-world.test.support.ts';

const bodies = (popped: ReadonlyArray<{ body: string }>): string[] => popped.map(({ body }) => body);

async function open(broker: Partial<BrokerConfig> = {}): Promise<PopWorld> {
  const w = await PopWorld.open({ broker: { enablePopBufferMerge: true, ...broker } });
  await w.send(numbered(6));
  return w;
}

test('what is acknowledged in time is never stored, and the offset moves when all of it is', async () => {
  const w = await open();
  const { popped } = await w.pop({ maxMsgNums: 3 });
  const { offsets, pop } = w.context;
  assert.equal(pop.buffer.size, 1);
  assert.equal(offsets.query('G', 'T', 0), 0);
  await w.ackTogether(popped.slice(0, 2));
  assert.equal(offsets.query('G', 'T', 0), 0);
  // The next pop begins behind it all the same.
  const next = await w.pop({ maxMsgNums: 1 });
  assert.deepEqual(bodies(next.popped), ['m3']);
  assert.equal((await w.ack(popped[2]!)).code, 0);
  assert.equal(offsets.query('G', 'T', 0), 3);
  await w.ack(next.popped[0]!);
  assert.equal(offsets.query('G', 'T', 0), 4);
  assert.deepEqual([pop.buffer.size, pop.queues.inFlight('T', 'G', 0), await w.waiting()], [0, 0, []]);
  assert.equal(w.savedOffset(), 4);
});

test('offsets move in the order of the pops', async () => {
  const w = await open();
  const first = await w.pop({ maxMsgNums: 2 });
  const second = await w.pop({ maxMsgNums: 2 });
  await w.ackTogether(second.popped);
  assert.equal(w.context.offsets.query('G', 'T', 0), 0);
  await w.ackTogether(first.popped);
  assert.equal(w.context.offsets.query('G', 'T', 0), 4);
});

for (const batch of [false, true]) {
  test(`what stays too long is stored with its acknowledgements, ${batch ? 'in one record' : 'one by one'}`, async () => {
    const w = await open({ enablePopBatchAck: batch });
    const { popped, ext } = await w.pop({ maxMsgNums: 4 });
    await w.ackTogether([popped[1]!, popped[3]!]);
    await w.pass(9800);
    assert.deepEqual(await w.waiting(), []);
    assert.equal(w.context.offsets.query('G', 'T', 0), 0);
    await w.pass(400);
    const [ck, ...acks] = await w.waiting();
    assert.match(ck!, /"d":\[0,1,2,3\].*"n":4/);
    const of = `"bn":"broker-a","c":"G","pt":${ext['popTime']},"q":0,"so":0,"t":"T"}`;
    assert.deepEqual(acks, batch ? [`{"ao":0,"aol":[1,3],${of}`] : [`{"ao":1,${of}`, `{"ao":3,${of}`]);
    assert.equal(w.context.pop.buffer.size, 0);
    assert.equal(w.context.offsets.query('G', 'T', 0), 4);
    // From then on acknowledgements are records.
    await w.ack(popped[0]!);
    assert.equal((await w.waiting()).at(-1), `{"ao":0,${of}`);
    assert.equal(w.savedOffset(), 0);
    await w.pass(11_000);
    assert.equal(w.savedOffset(), 4);
  });
}

test('what comes back soon is stored at once, or in time', async () => {
  const w = await open();
  await w.pop({ maxMsgNums: 1, invisibleTime: 4000 });
  assert.equal((await w.waiting()).length, 1);
  await w.pop({ maxMsgNums: 1, invisibleTime: 6000 });
  assert.equal((await w.waiting()).length, 1);
  await w.pass(3100);
  assert.equal((await w.waiting()).length, 2);
});

test('a full buffer, and a queue with too many pops in it, are as without a buffer', async () => {
  const w = await open({ popCkMaxBufferSize: 1 });
  for (let i = 0; i < 3; i++) await w.pop({ maxMsgNums: 1 });
  assert.deepEqual([w.context.pop.buffer.size, (await w.waiting()).length], [2, 1]);
  const v = await open({ popCkOffsetMaxQueueSize: 1 });
  for (let i = 0; i < 3; i++) await v.pop({ maxMsgNums: 1 });
  assert.deepEqual([v.context.pop.buffer.size, (await v.waiting()).length], [1, 2]);
  assert.equal(v.context.offsets.query('G', 'T', 0), 0);
});

test('a stop stores what is in memory; a kill loses no message of it', async () => {
  const w = await open();
  const { popped } = await w.pop({ maxMsgNums: 2 });
  await w.ack(popped[0]!);
  w.context.pop.stop();
  assert.equal((await w.waiting()).length, 2);
  assert.equal(w.context.offsets.query('G', 'T', 0), 2);
  const v = await open();
  const before = await v.pop({ maxMsgNums: 2 });
  await v.ack(before.popped[0]!);
  v.context.offsets.persistIfChanged();
  await v.kill();
  assert.deepEqual(bodies((await v.pop()).popped), numbered(6));
});

test('a check point that cannot be stored is tried again, and nothing moves until it is', async () => {
  const w = await open();
  await w.pop({ maxMsgNums: 2 });
  const fault = w.fs.fail({
    operation: 'write',
    path: /commitlog/,
    code: 'DISK_FULL',
    times: Number.POSITIVE_INFINITY,
  });
  await w.send(['x']).catch(() => {});
  await w.pass(10_500);
  assert.equal(w.context.offsets.query('G', 'T', 0), 0);
  fault.clear();
  await w.pass(12_000);
  const checkPoints = (await w.waiting()).filter((body) => body.includes('"bm"'));
  const from = w.context.offsets.query('G', 'T', 0);
  // Stored, or given back to be popped again.
  assert.ok(from === 0 || checkPoints.length > 0, `${from} ${checkPoints}`);
});

test('a change of the invisible time takes its place in the buffer', async () => {
  const w = await open();
  const { popped } = await w.pop({ maxMsgNums: 2 });
  await w.ack(popped[0]!);
  assert.equal((await w.change(popped[1]!, 10_000)).code, 0);
  assert.equal(w.context.pop.buffer.size, 0);
  assert.equal(w.context.offsets.query('G', 'T', 0), 2);
  assert.equal((await w.waiting()).length, 1);
});

test('pops of groups that are deleted leave no trace', async () => {
  const w = await open();
  await w.pop({ maxMsgNums: 2 });
  w.context.groups.delete('G');
  w.context.offsets.removeGroup('G');
  await w.pass(11_000);
  assert.deepEqual([w.context.pop.buffer.size, await w.waiting()], [0, []]);
  assert.equal(w.context.offsets.query('G', 'T', 0), -1);
});

test('enablePopLog: each step of a pop has its line, and none without it', async () => {
  for (const enablePopLog of [false, true]) {
    const w = await open({ enablePopLog });
    const { popped } = await w.pop({ maxMsgNums: 2 });
    await w.ack(popped[0]!);
    await w.change(popped[1]!, 30_000);
    await w.pop({ maxMsgNums: 2 });
    await w.pass(10_500);
    await w.pop({ queueId: 0, maxMsgNums: 32 });
    await w.pop({ queueId: 0, pollTime: 10 });
    const lines = w.broker.logger.texts().filter((text) => /^(pop|G has) /.test(text));
    for (const step of [
      /^pop of G from T queue -1: of .* for 2 messages$/,
      /^pop T@G@0@0@.*: 2 messages from 0 on, in memory$/,
      /: acknowledged 0$/,
      /^G has T queue 0 offset 1 back at \d{13}$/,
      /: its check point is stored$/,
      /^pop of G from T queue 0: it does not wait$/,
    ]) {
      assert.equal(
        lines.some((line) => step.test(line)),
        enablePopLog,
        `${step} in\n${lines.join('\n')}`,
      );
    }
  }
});
