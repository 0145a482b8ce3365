// Pops and receipt handles that are wrong, forged, late or somebody else's: each is answered with a code that says so, and nobody else
// notices.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { numbered } from '../clock-world.test.support.ts';
import { type Popped, PopWorld } from './pop-world.test.support.ts';

/** Another group consumes as if nothing had happened. */
async function assertUnharmed(w: PopWorld, expected: readonly string[]): Promise<void> {
  const { popped } = await w.pop({ consumerGroup: 'Other' });
  assert.deepEqual(
    popped.map(({ body }) => body),
    expected,
  );
  const answers = await w.ackTogether(popped, { consumerGroup: 'Other' });
  assert.ok(answers.every(({ code }) => code === 0));
  assert.deepEqual(w.broker.logger.texts('error'), []);
}

async function withPopped(): Promise<{ w: PopWorld; popped: Popped }> {
  const w = await PopWorld.open({ queues: 2 });
  await w.send(numbered(3));
  const answer = await w.pop({ queueId: 0 });
  return { w, popped: answer.popped[0]! };
}

test('handles that are none, or whose numbers overflow, are refused with what is wrong', async () => {
  const { w, popped } = await withPopped();
  const overflow = '9223372036854775808';
  const rest = popped.handle.split(' ').slice(1).join(' ');
  const cases: Array<[handle: string, remark: RegExp]> = [
    ['', /fail, extraInfoStrs length 1/],
    ['x', /fail, extraInfoStrs length 1/],
    ['0 1 2 3 0', /getBrokerName fail, extraInfoStrs length 5/],
    [`${overflow} ${rest}`, /For input string: "9223372036854775808"/],
    [`x ${rest}`, /For input string: "x"/],
    [`0 ${overflow} 60000 0 0 b 0 0`, /For input string/],
    [`0 1 -${overflow}9 0 0 b 0 0`, /For input string/],
    ['0 1 60000 99999999999 0 b 0 0', /For input string: "99999999999"/],
    ['0 9007199254740993 60000 0 0 b 0 0', /For input string/],
    [`0 1 60000 0 ${'0'.repeat(5000)}`, /fail, extraInfoStrs length 5/],
  ];
  for (const [handle, remark] of cases) {
    for (const answer of [await w.ack({ ...popped, handle }), await w.change({ ...popped, handle }, 1000)]) {
      assert.equal(answer.code, 1, handle);
      assert.match(answer.remark!, remark);
    }
  }
  assert.equal((await w.waiting()).length, 1);
  await assertUnharmed(w, numbered(3));
});

test('forged handles: a revive queue that there is not, a time that the timer cannot hold, a place that is none', async () => {
  const { w, popped } = await withPopped();
  const forge = (index: number, value: string): Popped => {
    const parts = popped.handle.split(' ');
    parts[index] = value;
    return { ...popped, handle: parts.join(' ') };
  };
  for (const reviveQueueId of ['2', '8', '2147483647', '-1']) {
    assert.equal((await w.ack(forge(3, reviveQueueId))).code, 13);
    assert.equal((await w.change(forge(3, reviveQueueId), 1000)).code, 13);
  }
  // Four days from now, and at the end of time.
  for (const popTime of [String(w.clock.now() + 345_600_000), '9007199254740991']) {
    const refused = await w.ack(forge(1, popTime));
    assert.equal(refused.code, 13);
    assert.match(refused.remark!, /cannot be stored: the delay is \d+ ms/);
  }
  assert.equal((await w.change(popped, 9_007_199_254_740_991)).code, 1);
  for (const offset of [-1, 4, 9_007_199_254_740_991]) assert.equal((await w.ack(popped, { offset })).code, 208);
  for (const offset of [-1, 3]) assert.equal((await w.change(popped, 1000, { offset })).code, 208);
  for (const queueId of [-1, 2, 2_147_483_647]) {
    assert.equal((await w.ack(popped, { queueId })).code, 13);
    assert.equal((await w.change(popped, 1000, { queueId })).code, 13);
  }
  assert.equal((await w.waiting()).length, 1);
  assert.equal(w.context.store.maxOffsetInQueue('rmq_sys_REVIVE_LOG_DefaultCluster', 2), 0);
  await assertUnharmed(w, numbered(3));
});

