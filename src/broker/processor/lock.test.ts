import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseJson, RequestCode } from '../../remoting/index.ts';
import { type Answer, BrokerFixture } from '../broker-fixture.test.support.ts';
import { registerProcessors } from './register.ts';

interface Queue {
  topic: string;
  brokerName: string;
  queueId: number;
}

const Q0 = { topic: 'T', brokerName: 'broker-a', queueId: 0 };
const Q1 = { topic: 'T', brokerName: 'another', queueId: 1 };

async function open(): Promise<BrokerFixture> {
  const broker = await BrokerFixture.open();
  registerProcessors(broker, broker.context);
  return broker;
}

function body(clientId: string | undefined, mqSet: Queue[], more: object = {}): string {
  return JSON.stringify({ clientId, consumerGroup: 'G', mqSet, onlyThisBroker: false, ...more });
}

function held(answer: Answer): unknown {
  assert.deepEqual([answer.code, answer.remark], [0, null]);
  return parseJson(answer.body);
}

test('the answer is the queues that the client holds, each once, by the names that it sent', async () => {
  const broker = await open();
  const lock = (text: string): Promise<Answer> => broker.ask(RequestCode.LOCK_BATCH_MQ, {}, text);
  assert.deepEqual(held(await lock(body('a', [Q0, Q0, Q1]))), { lockOKMQSet: [Q0, Q1] });
  assert.deepEqual(held(await lock(body('b', [Q0, Q1]))), { lockOKMQSet: [] });
  assert.deepEqual(held(await lock(body('b', [Q0], { onlyThisBroker: true }))), { lockOKMQSet: [] });
  assert.deepEqual(held(await lock(body('a', []))), { lockOKMQSet: [] });
  const unlock = await broker.ask(RequestCode.UNLOCK_BATCH_MQ, {}, body('b', [Q0]));
  assert.deepEqual([unlock.code, unlock.body.length], [0, 0]);
  assert.deepEqual(held(await lock(body('b', [Q0]))), { lockOKMQSet: [] }, 'only its holder gives a lock back');
  await broker.ask(RequestCode.UNLOCK_BATCH_MQ, {}, body('a', [Q0]));
  assert.deepEqual(held(await lock(body('b', [Q0, Q1]))), { lockOKMQSet: [Q0] });
});

test('a lock that is not renewed is free after gantryRebalanceLockMaxLiveTime', async () => {
  const broker = await open();
  const lock = (text: string): Promise<Answer> => broker.ask(RequestCode.LOCK_BATCH_MQ, {}, text);
  await lock(body('a', [Q0]));
  broker.context.config.gantryRebalanceLockMaxLiveTime = 5000;
  broker.clock.advance(5000);
  assert.deepEqual(held(await lock(body('b', [Q0]))), { lockOKMQSet: [] });
  broker.clock.advance(1);
  assert.deepEqual(held(await lock(body('b', [Q0]))), { lockOKMQSet: [Q0] });
});

test('a body that is none, or without group or client, is refused and locks nothing', async () => {
  const broker = await open();
  for (const code of [RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ]) {
    for (const text of ['', '[]', '{', body(undefined, [Q0]), body('a', [Q0], { consumerGroup: null })]) {
      assert.equal((await broker.ask(code, {}, text)).code, 1, text);
    }
  }
  assert.equal(broker.context.locks.hasLiveLock('G'), false);
});
