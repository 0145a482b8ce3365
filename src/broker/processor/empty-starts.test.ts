import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../common/index.ts';
import { RequestCode } from '../../remoting/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { BrokerFixture, FakeChannel, messageWith } from '../broker-fixture.test.support.ts';
import { EmptyStarts } from '../offset/empty-starts.ts';
import { registerProcessors } from './register.ts';

class Starts {
  readonly #broker: BrokerFixture;
  constructor(broker: BrokerFixture) {
    this.#broker = broker;
  }

  static async open(config: Partial<BrokerConfig> = {}): Promise<Starts> {
    const broker = await BrokerFixture.open({ broker: config });
    registerProcessors(broker, broker.context);
    broker.context.topics.createInSend('T', 'TBW102', 'test', 4, 0);
    broker.context.topics.persistIfChanged();
    return new Starts(broker);
  }

  /** Where the group stands: the code of the answer. */
  async group(channel: FakeChannel, fields: Record<string, string> = {}): Promise<number> {
    const header = { consumerGroup: 'G', topic: 'T', queueId: 0, ...fields };
    return (await this.#broker.ask(RequestCode.QUERY_CONSUMER_OFFSET, header, '', channel)).code;
  }

  async maximum(channel: FakeChannel, queueId = 0): Promise<string | undefined> {
    const answer = await this.#broker.ask(RequestCode.GET_MAX_OFFSET, { topic: 'T', queueId }, '', channel);
    return answer.ext['offset'];
  }

  async message(queueId = 0): Promise<void> {
    await this.#broker.put(messageWith({ queueId }));
    await this.#broker.dispatched();
  }

  advance(ms: number): void {
    this.#broker.clock.advance(ms);
  }
}

test('a new group misses no message that comes while it asks where to begin', async () => {
  const starts = await Starts.open();
  const client = new FakeChannel();
  assert.equal(await starts.group(client), 22);
  await starts.message();
  assert.equal(await starts.maximum(client), '0', 'the end of the queue that it was told of');
  assert.equal(await starts.maximum(client), '1', 'and the real one from then on');
});

test('the end of an empty queue is kept for the connection, the queue and the time that it takes to ask', async () => {
  const starts = await Starts.open();
  const client = new FakeChannel();
  assert.equal(await starts.group(client), 22);
  await starts.message();
  await starts.message(1);
  assert.equal(await starts.maximum(new FakeChannel()), '1');
  assert.equal(await starts.maximum(client, 1), '1');
  starts.advance(5001);
  assert.equal(await starts.maximum(client), '1');
});

test('who leaves the beginning to the client gets the real end of the queue', async () => {
  const asked = await Starts.open();
  const client = new FakeChannel();
  assert.equal(await asked.group(client, { setZeroIfNotFound: 'false' }), 22);
  await asked.message();
  assert.equal(await asked.maximum(client), '1');

  const set = await Starts.open({ gantryYoungQueueFromZero: false });
  assert.equal(await set.group(client), 22);
  await set.message();
  assert.equal(await set.maximum(client), '1');
});

test('names that no topic can bear are not kept for a connection', () => {
  const starts = new EmptyStarts(new FakeClock());
  const client = new FakeChannel();
  for (const [length, kept] of [
    [255, true],
    [256, false],
  ] as const) {
    const topic = 'T'.repeat(length);
    starts.note(client, topic, 0);
    assert.equal(starts.take(client, topic, 0), kept);
  }
});
