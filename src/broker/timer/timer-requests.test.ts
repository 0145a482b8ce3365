import assert from 'node:assert/strict';
import { test } from 'node:test';
import { viewOf } from '../../common/index.ts';
import { decodeRecallHandle, encodeRecallHandle, UniqueIds } from '../../message/index.ts';
import { RequestCode, ResponseCode } from '../../remoting/index.ts';
import type { MessageStoreConfig } from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import type { Answer } from '../broker-fixture.test.support.ts';
import { registerProcessors } from '../processor/register.ts';
import { SendMessageProcessor } from '../processor/send-message.ts';
import { TIMER_TOPIC } from '../topic/topic-names.ts';
import { TimerWorld } from './timer-world.test.support.ts';

async function world(config: Partial<BrokerConfig> = {}, store: Partial<MessageStoreConfig> = {}): Promise<TimerWorld> {
  const w = await new TimerWorld({ autoCreateTopicEnable: true, ...config }, store).start();
  w.broker.context.topics.load();
  registerProcessors(w.broker, w.broker.context);
  const ids = new UniqueIds({ ip: Uint8Array.from([127, 0, 0, 1]), pid: 1, salt: 1 }, 1);
  new SendMessageProcessor(w.broker.context, ids).register(w.broker);
  return w;
}

function ask(w: TimerWorld, code: number, fields: Record<string, string | number>, body = ''): Promise<Answer> {
  return w.settle(w.broker.ask(code, fields, body));
}

const send = (w: TimerWorld, properties: Record<string, string>, body: string): Promise<Answer> =>
  ask(
    w,
    RequestCode.SEND_MESSAGE,
    {
      producerGroup: 'P',
      topic: 'T',
      defaultTopic: 'TBW102',
      defaultTopicQueueNums: 1,
      queueId: 0,
      sysFlag: 0,
      bornTimestamp: w.clock.now(),
      flag: 0,
      properties: Object.entries({ UNIQ_KEY: body, ...properties })
        .map(([name, value]) => `${name}\u0001${value}\u0002`)
        .join(''),
    },
    body,
  );

const recall = (w: TimerWorld, handle: string, topic = 'T'): Promise<Answer> =>
  ask(w, RequestCode.RECALL_MESSAGE, { producerGroup: 'P', topic, recallHandle: handle });

test('a handle is what RocketMQ makes of it', () => {
  const text = 'djEgRnJhbWVBIGdvbGRlbi1hIDE3OTU5OTQyNDUwMDEgN0YwMDAwMDExMzFGNEUwRTJGMkE5NTMwODVGMDAwMUE=';
  const handle = decodeRecallHandle(text)!;
  assert.deepEqual(handle, {
    topic: 'FrameA',
    brokerName: 'golden-a',
    timestamp: '1795994245001',
    messageId: '7F000001131F4E0E2F2A953085F0001A',
  });
  assert.equal(encodeRecallHandle(handle), text);
  for (const wrong of ['', '=', 'x y', 'djE=', 'ä']) assert.equal(decodeRecallHandle(wrong), undefined);
});

test('a send is answered with a handle, and the handle cancels: cancelled, already delivered, unknown', async () => {
  const w = await world();
  const start = w.clock.now();
  const handles: string[] = [];
  for (const body of ['a', 'b', 'c', 'd']) {
    const { code, ext } = await send(w, { TIMER_DELIVER_MS: String(start + 20_500) }, body);
    assert.equal(code, ResponseCode.SUCCESS);
    handles.push(ext['recallHandle']!);
  }
  assert.equal((await send(w, { DELAY: '1' }, 'level')).ext['recallHandle'], undefined);
  const first = await recall(w, handles[0]!);
  assert.deepEqual([first.code, first.ext['msgId']], [ResponseCode.SUCCESS, 'a']);
  assert.equal((await recall(w, handles[0]!)).code, ResponseCode.SUCCESS, 'again');
  const made = { ...decodeRecallHandle(handles[0]!)!, messageId: 'never sent' };
  const unknown = await recall(w, encodeRecallHandle(made));
  assert.deepEqual([unknown.code, unknown.remark], [604, 'recall failed, the message is unknown']);
  assert.match((await recall(w, encodeRecallHandle({ ...made, brokerName: 'x' }))).remark!, /service not available/);
  assert.match((await recall(w, encodeRecallHandle({ ...made, topic: 'U' }))).remark!, /topic not match/);
  assert.match((await recall(w, 'none')).remark!, /handle is invalid/);
  assert.equal((await recall(w, handles[0]!, 'nobody')).code, ResponseCode.TOPIC_NOT_EXIST);
  // The last moment: its slot has begun, and is not over.
  await w.pass(start + 20_900 - w.clock.now());
  assert.equal((await recall(w, handles[1]!)).code, ResponseCode.SUCCESS);
  await w.pass(1500);
  assert.deepEqual((await w.bodies()).sort(), ['c', 'd']);
  const late = await recall(w, handles[2]!);
  assert.deepEqual([late.code, /already delivered/.test(late.remark!)], [604, true]);
  w.broker.context.config.recallMessageEnable = false;
  assert.equal((await recall(w, handles[3]!)).code, ResponseCode.NO_PERMISSION);
  await w.stop();
});

