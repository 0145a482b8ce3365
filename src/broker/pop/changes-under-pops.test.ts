// What happens to a queue while a pop has it, or between a pop and its acknowledgements.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeBits, receiptHandleText } from '../../message/index.ts';
import { FakeChannel } from '../broker-fixture.test.support.ts';
import { numbered } from '../clock-world.test.support.ts';
import { PopWorld } from './pop-world.test.support.ts';

const LOG = '/store/commitlog/00000000000000000000';
const POP = 200050;
const WANTS = { consumerGroup: 'G', topic: 'T', queueId: 0, maxMsgNums: 4, invisibleTime: 60_000, bornTime: 0 };

/** A pop that waits for the disk; `end` lets it go on. */
async function underWay(): Promise<{ w: PopWorld; end: () => Promise<void> }> {
  const w = await PopWorld.open();
  await w.send(numbered(10));
  await w.pass(11_000);
  await w.kill();
  const hold = w.fs.hold('read', LOG);
  void w.broker.ask(POP, { ...WANTS, pollTime: 0, initMode: 0 }, '', new FakeChannel());
  await w.turns(5);
  assert.ok(hold.waiting > 0);
  const end = async (): Promise<void> => {
    hold.end();
    for (let turn = 0; turn < 10; turn++) {
      await w.turns(1);
      w.endTurn();
    }
  };
  return { w, end };
}

const bodies = (popped: ReadonlyArray<{ body: string }>): string[] => popped.map(({ body }) => body);

test('a queue that is locked for longer than the sweep takes is not given to two pops', async () => {
  const { w, end } = await underWay();
  await w.pass(31_000, 1000);
  const other = w.broker.ask(POP, { ...WANTS, pollTime: 0, initMode: 0 }, '', new FakeChannel());
  await end();
  assert.equal((await other).code, 210);
  assert.deepEqual(bodies((await w.pop()).popped), numbered(10).slice(4));
});

test('a pop that waited while its topic was deleted takes nothing, and the next topic of that name begins at its first message', async () => {
  const { w, end } = await underWay();
  const { offsets, store, topics } = w.context;
  const deleted = store.deleteTopics(['T']);
  await w.turns(10);
  topics.delete('T');
  offsets.removeTopic('T');
  await end();
  await w.settle(deleted);
  topics.createInSend('T', 'TBW102', 'test', 1, 0);
  topics.persistIfChanged();
  await w.send(['n0', 'n1', 'n2']);
  assert.deepEqual(bodies((await w.pop()).popped), ['n0', 'n1', 'n2']);
});

test('a message whose time changes three times within a millisecond comes back: no two of its check points bear one name', async () => {
  const w = await PopWorld.open();
  await w.send(['m']);
  const [popped] = (await w.pop()).popped;
  await w.pass(10);
  let { handle } = popped!;
  const times: string[] = [];
  for (let i = 0; i < 3; i++) {
    const answer = await w.change({ ...popped!, handle }, 10_000);
    times.push(answer.ext['popTime']!);
    handle = receiptHandleText({
      startOffset: 0,
      popTime: Number(answer.ext['popTime']),
      invisibleTimeMs: Number(answer.ext['invisibleTime']),
      reviveQueueId: Number(answer.ext['reviveQid']),
      retryFlag: '0',
      brokerName: 'broker-a',
      queueId: 0,
      queueOffset: 0,
    });
  }
  assert.equal(new Set(times).size, 3, times.join());
});

test('acknowledgements in the name of groups that there are not leave nothing behind in memory', async () => {
  const w = await PopWorld.open();
  await w.send(['m']);
  const [popped] = (await w.pop()).popped;
  const { pop, traffic } = w.context;
  const ordered = popped!.handle.split(' ');
  ordered[3] = '999';
  for (let i = 0; i < 3; i++) {
    await w.ack(popped!, { consumerGroup: `unknown${i}` });
    await w.ack({ ...popped!, handle: ordered.join(' ') }, { consumerGroup: `unknown${i}` });
    assert.equal(pop.queues.find('T', `unknown${i}`, 0), undefined);
  }
  w.clock.advance(10_000);
  for (let i = 0; i < 3; i++) assert.equal(traffic.acks.has(`T@unknown${i}`), false);
  await w.ack(popped!);
  assert.equal(traffic.acks.of('T@G').messages, 1);
});

test('messages whose check point could not be written are not in flight: the queue is not closed for them', async () => {
  const w = await PopWorld.open();
  await w.send(numbered(10));
  w.fs.fail({ operation: 'write', path: /commitlog/, code: 'DISK_FULL' });
  const refused = await w.pop({ maxMsgNums: 5 });
  assert.equal(refused.code, 1);
  assert.equal(w.context.offsets.query('G', 'T', 0), 0);
  assert.equal(w.context.pop.queues.inFlight('T', 'G', 0), 0);
});

test('an acknowledgement of more messages than a record may name takes several, which are all read', async () => {
  const w = await PopWorld.open();
  await w.send(numbered(1100));
  const bits = encodeBits(Array.from({ length: 1100 }, (_, i) => i));
  const now = w.clock.now();
  const ack = { c: 'G', t: 'T', r: '0', so: 0, q: 0, rq: 0, pt: now, it: 60_000, b: bits };
  assert.equal((await w.ask(200151, {}, JSON.stringify({ acks: [ack] }))).code, 0);
  const counts = (await w.waiting()).map((body) => (JSON.parse(body) as { aol: number[] }).aol.length);
  assert.deepEqual(counts, [1024, 76]);
});

test('a batch of acknowledgements that is made to name millions of messages is refused', async () => {
  const w = await PopWorld.open();
  await w.send(['m']);
  const all = Buffer.alloc(8192, 255).toString('base64');
  const ack = { c: 'G', t: 'T', r: '0', so: 0, q: 0, rq: 0, pt: w.clock.now(), it: 60_000, b: all };
  const answer = await w.ask(200151, {}, JSON.stringify({ acks: [ack, ack] }));
  assert.deepEqual([answer.code, answer.remark], [1, 'acks[1]: more than 65536 acknowledged messages']);
  assert.deepEqual(await w.waiting(), []);
});
