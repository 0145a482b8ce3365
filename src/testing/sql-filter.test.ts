// The client's consumers with SQL92 expressions at a broker of this build.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MessageSelector, type Producer, PullConsumer, PushConsumer } from '../client/index.ts';
import { CollectingLogger, silentLogger } from '../common/index.ts';
import { startBroker, type TestBroker } from './index.ts';
import { withProducer } from './with-producer.test.support.ts';

const SQL = MessageSelector.bySql("price > 100 AND region IN ('eu', 'us')");
const FROM_FIRST = 'CONSUME_FROM_FIRST_OFFSET';

async function sendOrders(producer: Producer, from: number, to: number): Promise<void> {
  for (let i = from; i < to; i++) {
    const properties = { price: String(i * 10), region: ['eu', 'us', 'asia'][i % 3]! };
    await producer.send({ topic: 'Orders', body: String(i), properties });
  }
}

/** Numbers of the orders below `to` that match. */
function matching(to: number): string[] {
  return Array.from({ length: to }, (_, i) => i)
    .filter((i) => i * 10 > 100 && i % 3 !== 2)
    .map(String);
}

function options(server: TestBroker) {
  return {
    namesrvAddr: server.namesrvAddress,
    group: 'G',
    consumeFromWhere: FROM_FIRST,
    logger: silentLogger,
  } as const;
}

test('push and pull consumers get what matches an SQL92 expression, also what comes while they wait', async () => {
  const server = await startBroker({ config: { enablePropertyFilter: true } });
  await withProducer(server, async (producer) => {
    await sendOrders(producer, 0, 20);
    const got: string[] = [];
    let enough: () => void = () => {};
    const push = new PushConsumer({
      ...options(server),
      group: 'Push',
      listener: async (messages) => {
        got.push(...messages.map((message) => message.text()));
        if (got.length === matching(30).length) enough();
        return 'CONSUME_SUCCESS';
      },
    });
    push.subscribe('Orders', SQL);
    const all = new Promise<void>((resolve) => {
      enough = resolve;
    });
    await push.start();
    await sendOrders(producer, 20, 30);
    await all;
    await push.close();
    assert.deepEqual(
      got
        .map(Number)
        .sort((a, b) => a - b)
        .map(String),
      matching(30),
    );

    const pull = new PullConsumer({ ...options(server), group: 'Pull' });
    await pull.start();
    await pull.subscribe('Orders', SQL);
    const pulled: string[] = [];
    while (pulled.length < matching(30).length) pulled.push(...(await pull.poll()).map((message) => message.text()));
    await pull.close();
    assert.deepEqual(
      pulled
        .map(Number)
        .sort((a, b) => a - b)
        .map(String),
      matching(30),
    );
  });
  await server.stop();
});

test('an expression that a broker refuses ends the start, or the subscription, with its words', async () => {
  const server = await startBroker({ config: { enablePropertyFilter: true } });
  await withProducer(server, (producer) => sendOrders(producer, 0, 1));
  const bad = MessageSelector.bySql("price > 'x'");
  const push = new PushConsumer({ ...options(server), listener: async () => 'CONSUME_SUCCESS' });
  push.subscribe('Orders', bad);
  await assert.rejects(push.start(), { code: 'RESPONSE', responseCode: 23, message: /Value ''x'' cannot be compared/ });
  await push.close();
  const pull = new PullConsumer(options(server));
  await pull.start();
  await assert.rejects(pull.subscribe('Orders', bad), { code: 'RESPONSE', responseCode: 23 });
  await assert.rejects(pull.subscribe('Orders', MessageSelector.bySql(' ')), { code: 'CONFIG_VALUE' });
  await pull.close();
  const logger = new CollectingLogger();
  const running = new PushConsumer({ ...options(server), logger, listener: async () => 'CONSUME_SUCCESS' });
  await running.start();
  running.subscribe('Orders', bad);
  while (!logger.lines.some(({ text }) => text.includes('Orders is not consumed'))) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  await running.close();
  await server.stop();
});

test('tags as a selector are tags', async () => {
  const server = await startBroker();
  await withProducer(server, async (producer) => {
    for (const tags of ['A', 'B', 'A']) await producer.send({ topic: 'Orders', body: tags, tags });
  });
  const pull = new PullConsumer(options(server));
  await pull.start();
  await pull.subscribe('Orders', MessageSelector.byTag('A'));
  const got: string[] = [];
  while (got.length < 2) got.push(...(await pull.poll()).map((message) => message.text()));
  assert.deepEqual(got, ['A', 'A']);
  await pull.close();
  await server.stop();
});
