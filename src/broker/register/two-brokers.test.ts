// Brokers and a name server over real sockets: what a client that asks for routes sees, and when.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger, FakeClock } from '../../common/index.ts';
import { MemoryFileSystem } from '../../io/index.ts';
import { NameServer } from '../../namesrv/index.ts';
import { parseJson, RemotingClient, RequestCode, ResponseCode } from '../../remoting/index.ts';
import { DataVersion } from '../data-version.ts';
import { TopicConfig } from '../topic/topic-config.ts';
import { NameServerRegistration, type TopicTable } from './name-server-registration.ts';

class Broker {
  readonly topics: Map<string, TopicConfig>;
  readonly dataVersion: DataVersion = new DataVersion(1);
  readonly client: RemotingClient;
  readonly registration: NameServerRegistration;

  constructor(name: string, port: number, nameServers: string, clock: FakeClock, logger: CollectingLogger) {
    this.topics = new Map([name, 'TBW102'].map((topic) => [topic, new TopicConfig(topic, { perm: 7 })]));
    this.client = new RemotingClient({ clock, logger });
    const table: TopicTable = {
      dataVersion: this.dataVersion,
      all: () => this.topics.values(),
      select: (topic) => this.topics.get(topic),
    };
    this.registration = new NameServerRegistration(
      {
        identity: {
          clusterName: 'C',
          brokerName: name,
          brokerAddr: `127.0.0.1:${port}`,
          brokerId: 0,
          haServerAddr: `127.0.0.1:${port + 1}`,
        },
        topics: table,
        nameServers,
      },
      { clock, logger, connect: (address) => this.client.connect(address) },
    );
  }

  /** A send or an administrator made a topic; resolves when the name servers know it. */
  create(topic: string): Promise<void> {
    this.topics.set(topic, new TopicConfig(topic, { readQueueNums: 4, writeQueueNums: 4 }));
    this.dataVersion.next(2);
    return this.registration.registerTopics([topic]);
  }

  async stop(): Promise<void> {
    await this.registration.stop();
    await this.client.close();
  }
}

interface Route {
  queueDatas: Array<{ brokerName: string; writeQueueNums: number }>;
}

test('a topic that two brokers have made has queues on both, seen as soon as the registration is answered', async () => {
  const clock = new FakeClock();
  const logger = new CollectingLogger();
  const deps = { fs: new MemoryFileSystem(), clock, logger };
  const nameServer = await NameServer.start({ host: '127.0.0.1', port: 0, kvConfigPath: '/kv.json', deps });
  const brokers = [10911, 20911].map((port, i) => new Broker(`broker-${i}`, port, nameServer.address, clock, logger));
  const client = new RemotingClient({ clock, logger });
  const route = async (topic: string): Promise<string[]> => {
    const ext = { topic };
    const answer = await client.invoke(nameServer.address, RequestCode.GET_ROUTEINFO_BY_TOPIC, ext, null, 3000);
    if (answer.code === ResponseCode.TOPIC_NOT_EXIST) return [];
    return (parseJson(answer.body) as unknown as Route).queueDatas
      .map((queue) => `${queue.brokerName}:${queue.writeQueueNums}`)
      .sort();
  };
  await Promise.all(brokers.map((broker) => broker.registration.start()));
  assert.deepEqual(await route('TBW102'), ['broker-0:16', 'broker-1:16'], 'the route is there when the start is over');
  assert.deepEqual(await route('New'), []);
  await brokers[0]!.create('New');
  assert.deepEqual(await route('New'), ['broker-0:4']);
  await brokers[1]!.create('New');
  assert.deepEqual(await route('New'), ['broker-0:4', 'broker-1:4']);

  await brokers[0]!.stop();
  assert.deepEqual(await route('New'), ['broker-1:4'], 'a broker that stops is gone from routes before anything else');
  await brokers[1]!.stop();
  await client.close();
  await nameServer.stop();
});

test('after a restart of the name server routes are back without waiting for the period', async () => {
  const clock = new FakeClock();
  const logger = new CollectingLogger();
  const deps = { fs: new MemoryFileSystem(), clock, logger };
  const options = { host: '127.0.0.1', kvConfigPath: '/kv.json', deps };
  const first = await NameServer.start({ ...options, port: 0 });
  const broker = new Broker('broker-0', 10911, first.address, clock, logger);
  await broker.registration.start();
  clock.advance(2_000);
  const gone = new Promise<void>((resolve) => broker.client.onDisconnect(() => resolve()));
  await first.stop();
  await gone;
  const second = await NameServer.start({ ...options, port: first.port });
  const back = new Promise<void>((resolve) => broker.client.onConnect(() => resolve()));
  clock.advance(0);
  clock.advance(1_000);
  await back;
  await broker.registration.registerAll();
  const client = new RemotingClient({ clock, logger });
  const ext = { topic: 'TBW102' };
  const answer = await client.invoke(second.address, RequestCode.GET_ROUTEINFO_BY_TOPIC, ext, null, 3000);
  assert.equal(answer.code, ResponseCode.SUCCESS);
  await broker.stop();
  await client.close();
  await second.stop();
});
