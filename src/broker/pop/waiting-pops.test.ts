// Pops that wait for a message, from the request to the answer: what wakes them, and that nothing wakes them for nothing.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RequestCode } from '../../remoting/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { messageWith } from '../broker-fixture.test.support.ts';
import { Arrivals } from '../longpolling/arrivals.ts';
import { PopWaits } from '../longpolling/pop-waits.ts';
import { registerResetOffset } from '../processor/reset-offset.ts';
import { type Fields, type PopAnswer, PopWorld } from './pop-world.test.support.ts';

class Waiting {
  answer: PopAnswer | undefined;

  constructor(answer: Promise<PopAnswer>) {
    void answer.then((value) => {
      this.answer = value;
    });
  }

  get bodies(): string[] | undefined {
    return this.answer?.popped.map(({ body }) => body);
  }
}

async function world(broker: Partial<BrokerConfig> = {}, queues = 1) {
  const w = await PopWorld.open({ broker, queues });
  const waits = new PopWaits(w.context, new Arrivals(w.context.store));
  waits.start();
  /** A pop that may wait; it does when this is done. */
  const wait = async (fields: Fields = {}): Promise<Waiting> => {
    const waiting = new Waiting(w.pop({ pollTime: 15_000, ...fields }));
    await turns();
    return waiting;
  };
  const turns = async (count = 10): Promise<void> => {
    for (let i = 0; i < count; i++) {
      w.endTurn();
      await w.turns(1);
    }
  };
  /** Looks that pops take meanwhile and that find nothing. */
  const looks = async (work: () => Promise<void>): Promise<number> => {
    const { stats } = w.context;
    const before = stats.getMissed;
    await work();
    return stats.getMissed - before;
  };
  return { w, waits, wait, turns, looks };
}

test('a pop that waits is answered with the message that comes, the next with the next', async () => {
  const { w, waits, wait, turns } = await world({}, 4);
  const [first, second] = [await wait(), await wait()];
  assert.equal(waits.pops.size, 2);
  await w.send(['a'], { queueId: 3 });
  await turns();
  assert.deepEqual([first.bodies, second.bodies], [['a'], undefined]);
  await w.send(['b'], { queueId: 1 });
  await turns();
  assert.deepEqual(second.bodies, ['b']);
  assert.equal(waits.pops.size, 0);
});

test('of a burst each that waits gets its share', async () => {
  const { w, wait, turns } = await world();
  const waiting = [];
  for (let i = 0; i < 4; i++) waiting.push(await wait({ maxMsgNums: 2 }));
  // In one turn.
  const bodies = ['a', 'b', 'c', 'd', 'e'];
  await Promise.all(bodies.map((body) => w.broker.put(messageWith({ body: Buffer.from(body) }))));
  await turns(20);
  assert.deepEqual(
    waiting.map(({ bodies }) => bodies),
    [['a', 'b'], ['c', 'd'], ['e'], undefined],
  );
});

test('a pop that nobody answers is told so when its time is up, with all fields', async () => {
  const { w, wait, turns } = await world();
  const waiting = await wait({ pollTime: 1000 });
  w.clock.advance(1000);
  await turns();
  assert.deepEqual([waiting.answer!.code, waiting.answer!.remark], [210, 'NO_MESSAGE_IN_QUEUE']);
  assert.equal(waiting.answer!.ext['restNum'], '0');
});

for (const [name, retryTopic, settings] of [
  ['V1', '%RETRY%G_T', {}],
  ['V1 where V2 is written', '%RETRY%G_T', { enableRetryTopicV2: true }],
  ['V2', '%RETRY%G+T', { enableRetryTopicV2: true }],
] as const) {
  test(`apache/rocketmq#9632, #6681: a pop that waits gets what comes back (${name})`, async () => {
    const { w, wait, turns } = await world(settings, 4);
    w.context.topics.createInSend('%RETRY%G_T', 'TBW102', 'test', 1, 0);
    w.context.topics.createInSend('%RETRY%G+T', 'TBW102', 'test', 1, 0);
    w.context.topics.persistIfChanged();
    for (let i = 0; i < 8; i++) {
      const waiting = await wait({ exp: 'a', queueId: i % 2 === 0 ? -1 : 3 });
      await w.send([`m${i}`], { topic: retryTopic, tag: 'a' });
      await turns();
      assert.deepEqual(waiting.bodies, [`m${i}`]);
    }
  });
}

test('apache/rocketmq#8472: one message in a thousand is for a pop that waits, and it gets it at once', async () => {
  const { w, waits, wait, turns, looks } = await world();
  const others = Array.from({ length: 999 }, (_, i) => `o${i}`);
  for (let round = 0; round < 3; round++) {
    const waiting = await wait({ exp: 'rare' });
    const looked = await looks(async () => {
      await w.send(others, { tag: 'common' });
      await turns();
    });
    // Each 800th offset; and what is behind, read in shares.
    assert.ok(looked <= 6, `${looked} looks`);
    assert.equal(waiting.answer, undefined);
    assert.equal(waits.pops.size, 1);
    await w.send(['rare'], { tag: 'rare' });
    await turns();
    assert.deepEqual(waiting.bodies, ['rare']);
  }
  // A backlog that a new group has before it.
  await w.send(others, { tag: 'common' });
  await w.send(others, { tag: 'common' });
  await w.send(['last'], { tag: 'rare' });
  const late = await wait({ consumerGroup: 'late', exp: 'rare', maxMsgNums: 1 });
  await turns(30);
  assert.deepEqual(late.bodies, ['rare']);
});

