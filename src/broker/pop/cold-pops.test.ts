// Pops whose messages come from the disk: the queue is closed while they are fetched, and what has gone meanwhile is not handed out.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeChannel, messageWith } from '../broker-fixture.test.support.ts';
import { numbered } from '../clock-world.test.support.ts';
import { PopWorld } from './pop-world.test.support.ts';

const LOG = '/store/commitlog/00000000000000000000';
const POP = 200050;

const bodies = (popped: ReadonlyArray<{ body: string }>): string[] => popped.map(({ body }) => body);

const WANTS = {
  consumerGroup: 'G',
  topic: 'T',
  queueId: 0,
  maxMsgNums: 4,
  invisibleTime: 60_000,
  pollTime: 0,
  bornTime: 0,
};

/** Ten messages that have left the memory. */
async function open(): Promise<PopWorld> {
  const w = await PopWorld.open();
  await w.send(numbered(10));
  await w.pass(11_000);
  await w.kill();
  return w;
}

test('while a pop waits for the disk its queue is closed to others, who are told what is left', async () => {
  const w = await open();
  const hold = w.fs.hold('read', LOG);
  // Answers find their requests by the connection.
  const first = w.broker.ask(POP, { ...WANTS, initMode: 0 }, '', new FakeChannel());
  await w.turns(5);
  assert.ok(hold.waiting > 0);
  const other = await w.pop();
  assert.deepEqual([other.code, other.ext['restNum']], [210, '10']);
  hold.end();
  for (let turn = 0; turn < 10; turn++) {
    await w.turns(1);
    w.endTurn();
  }
  const answer = await first;
  assert.deepEqual([answer.code, answer.ext['msgOffsetInfo']], [0, '0 0 0,1,2,3']);
  assert.deepEqual(bodies((await w.pop()).popped), numbered(10).slice(4));
});

test('the records of pops are nobody’s sends: only beside sends pops of old messages keep to gantryColdReadBytesPerSecond', async () => {
  const store = { gantryColdReadBytesPerSecond: 1000, mappedFileSizeCommitLog: 4 * 1024 * 1024 };
  for (const isSending of [false, true]) {
    const w = await PopWorld.open({ store });
    await w.send(numbered(10).map((name) => name.padEnd(300_000, '.')));
    await w.pass(11_000);
    await w.kill();
    let got = 0;
    for (let pops = 0; pops < 5; pops++) {
      if (isSending) await w.broker.put(messageWith({ topic: 'Other' }));
      void w.broker.ask(POP, { ...WANTS, maxMsgNums: 2 }, '', new FakeChannel()).then(({ code }) => {
        if (code === 0) got += 2;
      });
      for (let turn = 0; turn < 40; turn++) {
        await w.turns(1);
        w.endTurn();
      }
    }
    if (isSending) assert.ok(got < 10, `${got} were popped at once`);
    else assert.equal(got, 10);
  }
});

test('a client that has gone while its pop waited takes nothing', async () => {
  const w = await open();
  const hold = w.fs.hold('read', LOG);
  const gone = new FakeChannel();
  void w.broker.ask(POP, { ...WANTS, initMode: 0 }, '', gone);
  await w.turns(5);
  assert.ok(hold.waiting > 0);
  gone.close('test');
  hold.end();
  await w.turns(5);
  assert.deepEqual(bodies((await w.pop()).popped), numbered(10));
  const checkPoints = await w.waiting();
  assert.equal(checkPoints.length, 1);
});

test('a damaged record is left out, of the answer and of the check point', async () => {
  const w = await PopWorld.open();
  await w.send(numbered(5));
  const places = (await w.drain()).map(({ physicalOffset }) => physicalOffset);
  await w.pass(11_000);
  await w.kill();
  // Within its body.
  const file = w.fs.open(LOG, 'write');
  file.writeSync(Buffer.from('?'), 0, 1, places[2]! + 88);
  file.close();
  const answer = await w.pop();
  assert.deepEqual(bodies(answer.popped), ['m0', 'm1', 'm3', 'm4']);
  assert.equal(answer.ext['msgOffsetInfo'], '0 0 0,1,3,4');
  assert.match((await w.waiting())[0]!, /"d":\[0,1,3,4\],"it":60000,"n":4/);
  assert.equal(w.context.offsets.query('G', 'T', 0), 5);
});

test('a log that cannot be read is told, harms no other pop, and the queue is open again', async () => {
  const w = await open();
  w.fs.fail({ operation: 'read', path: LOG });
  const failed = await w.pop();
  assert.equal(failed.code, 210);
  assert.match(w.broker.logger.texts('error').join(), /a pop of G from T queue 0 failed/);
  assert.deepEqual(bodies((await w.pop()).popped), numbered(10));
});
