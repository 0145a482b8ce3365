import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import {
  type MessageListener,
  MessageSelector,
  PushConsumer,
  type PushConsumerOptions,
  type ReceivedMessage,
  SimpleConsumer,
  type SimpleConsumerOptions,
} from '../client/index.ts';
import { FakeClock, silentLogger } from '../common/index.ts';
import { RequestCode, toJsonBytes } from '../remoting/index.ts';
import { type StartBrokerOptions, startBroker, type TestBroker } from './index.ts';
import { withProducer } from './with-producer.test.support.ts';

const TOPIC = 'Orders';

/** A broker with twelve messages: their numbers are bodies and properties, and every third has the tag C. */
async function filled(t: TestContext, options: StartBrokerOptions = {}): Promise<TestBroker> {
  const server = await startBroker(options);
  t.after(() => server.stop());
  await withProducer(server, async (producer) => {
    for (let i = 0; i < 12; i++) {
      await producer.send({
        topic: TOPIC,
        body: String(i),
        tags: i % 3 === 2 ? 'C' : 'A',
        properties: { n: String(i) },
      });
    }
  });
  return server;
}

async function started(
  t: TestContext,
  server: TestBroker,
  options: Partial<SimpleConsumerOptions> = {},
): Promise<SimpleConsumer> {
  const consumer = new SimpleConsumer({
    namesrvAddr: server.namesrvAddress,
    group: 'G',
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    awaitDurationMs: 0,
    logger: silentLogger,
    ...options,
  });
  await consumer.start();
  t.after(() => consumer.close());
  return consumer;
}

/** Receives until nothing comes any more. */
async function drain(consumer: SimpleConsumer): Promise<ReceivedMessage[]> {
  const all: ReceivedMessage[] = [];
  for (;;) {
    const some = await consumer.receive();
    if (some.length === 0) return all;
    all.push(...some);
  }
}

/** A consumer of the group GP, which the broker has pop. */
async function popping(
  t: TestContext,
  server: TestBroker,
  listener: MessageListener,
  options: Partial<PushConsumerOptions> = {},
): Promise<PushConsumer> {
  const consumer = new PushConsumer({
    namesrvAddr: server.namesrvAddress,
    group: 'GP',
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    clientRebalance: false,
    logger: silentLogger,
    listener,
    ...options,
  });
  const { client } = consumer;
  client.acquire();
  const mode = { topic: TOPIC, consumerGroup: 'GP', mode: 'POP', popShareQueueNum: 0 };
  const { code } = await client.invokeBroker(
    server.address,
    RequestCode.SET_MESSAGE_REQUEST_MODE,
    null,
    toJsonBytes(mode),
  );
  assert.equal(code, 0);
  consumer.subscribe(TOPIC);
  await consumer.start();
  await client.release();
  t.after(() => consumer.close());
  return consumer;
}

const numbers = (messages: readonly ReceivedMessage[]): number[] =>
  messages.map((message) => Number(message.text())).sort((a, b) => a - b);

test('a simple consumer gets every message once, and acknowledges one or many', async (t) => {
  const server = await filled(t);
  const consumer = await started(t, server);
  await consumer.subscribe(TOPIC);
  const all = await drain(consumer);
  assert.deepEqual(numbers(all), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
  const [first, second, ...rest] = all;
  await consumer.changeInvisibleDuration(first!, 120_000);
  await consumer.ack(first!);
  await consumer.ack(second!);
  await consumer.ackAll(rest);
  assert.deepEqual(await drain(consumer), []);
});

test('a simple consumer is refused a message that its queue does not have', async (t) => {
  const server = await filled(t);
  const consumer = await started(t, server);
  await consumer.subscribe(TOPIC);
  const [message] = await consumer.receive();
  const far = message!.receiptHandle!.replace(/\d+$/, '5000');
  message!.renew(far, 0);
  await assert.rejects(consumer.ack(message!), { code: 'RESPONSE', responseCode: 208 });
});

test('a simple consumer chooses by tags and by SQL92', async (t) => {
  const server = await filled(t, { config: { enablePropertyFilter: true } });
  const byTag = await started(t, server, { group: 'GT' });
  await byTag.subscribe(TOPIC, 'B || C');
  assert.deepEqual(numbers(await drain(byTag)), [2, 5, 8, 11]);
  const bySql = await started(t, server, { group: 'GS' });
  await bySql.subscribe(TOPIC, MessageSelector.bySql('n >= 9'));
  assert.deepEqual(numbers(await drain(bySql)), [9, 10, 11]);
});

test('members of a group share the messages of one queue, and what one has the other does not get', async (t) => {
  const server = await filled(t);
  const one = await started(t, server, { instanceName: 'one' });
  const other = await started(t, server, { instanceName: 'other' });
  await one.subscribe(TOPIC);
  await other.subscribe(TOPIC);
  const got: ReceivedMessage[] = [];
  for (let i = 0; i < 6; i++) got.push(...(await one.receive(1)), ...(await other.receive(1)));
  assert.deepEqual(numbers(got), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
});

test('a push consumer pops where the broker says so', async (t) => {
  const server = await filled(t);
  const got: string[] = [];
  const consumer = await popping(t, server, async ([message]) => {
    got.push(message!.text());
    return 'CONSUME_SUCCESS';
  });
  while (got.length < 12) await new Promise(setImmediate);
  assert.ok(consumer.assignment.some(({ queueId, topic }) => queueId === -1 && topic === TOPIC));
  await consumer.close();
  const other = await started(t, server, { group: 'GP' });
  await other.subscribe(TOPIC);
  assert.deepEqual(await drain(other), []);
});

test('what a listener fails on comes again, and each other message once', async (t) => {
  const clock = new FakeClock();
  const server = await filled(t, { clock });
  const got = new Map<string, number>();
  await popping(
    t,
    server,
    async ([message]) => {
      const text = message!.text();
      const tries = (got.get(text) ?? 0) + 1;
      got.set(text, tries);
      assert.equal(message!.topic, TOPIC);
      assert.equal(message!.reconsumeTimes, tries - 1);
      return text === '7' && tries < 3 ? 'RECONSUME_LATER' : 'CONSUME_SUCCESS';
    },
    { clock },
  );
  const end = clock.now() + 600_000;
  const until = async (condition: () => boolean): Promise<void> => {
    while (!condition() && clock.now() < end) {
      clock.advance(100);
      await new Promise(setImmediate);
    }
  };
  await until(() => got.get('7') === 3);
  assert.equal(got.get('7'), 3);
  assert.equal(
    [...got.values()].reduce((sum, tries) => sum + tries),
    14,
  );
});