test('foreign handles are taken and name nothing of ours', async () => {
  const { w, popped } = await withPopped();
  const foreign = { ...popped, handle: popped.handle.replace('broker-a', 'broker-z') };
  assert.equal((await w.ack(foreign)).code, 0);
  // Somebody else's group: its check point is not touched.
  assert.equal((await w.ack(popped, { consumerGroup: 'Nobody' })).code, 0);
  const acks = (await w.waiting()).filter((body) => body.includes('"ao"')).map((body) => JSON.parse(body));
  assert.deepEqual(
    acks.map(({ bn, c }) => [bn, c]),
    [
      ['broker-z', 'G'],
      ['broker-a', 'Nobody'],
    ],
  );
  assert.equal(w.context.groups.has('Nobody'), false);
  await assertUnharmed(w, numbered(3));
});

test('names that would end their property and begin another are refused', async () => {
  const { w, popped } = await withPopped();
  const forged = 'x\u0002REAL_TOPIC\u0001Elsewhere';
  w.context.topics.createInSend('Elsewhere', 'TBW102', 'test', 1, 0);
  w.context.topics.persistIfChanged();
  const inHandle = { ...popped, handle: popped.handle.replace('broker-a', forged) };
  for (const [ack, fields] of [
    [inHandle, {}],
    [popped, { consumerGroup: forged }],
  ] as const) {
    const refused = await w.ack(ack, fields);
    assert.deepEqual([refused.code, refused.remark?.includes('separator of properties')], [13, true]);
    assert.equal((await w.change(ack, 1000, fields)).code, 1);
  }
  const acks = [{ c: forged, t: 'T', r: '0', so: 0, q: 0, rq: 0, pt: 1, it: 1, b: 'AQ==' }];
  assert.equal((await w.ask(200151, {}, JSON.stringify({ acks }))).code, 13);
  assert.equal((await w.waiting()).length, 1);
  await w.pass(61_000);
  assert.equal(w.context.store.maxOffsetInQueue('Elsewhere', 0), 0);
});

test('repeated acknowledgements are taken each time, and what is in flight is not less than nothing', async () => {
  const { w, popped } = await withPopped();
  for (let i = 0; i < 5; i++) assert.equal((await w.ack(popped)).code, 0);
  const many = await w.ackTogether(Array.from({ length: 200 }, () => popped));
  assert.ok(many.every(({ code }) => code === 0));
  assert.equal(w.context.pop.queues.inFlight('T', 'G', 0), 0);
  for (const body of await w.waiting()) assert.ok(body.length < 1000, body);
  await assertUnharmed(w, numbered(3));
});

test('expired acknowledgements go to where the check point is by then', async () => {
  const { w, popped } = await withPopped();
  await w.pass(61_000);
  assert.equal((await w.ack(popped)).code, 0);
  await w.broker.dispatched();
  const reviveTopic = 'rmq_sys_REVIVE_LOG_DefaultCluster';
  const acks = [...(await w.drain(reviveTopic, 0)), ...(await w.drain(reviveTopic, 1))].filter(
    ({ properties }) => properties.get('TAGS') === 'ack',
  );
  assert.equal(acks.length, 1);
});

test('acknowledgements for a topic that was deleted, and for one that never was', async () => {
  const { w, popped } = await withPopped();
  const { offsets, store, topics } = w.context;
  for (const topic of ['Never', '%RETRY%G_T', '%', '%RETRY%', 'a/../b', '..']) {
    assert.equal((await w.ack({ ...popped, topic })).code, 17, topic);
    assert.equal((await w.change({ ...popped, topic }, 1000)).code, 17, topic);
  }
  await w.settle(store.deleteTopics(['T']));
  offsets.removeTopic('T');
  topics.delete('T');
  assert.equal((await w.ack(popped)).code, 17);
  assert.equal((await w.change(popped, 1000)).code, 17);
  const acks = [{ c: 'G', t: 'T', r: '0', so: 0, q: 0, rq: 0, pt: 1, it: 1, b: 'AQ==' }];
  assert.equal((await w.ask(200151, {}, JSON.stringify({ acks }))).code, 0);
  assert.equal((await w.waiting()).length, 1);
  assert.deepEqual(
    [...store.queues()].filter(({ topic }) => topic === 'T'),
    [],
  );
});

