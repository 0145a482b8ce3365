import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PopWorld } from './pop-world.test.support.ts';

const bodies = (popped: ReadonlyArray<{ body: string }>): string[] => popped.map(({ body }) => body);

test('a pop hands out what is there, moves on, and leaves a check point as a Java broker would write it', async () => {
  const w = await PopWorld.open();
  await w.send(['a', 'b', 'c']);
  const answer = await w.pop({ maxMsgNums: 2 });
  const popTime = w.clock.now();
  assert.deepEqual([answer.code, answer.remark], [0, 'FOUND']);
  assert.deepEqual(answer.ext, {
    popTime: String(popTime),
    invisibleTime: '60000',
    reviveQid: '0',
    restNum: '1',
    startOffsetInfo: '0 0 0',
    msgOffsetInfo: '0 0 0,1',
  });
  assert.deepEqual(bodies(answer.popped), ['a', 'b']);
  const [record] = await w.drain('rmq_sys_wheel_timer');
  assert.equal(
    Buffer.from(record!.body).toString(),
    `{"bm":0,"bn":"broker-a","c":"G","d":[0,1],"it":60000,"n":2,"pt":${popTime},"q":0,"reviveTime":${popTime + 60_000},` +
      '"ro":0,"so":0,"sp":false,"t":"T"}',
  );
  const due = popTime + 59_000;
  assert.deepEqual(
    [...record!.properties],
    [
      ['REAL_TOPIC', 'rmq_sys_REVIVE_LOG_DefaultCluster'],
      ['TIMER_DELIVER_MS', String(due)],
      ['UNIQ_KEY', `T@0@0@G@${popTime}@broker-a@ck`],
      ['TAGS', 'ck'],
      ['TIMER_OUT_MS', String(due % 1000 === 0 ? due - 1000 : Math.floor(due / 1000) * 1000)],
      ['REAL_QID', '0'],
    ],
  );
  assert.deepEqual([record!.bornHost, record!.storeHost], ['127.0.0.1:10911', '127.0.0.1:10911']);
  const next = await w.pop();
  assert.deepEqual(bodies(next.popped), ['c']);
  assert.equal(next.ext['reviveQid'], '1');
  const none = await w.pop();
  assert.deepEqual([none.code, none.remark], [210, 'NO_MESSAGE_IN_QUEUE']);
  assert.deepEqual([none.ext['startOffsetInfo'], none.ext['msgOffsetInfo'], none.ext['restNum']], ['', '', '0']);
  assert.equal(w.context.pop.queues.inFlight('T', 'G', 0), 3);
});

test('acknowledgements that come together are one record, a single one is as a Java broker writes it', async () => {
  const w = await PopWorld.open();
  await w.send(['a', 'b', 'c']);
  const { popped } = await w.pop();
  const popTime = w.clock.now();
  assert.deepEqual(
    (await w.ackTogether(popped.slice(0, 2))).map(({ code, remark, ext }) => [code, remark, ext]),
    [
      [0, null, {}],
      [0, null, {}],
    ],
  );
  assert.equal((await w.ack(popped[2]!)).code, 0);
  const [, together, single] = await w.waiting();
  const of = `"bn":"broker-a","c":"G","pt":${popTime},"q":0,"so":0,"t":"T"}`;
  assert.equal(together, `{"ao":-1,"aol":[0,1],${of}`);
  assert.equal(single, `{"ao":2,${of}`);
  const records = await w.drain('rmq_sys_wheel_timer');
  assert.deepEqual(
    records.map(({ properties }) => [properties.get('TAGS'), properties.get('UNIQ_KEY')]),
    [
      ['ck', `T@0@0@G@${popTime}@broker-a@ck`],
      ['bAck', `T@0@-1@G@${popTime}@broker-a@ack`],
      ['ack', `T@0@2@G@${popTime}@broker-a@ack`],
    ],
  );
  assert.equal(w.context.pop.queues.inFlight('T', 'G', 0), 0);
});

test('acknowledgements of different check points and groups are not mixed up in one turn', async () => {
  const w = await PopWorld.open({ queues: 2 });
  await w.send(['a', 'b']);
  await w.send(['c'], { queueId: 1 });
  const first = await w.pop();
  const other = await w.pop({ consumerGroup: 'G2' });
  const answers = [
    ...(await w.ackTogether([...first.popped, first.popped[0]!])),
    ...(await w.ackTogether(other.popped, { consumerGroup: 'G2' })),
  ];
  assert.deepEqual(
    answers.map(({ code }) => code),
    answers.map(() => 0),
  );
  const acks = (await w.waiting()).filter((body) => body.includes('"ao"')).map((body) => JSON.parse(body));
  assert.deepEqual(
    acks.map(({ c, q, ao, aol }) => [c, q, ao, aol ?? null]),
    [
      ['G', 1, 0, null],
      ['G', 0, -1, [0, 1]],
      ['G', 1, 0, null],
      ['G2', 1, 0, null],
      ['G2', 0, -1, [0, 1]],
    ],
  );
});

