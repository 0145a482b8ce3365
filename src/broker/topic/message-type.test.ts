import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PropertyTable } from '../../message/index.ts';
import { ResponseCode } from '../../remoting/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { type Answer, BrokerFixture } from '../broker-fixture.test.support.ts';
import { registerProcessors } from '../processor/register.ts';
import { Sender } from '../processor/sender.test.support.ts';
import { priorityOf, typeInTable, typeOfProperties } from './message-type.ts';
import { TopicConfig } from './topic-config.ts';

const TYPES = ['UNSPECIFIED', 'NORMAL', 'FIFO', 'DELAY', 'TRANSACTION', 'PRIORITY', 'LITE', 'MIXED'];

/** A message of each type, in the order in which RocketMQ looks. */
const SAMPLES: ReadonlyArray<readonly [properties: string, type: string]> = [
  ['TRAN_MSG\u0001true\u0002PGROUP\u0001P\u0002DELAY\u00011', 'TRANSACTION'],
  ['TRAN_MSG\u0001TRUE', 'TRANSACTION'],
  ['TRAN_MSG\u0001no', 'NORMAL'],
  ['DELAY\u00010\u0002__SHARDINGKEY\u0001a', 'DELAY'],
  ['TIMER_DELIVER_MS\u00011', 'DELAY'],
  ['TIMER_DELAY_SEC\u00011\u0002_SYS_MSG_PRIORITY_\u00011', 'DELAY'],
  ['TIMER_DELAY_MS\u00011', 'DELAY'],
  ['__SHARDINGKEY\u0001a\u0002_SYS_MSG_PRIORITY_\u00011', 'FIFO'],
  ['_SYS_MSG_PRIORITY_\u00011\u0002__LITE_TOPIC\u0001l', 'PRIORITY'],
  ['__LITE_TOPIC\u0001l', 'LITE'],
  ['KEYS\u0001k', 'NORMAL'],
  ['', 'NORMAL'],
];

function propertiesOf(text: string): Map<string, string> {
  return new Map(text === '' ? [] : text.split('\u0002').map((pair) => pair.split('\u0001') as [string, string]));
}

interface Setup {
  broker: BrokerFixture;
  send(
    topic: string,
    properties: string,
    fields?: Record<string, string | number | boolean>,
    body?: Uint8Array,
  ): Promise<Answer>;
}

async function open(config: Partial<BrokerConfig> = {}): Promise<Setup> {
  const broker = await BrokerFixture.open({ broker: config });
  const { context } = broker;
  for (const type of TYPES) {
    const topic = new TopicConfig(type, { readQueueNums: 4, writeQueueNums: 4 });
    context.topics.update([{ topic, attributes: new Map([['+message.type', type]]) }]);
  }
  context.topics.update([{ topic: new TopicConfig('Batches'), attributes: new Map([['+queue.type', 'BatchCQ']]) }]);
  registerProcessors(broker, context);
  const sender = new Sender(broker);
  const send: Setup['send'] = (topic, properties, fields = {}, body = Buffer.from('x')) => {
    return sender.send({ b: topic, i: properties, ...fields }, body);
  };
  return { broker, send };
}

test('the type of a message is the first one that its properties show', () => {
  for (const [text, type] of SAMPLES) {
    assert.equal(typeOfProperties(propertiesOf(text)), type, text);
    const table = new PropertyTable();
    const bytes = Buffer.from(text);
    table.read(bytes, 0, bytes.length);
    assert.equal(typeInTable(table), type, text);
  }
});

test('a priority is a whole number from 0 on, as Java reads one', () => {
  const read = (text: string): number => priorityOf(new Map([['_SYS_MSG_PRIORITY_', text]]));
  assert.deepEqual(['0', '7', '+3', '2147483647'].map(read), [0, 7, 3, 2_147_483_647]);
  assert.deepEqual(['', '-1', '1.5', ' 1', '0x1', '2147483648', '99999999999999999999'].map(read), Array(7).fill(-1));
  assert.equal(priorityOf(new Map()), -1);
});

