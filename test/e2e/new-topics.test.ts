// Brokers of one cluster at one name server: where a topic is after one send to it, as a client sees it that asks for the route.

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { BrokerConfig } from '../../src/broker/index.ts';
import { CollectingLogger } from '../../src/common/index.ts';
import { parseJson, RequestCode } from '../../src/remoting/index.ts';
import { startBroker, type TestBroker } from '../../src/testing/index.ts';
import { type Fields, sendFields, until, WirePeer } from './wire-peer.ts';

interface Route {
  queueDatas: Array<{ brokerName: string; writeQueueNums: number }>;
}

/** broker-a, to which everything is sent, and others at its name server. */
class Cluster {
  readonly logger: CollectingLogger = new CollectingLogger();
  readonly brokers = new Map<string, TestBroker>();
  readonly #peers = new Map<string, WirePeer>();
  #opaque = 0;

  /** Ends with the test. */
  static async start(t: TestContext, settings: Record<string, Partial<BrokerConfig>>): Promise<Cluster> {
    const cluster = new Cluster();
    t.after(() => cluster.#stop());
    for (const [brokerName, more] of Object.entries(settings)) {
      const config = { brokerName, ...more };
      const a = cluster.brokers.get('broker-a');
      const join = a === undefined ? { logger: cluster.logger } : { namesrvAddress: a.namesrvAddress };
      const broker = await startBroker({ config, ...join });
      cluster.brokers.set(brokerName, broker);
      cluster.#peers.set(brokerName, await WirePeer.open(broker.address));
      if (a === undefined) cluster.#peers.set('name server', await WirePeer.open(broker.namesrvAddress));
    }
    return cluster;
  }

  async send(topic: string): Promise<void> {
    await this.ask('broker-a', RequestCode.SEND_MESSAGE_V2, sendFields(topic), Buffer.from('x'));
  }

  async createAtB(topic: string, queues: number, more: Record<string, string> = {}): Promise<void> {
    const count = { readQueueNums: String(queues), writeQueueNums: String(queues), perm: '6' };
    const header = { topic, defaultTopic: 'TBW102', ...count, topicFilterType: 'SINGLE_TAG', order: 'false', ...more };
    await this.ask('broker-b', RequestCode.UPDATE_AND_CREATE_TOPIC, header);
  }

  async ask(broker: string, code: number, ext: Fields, body?: Uint8Array): Promise<void> {
    const answer = await this.#peers.get(broker)!.call(code, this.#opaque++, ext, body);
    assert.equal(answer.code, 0, answer.remark);
  }

  /** The topic's route, `broker:queues`, once it names so many brokers. */
  async routeOf(topic: string, brokers: number): Promise<string[]> {
    for (;;) {
      const code = RequestCode.GET_ROUTEINFO_BY_TOPIC;
      const answer = await this.#peers.get('name server')!.call(code, this.#opaque++, { topic });
      const queueDatas = answer.code === 0 ? (parseJson(answer.body) as unknown as Route).queueDatas : [];
      if (queueDatas.length >= brokers) {
        return queueDatas.map((queue) => `${queue.brokerName}:${queue.writeQueueNums}`).sort();
      }
    }
  }

  /** Queues of a topic at a broker; undefined if it is not there. */
  queues(broker: string, topic: string): number | undefined {
    return this.brokers.get(broker)!.broker.context.topics.select(topic)?.writeQueueNums;
  }

  /** What was sent before has spread when a topic that is sent to now has: each broker gets them in turn. */
  async settled(): Promise<void> {
    const fence = `Fence-${this.#opaque}`;
    await this.send(fence);
    await this.routeOf(fence, this.brokers.size);
  }

  async #stop(): Promise<void> {
    for (const peer of this.#peers.values()) await peer.close();
    for (const broker of [...this.brokers.values()].reverse()) await broker.stop();
  }
}

test('after one send to a new topic its route names both brokers, with the same queues', async (t) => {
  const cluster = await Cluster.start(t, { 'broker-a': {}, 'broker-b': {} });
  for (const topic of ['First', 'Second']) {
    const began = performance.now();
    await cluster.send(topic);
    assert.deepEqual(await cluster.routeOf(topic, 2), ['broker-a:4', 'broker-b:4']);
    t.diagnostic(
      `${topic}: both brokers in the route ${(performance.now() - began).toFixed(1)} ms after the send began`,
    );
  }
  const [here, there] = [...cluster.brokers.values()].map(({ broker }) => broker.context.topics.select('First')!);
  assert.ok(here!.equals(there!));
});

test('a burst of new topics is on both brokers', async (t) => {
  const cluster = await Cluster.start(t, { 'broker-a': {}, 'broker-b': {} });
  const names = Array.from({ length: 200 }, (_, i) => `Burst-${i}`);
  const began = performance.now();
  for (const name of names) await cluster.send(name);
  for (const name of names) assert.deepEqual(await cluster.routeOf(name, 2), ['broker-a:4', 'broker-b:4']);
  t.diagnostic(`200 topics: ${Math.round(performance.now() - began)} ms`);
});

test('a broker that creates no topics on its own gets none, as it was started or as it was changed since', async (t) => {
  const cluster = await Cluster.start(t, {
    'broker-a': {},
    'broker-b': { autoCreateTopicEnable: false },
    'broker-c': {},
  });
  await cluster.send('New');
  assert.deepEqual(await cluster.routeOf('New', 2), ['broker-a:4', 'broker-c:4']);
  await cluster.ask('broker-c', RequestCode.UPDATE_BROKER_CONFIG, {}, Buffer.from('autoCreateTopicEnable=false\n'));
  await cluster.send('Later');
  await until(() => cluster.logger.texts('debug').some((text) => text.includes('do not spread to broker-c')));
  assert.deepEqual(await cluster.routeOf('Later', 1), ['broker-a:4']);
  assert.deepEqual(
    ['New', 'Later'].flatMap((topic) => ['broker-b', 'broker-c'].map((broker) => cluster.queues(broker, topic))),
    [undefined, 4, undefined, undefined],
  );
});

test('a topic that another broker has keeps its queues there', async (t) => {
  const cluster = await Cluster.start(t, { 'broker-a': {}, 'broker-b': {} });
  await cluster.createAtB('Mine', 7);
  await cluster.send('Mine');
  await cluster.settled();
  assert.deepEqual(await cluster.routeOf('Mine', 2), ['broker-a:4', 'broker-b:7']);
  // It comes into being between the question and the request.
  await cluster.createAtB('Mine', 3, { gantryOnlyIfAbsent: 'true' });
  assert.equal(cluster.queues('broker-b', 'Mine'), 7);
  await cluster.createAtB('Mine', 3);
  assert.equal(cluster.queues('broker-b', 'Mine'), 3, 'an administrator changes it');
});

test('what is of one broker or group alone, or is not to spread, stays where it is', async (t) => {
  const cluster = await Cluster.start(t, { 'broker-a': { gantrySpreadNewTopics: false }, 'broker-b': {} });
  await cluster.send('Alone');
  cluster.brokers.get('broker-a')!.broker.context.config.gantrySpreadNewTopics = true;
  const own = ['%RETRY%G', '%DLQ%G', 'RMQ_SYS_TRACE_TOPIC', 'rmq_sys_own'];
  for (const topic of own) await cluster.send(topic);
  await cluster.settled();
  for (const topic of ['Alone', ...own]) {
    assert.notEqual(cluster.queues('broker-a', topic), undefined, topic);
    assert.equal(cluster.queues('broker-b', topic), undefined, topic);
  }
  assert.deepEqual(cluster.logger.texts('warn'), []);
});