test('a batch acknowledgement is a record for each check point', async () => {
  const w = await PopWorld.open({ queues: 2 });
  await w.send(['a', 'b', 'c']);
  await w.send(['d'], { queueId: 1 });
  const { popped, ext } = await w.pop();
  const { popTime, reviveQid } = ext;
  const ack = { c: 'G', it: 60_000, pt: Number(popTime), r: '0', rq: Number(reviveQid), so: 0, t: 'T' };
  // Offsets 0 and 2 of queue 0, offset 0 of queue 1 and one that does not exist there.
  const acks = [
    { ...ack, q: 0, b: 'BQ==' },
    { ...ack, q: 1, b: 'gQ==' },
    { ...ack, q: 7, b: 'AQ==' },
    { ...ack, q: 0, t: 'Gone', b: 'AQ==' },
  ];
  const answer = await w.ask(200151, {}, JSON.stringify({ brokerName: 'broker-a', acks }));
  assert.deepEqual([answer.code, answer.remark], [0, null]);
  assert.equal(popped.length, 4);
  const stored = (await w.waiting()).filter((body) => body.includes('"ao"')).map((body) => JSON.parse(body));
  assert.deepEqual(
    stored.map(({ q, ao, aol, bn }) => [q, ao, aol, bn]),
    [
      [0, -1, [0, 2], 'broker-a'],
      [1, -1, [0], 'broker-a'],
    ],
  );
  assert.equal(w.context.pop.queues.inFlight('T', 'G', 0), 1);
  assert.equal((await w.ask(200151, {}, '{}')).code, 208);
  assert.equal((await w.ask(200151, {})).code, 208);
});

test('a changed invisible time is a check point of its own and an acknowledgement of the old place', async () => {
  const w = await PopWorld.open();
  await w.send(['a', 'b']);
  const { popped, ext } = await w.pop();
  w.clock.advance(700);
  const answer = await w.change(popped[1]!, 10_000, { suspend: true });
  const now = w.clock.now();
  assert.deepEqual(
    [answer.code, answer.remark, answer.ext],
    [0, 'not set any response code', { popTime: String(now), invisibleTime: '10000', reviveQid: ext['reviveQid'] }],
  );
  const [, ck, ack] = await w.waiting();
  assert.equal(
    ck,
    `{"bm":0,"bn":"broker-a","c":"G","d":[0],"it":10000,"n":1,"pt":${now},"q":0,"reviveTime":${now + 10_000},"ro":0,"so":1,"sp":true,"t":"T"}`,
  );
  assert.equal(ack, `{"ao":1,"bn":"broker-a","c":"G","pt":${ext['popTime']},"q":0,"so":0,"t":"T"}`);
  // It is still under way.
  assert.equal(w.context.pop.queues.inFlight('T', 'G', 0), 2);
});

test('all queues are popped, the highest first from somewhere on, and one alone if it is asked for', async () => {
  const w = await PopWorld.open({ queues: 4 });
  for (let queueId = 0; queueId < 4; queueId++) await w.send([`q${queueId}`], { queueId });
  const one = await w.pop({ queueId: 2 });
  assert.deepEqual(bodies(one.popped), ['q2']);
  const rest = await w.pop();
  const order = rest.popped.map(({ message }) => message.queueId);
  assert.deepEqual([...order].sort(), [0, 1, 3]);
  const down = order.map((queueId, i) => (i === 0 ? 0 : (queueId - order[i - 1]! + 4) % 4));
  assert.ok(
    down.slice(1).every((step) => step >= 2),
    `${order}`,
  );
  assert.equal(rest.ext['startOffsetInfo'], order.map((queueId) => `0 ${queueId} 0`).join(';'));
});

test('by tags, and by SQL92: what does not match is passed over for good', async () => {
  const w = await PopWorld.open();
  await w.send(['a'], { tag: 'A' });
  await w.send(['b'], { tag: 'B' });
  await w.send(['c'], { tag: 'A' });
  await w.send(['d'], { tag: 'B' });
  const tagged = await w.pop({ exp: 'A' });
  assert.deepEqual(bodies(tagged.popped), ['a', 'c']);
  assert.equal(tagged.ext['msgOffsetInfo'], '0 0 0,2');
  assert.match((await w.waiting())[0]!, /"d":\[0,2\].*"n":2/);
  assert.equal(w.context.offsets.query('G', 'T', 0), 4);
  const sql = await w.pop({ consumerGroup: 'G2', expType: 'SQL92', exp: "TAGS = 'B'" });
  assert.deepEqual(bodies(sql.popped), ['b', 'd']);
  const none = await w.pop({ consumerGroup: 'G3', exp: 'C' });
  assert.equal(none.code, 210);
  assert.equal(w.context.offsets.query('G3', 'T', 0), 4);
  for (const fields of [{ expType: 'SQL92', exp: 'TAGS = ' }, { expType: 'ODD', exp: 'x' }, { exp: '||' }]) {
    const refused = await w.pop(fields);
    assert.deepEqual([refused.code, refused.remark], [23, "parse the consumer's subscription failed"]);
    assert.deepEqual(refused.ext, { popTime: '0', invisibleTime: '0', reviveQid: '0', restNum: '0' });
  }
});

test('check points and acknowledgements are counted by topic and group, and for the broker', async () => {
  const w = await PopWorld.open();
  const { traffic } = w.context;
  traffic.start();
  await w.send(['a', 'b', 'c']);
  const { popped } = await w.pop();
  await w.ackTogether(popped.slice(0, 2));
  await w.change(popped[2]!, 5000);
  await w.pass(10_000);
  const sum = (name: string, key: string): number | undefined => traffic.view(name, key)?.statsMinute.sum;
  assert.deepEqual(
    ['GROUP_CK_NUMS', 'GROUP_ACK_NUMS', 'GROUP_GET_NUMS'].map((name) => sum(name, 'T@G')),
    [2, 3, 3],
  );
  assert.deepEqual(
    ['BROKER_CK_NUMS', 'BROKER_ACK_NUMS'].map((name) => sum(name, 'DefaultCluster')),
    [2, 3],
  );
  traffic.stop();
});