test('apache/rocketmq#10034: with too much in flight pops wait quietly, until an acknowledgement makes room', async () => {
  const { w, wait, turns, looks } = await world({ enablePopMessageThreshold: true, popInflightMessageThreshold: 1 });
  await w.send(['a', 'b', 'c']);
  const taken = await w.pop({ maxMsgNums: 2 });
  const waiting = await wait();
  assert.equal(await looks(() => turns(50)), 0);
  await w.ack(taken.popped[0]!);
  await turns();
  assert.deepEqual(waiting.bodies, ['c']);
});

test('apache/rocketmq#8592: what waits behind messages that were popped in order wakes nobody', async () => {
  const { w, wait, turns, looks } = await world();
  await w.send(['a']);
  const taken = await w.pop({ order: true, invisibleTime: 10_000 });
  await w.send(['b', 'c']);
  const waiting = await wait({ order: true, maxMsgNums: 1 });
  assert.equal(await looks(() => turns(50)), 0);
  await w.ack(taken.popped[0]!);
  await turns();
  assert.deepEqual(waiting.bodies, ['b']);
});

test('an ordered pop that waits is woken when the time of those before it is over, or was changed', async () => {
  const { w, wait, turns } = await world();
  await w.send(['a', 'b']);
  await w.pop({ order: true, maxMsgNums: 1, invisibleTime: 5000 });
  const waiting = await wait({ order: true });
  w.clock.advance(4999);
  await turns();
  assert.equal(waiting.answer, undefined);
  w.clock.advance(1);
  await turns();
  assert.deepEqual(waiting.bodies, ['a', 'b']);
  assert.equal(waiting.answer!.ext['orderCountInfo'], '0 qo0%0 1;0 0 0');
  const [a, b] = waiting.answer!.popped;
  const next = await wait({ order: true });
  await w.ack(a!);
  assert.equal((await w.change(b!, 100)).code, 0);
  w.clock.advance(100);
  await turns();
  assert.deepEqual(next.bodies, ['b']);
});

test('one that comes again, since its answer was lost, gets the same messages although the queue is closed', async () => {
  const { w } = await world();
  await w.send(['a', 'b']);
  const take = async (attemptId: string): Promise<string[]> => {
    const { popped } = await w.pop({ order: true, attemptId });
    return popped.map(({ body }) => body);
  };
  assert.deepEqual(await take('x'), ['a', 'b']);
  assert.deepEqual(await take('y'), []);
  assert.deepEqual(await take('x'), ['a', 'b']);
});

test('after a kill an acknowledgement passes over no message that nobody acknowledged', async () => {
  const { w } = await world();
  await w.send(['a', 'b', 'c']);
  const { popped } = await w.pop({ order: true });
  w.context.offsets.persist();
  // Its state is saved now and then only.
  w.context.orders.clearBlock('T', 'G', 0);
  const offset = (): number => w.context.offsets.query('G', 'T', 0);
  assert.equal((await w.ack(popped[2]!)).code, 0);
  assert.equal(offset(), 0);
  assert.equal((await w.ack(popped[0]!)).code, 0);
  assert.equal(offset(), 1);
  const again = await w.pop({ order: true });
  assert.deepEqual(
    again.popped.map(({ body }) => body),
    ['b', 'c'],
  );
});

test('apache/rocketmq#10827: nor does it go away empty while another pop reads from the disk', async () => {
  const { w, turns } = await world();
  await w.send(['a', 'b']);
  assert.equal((await w.pop({ order: true, attemptId: 'x' })).popped.length, 2);
  const queue = w.context.pop.queues.of('T', 'G', 0);
  assert.ok(queue.tryLock());
  const again = new Waiting(w.pop({ order: true, attemptId: 'x' }));
  await turns();
  assert.equal(again.answer, undefined);
  queue.unlock();
  await turns();
  assert.deepEqual(again.bodies, ['a', 'b']);
});

test('a pop that found its queue locked waits quietly, and gets what the other left there', async () => {
  const { w, wait, turns, looks } = await world();
  await w.send(['a']);
  const queue = w.context.pop.queues.of('T', 'G', 0);
  assert.ok(queue.tryLock());
  const waiting = await wait();
  assert.equal(await looks(() => turns(50)), 0);
  queue.unlock();
  await turns();
  assert.deepEqual(waiting.bodies, ['a']);
});

test('a pop that waits hears of a reset at once', async () => {
  const { w, wait, turns } = await world();
  registerResetOffset(w.broker, w.context);
  await w.send(['a', 'b']);
  await w.pop();
  const waiting = await wait();
  const reset = await w.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {
    topic: 'T',
    group: 'G',
    timestamp: -1,
    offset: 1,
    queueId: 0,
    isForce: true,
  });
  assert.equal(reset.code, 0);
  await turns();
  assert.deepEqual(waiting.bodies, ['b']);
});

test('what comes for a client that has gone is for the next', async () => {
  const { w, waits, wait, turns } = await world();
  await wait();
  w.channel.isOpen = false;
  const waiting = new Waiting(
    w.broker
      .ask(200050, {
        consumerGroup: 'G',
        topic: 'T',
        queueId: -1,
        maxMsgNums: 32,
        invisibleTime: 60_000,
        pollTime: 15_000,
        bornTime: 0,
        initMode: 0,
      })
      .then((answer) => ({ ...answer, popped: [] })),
  );
  await turns();
  assert.equal(waits.pops.size, 2);
  await w.send(['a']);
  await turns();
  assert.equal(waiting.answer?.code, 0);
  assert.equal(waits.pops.size, 0);
});