test('a priority chooses the queue whatever the topic is, unless another property makes the message of another type', async () => {
  const { send } = await open();
  for (const topic of ['PRIORITY', 'NORMAL']) {
    for (const [priority, queueId] of [
      [0, 0],
      [3, 3],
      [4, 3],
      [2_147_483_647, 3],
      ['x', 1],
      [-1, 1],
    ]) {
      const answer = await send(topic, `_SYS_MSG_PRIORITY_\u0001${priority}`, { e: 1 });
      assert.equal(answer.ext['queueId'], String(queueId), `${topic} ${priority}`);
    }
  }
  for (const other of ['__SHARDINGKEY\u0001a', 'DELAY\u00011', 'TRAN_MSG\u0001true\u0002PGROUP\u0001P']) {
    const answer = await send('PRIORITY', `_SYS_MSG_PRIORITY_\u00013\u0002UNIQ_KEY\u0001K\u0002${other}`, { e: 1 });
    assert.equal(answer.code, 0, answer.remark ?? '');
    assert.notEqual(answer.ext['queueId'], '3', other);
  }
});

test("RocketMQ's broker takes any type of message; the check of its proxy is a setting", async () => {
  const plain = await open();
  const checked = await open({ gantryTopicMessageTypeCheck: true });
  for (const topic of TYPES) {
    for (const [properties, type] of SAMPLES.filter(([text]) => text !== 'TRAN_MSG\u0001TRUE')) {
      const text = `UNIQ_KEY\u0001K${properties === '' ? '' : `\u0002${properties}`}`;
      const free = await plain.send(topic, text);
      assert.ok(free.code === 0 || !/TopicMessageType/.test(free.remark ?? ''), free.remark ?? '');
      const answer = await checked.send(topic, text);
      if (topic === 'MIXED' || topic === type) assert.doesNotMatch(answer.remark ?? '', /TopicMessageType/);
      else {
        const remark = `TopicMessageType validate failed, the expected type is ${topic}, but actual type is ${type}`;
        assert.deepEqual([answer.code, answer.remark], [ResponseCode.MESSAGE_ILLEGAL, remark]);
      }
    }
  }
  // Retry topics are for any type.
  assert.equal((await checked.send('%RETRY%G', 'UNIQ_KEY\u0001K\u0002__SHARDINGKEY\u0001a')).code, 0);
});

/** A batch's member as a producer writes it; `bodyLength` may lie. */
function member(text: string, bodyLength = text.length): Buffer {
  const bytes = Buffer.alloc(22 + text.length);
  bytes.writeInt32BE(bytes.length, 0);
  bytes.writeInt32BE(bodyLength, 16);
  bytes.write(text, 20);
  return bytes;
}

test('a batch for batch queues with one bad inner message is refused whole, and the next one is stored', async () => {
  const { broker, send } = await open();
  const batch = (...members: Buffer[]): Promise<Answer> =>
    send('Batches', 'UNIQ_KEY\u0001K', { m: true }, Buffer.concat(members));
  const short = member('long enough').subarray(0, 20);
  for (const bad of [[member('a'), member('b', 9_999), member('c')], [member('a'), short], [member('a', -1)]]) {
    const answer = await batch(...bad);
    assert.equal(answer.code, ResponseCode.MESSAGE_ILLEGAL, answer.remark ?? '');
    assert.match(answer.remark ?? '', /batch member \d/);
  }
  const { store } = broker.context;
  assert.equal(store.maxOffsetInQueue('Batches', 0), 0);
  const good = await batch(member('a'), member('b'), member('c'));
  assert.deepEqual([good.code, good.ext['queueOffset'], good.ext['batchUniqId']], [0, '0', 'K']);
  await broker.dispatched();
  assert.equal(store.maxOffsetInQueue('Batches', 0), 3);
});