test('a cancelled message stays cancelled after a kill', async () => {
  const w = await world();
  const { ext } = await send(w, { TIMER_DELAY_SEC: '10' }, 'gone');
  await send(w, { TIMER_DELAY_SEC: '10' }, 'stays');
  assert.equal((await recall(w, ext['recallHandle']!)).code, ResponseCode.SUCCESS);
  w.die((fs) => fs.kill(w.random));
  await w.start();
  await w.pass(12_000);
  assert.deepEqual(await w.bodies(), ['stays']);
  await w.stop();
});

test('sends with a time that makes no sense are answered as RocketMQ answers them', async () => {
  const w = await world({ timerCongestNumEachSlot: 1 });
  const long = await send(w, { TIMER_DELAY_SEC: '259201' }, 'x');
  assert.equal(long.code, ResponseCode.MESSAGE_ILLEGAL);
  assert.match(
    long.remark!,
    /^timer message illegal, the delay time should not be bigger than the max delay 259200000ms; or if set del msg/,
  );
  const due = String(w.clock.now() + 30_000);
  const codes: number[] = [];
  for (let i = 0; i < 8; i++) {
    const answer = await send(w, { TIMER_DELIVER_MS: due }, `m${i}`);
    codes.push(answer.code);
    if (answer.code !== 0) assert.match(answer.remark!, /^timer message is under flow control, max num limit is 2 or/);
  }
  assert.ok(codes.includes(ResponseCode.SYSTEM_ERROR) && codes[0] === 0, codes.join());
  w.broker.context.config.timerWheelEnable = false;
  const off = await send(w, { TIMER_DELAY_SEC: '5' }, 'x');
  assert.deepEqual(
    [off.code, /^accurate timer message is not enabled, timerWheelEnable is false/.test(off.remark!)],
    [1, true],
  );
  await w.stop();
});

test('checkpoint, figures and engine are told', async () => {
  const w = await world();
  await w.at(w.clock.now() + 60_000, 'm');
  await w.pass(13_000);
  const { body } = await ask(w, RequestCode.GET_TIMER_CHECK_POINT, {});
  assert.equal(body.length, 56);
  assert.equal(viewOf(Uint8Array.from(body)).getInt32(20), 1, 'the next message of the queue');
  const metrics = Buffer.from((await ask(w, RequestCode.GET_TIMER_METRICS, {})).body).toString();
  assert.match(
    metrics,
    /^\{"dataVersion":\{"counter":1,"stateVersion":0,"timestamp":\d+\},"timingCount":\{"T":\{"count":1,"timeStamp":\d+\}\}\}$/,
  );
  assert.equal((await ask(w, RequestCode.SWITCH_TIMER_ENGINE, { E_T: 'R' })).code, ResponseCode.INVALID_PARAMETER);
  assert.equal((await ask(w, RequestCode.SWITCH_TIMER_ENGINE, {})).code, ResponseCode.INVALID_PARAMETER);
  assert.equal((await ask(w, RequestCode.SWITCH_TIMER_ENGINE, { E_T: 'F' })).code, ResponseCode.SUCCESS);
  await w.stop();
});

test('retention keeps a file while messages in it wait for their time', async () => {
  const w = await world();
  await w.at(w.clock.now() + 30_000, 'waits');
  await w.at(w.clock.now() + 1000, 'goes');
  await w.pass(15_000);
  const { timer, store } = w.broker.context;
  const removal = (): Parameters<typeof timer.needed>[0] => ({
    start: 0,
    end: store.watermarks.wrote,
    forced: false,
    moves: [{ topic: TIMER_TOPIC, queueId: 0, from: 0, to: 2 }],
  });
  assert.equal(timer.needed(removal()), 1);
  await w.pass(100_000);
  assert.equal(timer.needed(removal()), 0);
  await w.stop();
});

test('a handle of a broker whose name holds spaces is read', () => {
  const handle = { topic: 'T', brokerName: 'broker a 1', timestamp: '1795994245001', messageId: '7F0000011' };
  assert.deepEqual(decodeRecallHandle(encodeRecallHandle(handle)), handle);
});

test('a recall whose order could not be synced is not answered with success', async () => {
  const w = await world({}, { flushDiskType: 'SYNC_FLUSH' });
  const { ext } = await send(w, { TIMER_DELIVER_MS: String(w.clock.now() + 20_500) }, 'm');
  const recallHandle = ext['recallHandle']!;
  assert.ok(recallHandle);
  await w.pass(1000);
  w.fs.fail({ operation: 'sync', path: 'commitlog', times: Number.POSITIVE_INFINITY });
  const { code } = await ask(w, RequestCode.RECALL_MESSAGE, { topic: 'T', recallHandle, producerGroup: 'g' });
  assert.notEqual(code, ResponseCode.SUCCESS);
  await w.stop();
});