test('batches that make no sense', async () => {
  const { w } = await withPopped();
  const ack = { c: 'G', t: 'T', r: '0', so: 0, q: 0, rq: 0, pt: 1, it: 1, b: 'AQ==' };
  const cases: Array<[body: string, code: number]> = [
    ['{', 1],
    ['[]', 1],
    ['7', 1],
    ['null', 208],
    ['{"acks":[]}', 208],
    ['{"acks":[7]}', 1],
    [JSON.stringify({ acks: [{ ...ack, r: '3' }] }), 1],
    [JSON.stringify({ acks: [{ ...ack, r: undefined }] }), 1],
    [JSON.stringify({ acks: [{ ...ack, pt: 1e300 }] }), 1],
    [JSON.stringify({ acks: [{ ...ack, b: '!!!' }] }), 0],
    [JSON.stringify({ acks: [{ ...ack, b: '/'.repeat(100_000) }] }), 0],
    [JSON.stringify({ acks: [{ ...ack, so: -5 }] }), 0],
    [JSON.stringify({ acks: [{ ...ack, rq: 77 }] }), 0],
    [JSON.stringify({ acks: [{ ...ack, q: -1 }] }), 0],
  ];
  for (const [body, code] of cases) assert.equal((await w.ask(200151, {}, body)).code, code, body.slice(0, 80));
  for (const body of await w.waiting()) assert.ok(body.length < 200, body);
  await assertUnharmed(w, numbered(3));
});

test('pops that ask for too much, for too little, for what is not there, or too late', async () => {
  const w = await PopWorld.open();
  await w.send(numbered(3));
  const refusals: Array<[fields: Record<string, string | number | boolean>, code: number, remark: RegExp]> = [
    [{ maxMsgNums: 33 }, 29, /pop message's num is greater than 32/],
    [{ topic: 'Never' }, 17, /topic\[Never\] not exist/],
    [{ topic: '%RETRY%' }, 17, /not exist/],
    [{ queueId: 1 }, 29, /queueId\[1\] is illegal, topic:\[T\] topicConfig.readQueueNums:\[1\] consumer:\[127/],
    [{ consumerGroup: 'a/b' }, 26, /subscription group \[a\/b\] does not exist/],
    [{ bornTime: 1 }, 210, /pop message is timeout too much/],
    [{ queueId: 'x' }, 1, /queueId/],
    [{ invisibleTime: '99999999999999999999' }, 1, /invisibleTime/],
  ];
  for (const [fields, code, remark] of refusals) {
    const answer = await w.pop(fields);
    assert.equal(answer.code, code, JSON.stringify(fields));
    assert.match(answer.remark!, remark);
  }
  for (const maxMsgNums of [0, -1, -2_147_483_648]) {
    const none = await w.pop({ maxMsgNums, pollTime: 60_000 });
    assert.deepEqual([none.code, none.ext['restNum']], [210, '3']);
  }
  assert.equal((await w.pop({ queueId: -7, maxMsgNums: 1 })).popped.length, 1);
  await assertUnharmed(w, numbered(3));
});

test('pops that are forbidden: by the broker, the topic, the group, and without a timer', async () => {
  const w = await PopWorld.open();
  await w.send(numbered(1));
  const { config, groups, topics } = w.context;
  config.brokerPermission = 2;
  assert.equal((await w.pop()).code, 16);
  config.brokerPermission = 6;
  config.timerWheelEnable = false;
  assert.deepEqual((await w.pop()).code, 1);
  config.timerWheelEnable = true;
  groups.findOrCreate('G');
  groups.disableConsume('G');
  assert.deepEqual((await w.pop()).remark, 'subscription group no permission, G');
  topics.update([{ topic: topics.select('T')!.with({ perm: 2 }), attributes: new Map() }]);
  assert.deepEqual((await w.pop({ consumerGroup: 'G2' })).remark, 'the topic[T] peeking message is forbidden');
});
