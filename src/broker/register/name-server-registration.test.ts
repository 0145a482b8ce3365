import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger, crc32, FakeClock, GantryError } from '../../common/index.ts';
import {
  type Channel,
  type ExtFields,
  type RemotingResponse,
  RequestCode,
  ResponseCode,
  SlabPool,
} from '../../remoting/index.ts';
import { DataVersion } from '../data-version.ts';
import { TopicConfig, type TopicConfigFields } from '../topic/topic-config.ts';
import { NameServerRegistration, type RegistrationOptions, type TopicTable } from './name-server-registration.ts';

interface Asked {
  code: number;
  ext: ExtFields;
  body: Buffer;
}

/** Topics by name under one version, as TopicConfigManager keeps them. */
class Topics implements TopicTable {
  readonly dataVersion: DataVersion = new DataVersion(1000);
  readonly #table = new Map<string, TopicConfig>();

  constructor(...names: string[]) {
    for (const name of names) this.#table.set(name, new TopicConfig(name, { readQueueNums: 8, writeQueueNums: 8 }));
  }

  put(name: string, fields: TopicConfigFields = {}): void {
    this.#table.set(name, new TopicConfig(name, fields));
    this.dataVersion.next(2000);
  }

  remove(name: string): void {
    this.#table.delete(name);
    this.dataVersion.next(2000);
  }

  all(): Iterable<TopicConfig> {
    return this.#table.values();
  }

  select(topic: string): TopicConfig | undefined {
    return this.#table.get(topic);
  }
}

/** A name server at the other end of fake connections. Requests are answered at once unless `hold` is set. */
class FakeNameServer {
  readonly asked: Asked[] = [];
  /** Answers in turn; when there is none, success. */
  readonly answers: Array<Partial<RemotingResponse>> = [];
  refuseConnections = false;
  hold = false;
  connections = 0;
  underWay = 0;
  mostUnderWay = 0;
  closedFor: string | undefined;
  #held: Array<() => void> = [];
  #end: ((reason: string) => void) | undefined;

  connect(): Promise<Channel> {
    if (this.refuseConnections) return Promise.reject(new GantryError('REMOTING_CONNECT', 'connection refused'));
    this.connections++;
    let open = true;
    const listeners: Array<() => void> = [];
    const failures = new Set<(error: Error) => void>();
    const end = (reason: string): void => {
      if (!open) return;
      open = false;
      this.closedFor = reason;
      for (const fail of failures) fail(new GantryError('REMOTING_CLOSED', 'the connection was closed'));
      for (const listener of listeners) listener();
    };
    this.#end = end;
    const channel: Channel = {
      id: this.connections,
      remoteAddress: '127.0.0.1:9876',
      remoteHost: new Uint8Array(8),
      localAddress: '127.0.0.1:5555',
      get isOpen() {
        return open;
      },
      slabs: new SlabPool(0),
      language: 'JAVA',
      version: 513,
      inFlight: 0,
      unsentBytes: 0,
      sendOneway() {},
      send() {},
      drop() {},
      holdInput() {},
      resumeInput() {},
      request() {},
      invoke: (code, ext, body) =>
        new Promise((resolve, reject) => {
          this.asked.push({ code, ext: ext ?? {}, body: Buffer.from(body ?? []) });
          this.mostUnderWay = Math.max(this.mostUnderWay, ++this.underWay);
          failures.add(reject);
          const answer = (): void => {
            this.underWay--;
            failures.delete(reject);
            const empty = { code: 0, remark: undefined, ext: {}, body: new Uint8Array(), version: 513 };
            resolve({ ...empty, ...this.answers.shift() });
          };
          if (this.hold) this.#held.push(answer);
          else queueMicrotask(answer);
        }),
      close: end,
      onClose: (fn) => listeners.push(fn),
    };
    return Promise.resolve(channel);
  }

  release(): void {
    this.hold = false;
    for (const answer of this.#held.splice(0)) answer();
  }

  endConnection(): void {
    this.#end?.('the name server went away');
  }

  codes(): number[] {
    return this.asked.splice(0).map((request) => request.code);
  }

  /** Names of the topics in each registration since the last look. */
  topics(): string[][] {
    return this.asked.splice(0).map((request) => {
      assert.equal(request.code, RequestCode.REGISTER_BROKER);
      return Object.keys(wrapperOf(request)['topicConfigTable'] as object);
    });
  }
}

function wrapperOf(request: Asked): Record<string, unknown> {
  return JSON.parse(request.body.toString('utf8'))['topicConfigSerializeWrapper'];
}

const IDENTITY = {
  clusterName: 'C',
  brokerName: 'a',
  brokerAddr: '10.0.0.1:10911',
  brokerId: 0,
  haServerAddr: '10.0.0.1:10912',
};

interface Harness {
  clock: FakeClock;
  logger: CollectingLogger;
  topics: Topics;
  servers: Record<string, FakeNameServer>;
  registration: NameServerRegistration;
}

function harness(change: Partial<RegistrationOptions> = {}): Harness {
  const clock = new FakeClock();
  const logger = new CollectingLogger();
  const topics = new Topics('T', 'U');
  const servers: Record<string, FakeNameServer> = { 'n:1': new FakeNameServer(), 'n:2': new FakeNameServer() };
  const options = { identity: IDENTITY, topics, nameServers: 'n:1', ...change };
  const connect = (address: string): Promise<Channel> => servers[address]!.connect();
  return {
    clock,
    logger,
    topics,
    servers,
    registration: new NameServerRegistration(options, { clock, logger, connect }),
  };
}

/** Lets everything that needs no clock happen. */
async function settle(): Promise<void> {
  for (let i = 0; i < 5; i++) await new Promise<void>((resolve) => setImmediate(resolve));
}

test('the start registers the whole table as RocketMQ does', async () => {
  const { registration, servers } = harness();
  await registration.start();
  const [request, ...others] = servers['n:1']!.asked;
  assert.equal(others.length, 0);
  assert.equal(request!.code, RequestCode.REGISTER_BROKER);
  assert.deepEqual(request!.ext, {
    bodyCrc32: crc32(request!.body),
    brokerAddr: '10.0.0.1:10911',
    brokerId: 0,
    brokerName: 'a',
    clusterName: 'C',
    compressed: false,
    enableActingMaster: false,
    haServerAddr: '10.0.0.1:10912',
  });
  assert.equal(
    request!.body.toString('utf8'),
    '{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":1000},' +
      '"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":0},"topicConfigTable":{' +
      '"T":{"attributes":{},"order":false,"perm":6,"readQueueNums":8,"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":8},' +
      '"U":{"attributes":{},"order":false,"perm":6,"readQueueNums":8,"topicFilterType":"SINGLE_TAG","topicName":"U","topicSysFlag":0,"writeQueueNums":8}},' +
      '"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}',
  );
  assert.deepEqual(registration.states(), [{ address: 'n:1', registered: true, error: undefined }]);
});

test('it registers again after 10 s and then each period, which is held between 10 and 60 s', async () => {
  for (const [periodMs, expected] of [
    [undefined, 30_000],
    [1, 10_000],
    [600_000, 60_000],
  ] as const) {
    const { registration, servers, clock } = harness(periodMs === undefined ? {} : { periodMs });
    await registration.start();
    const after = async (ms: number): Promise<number> => {
      servers['n:1']!.asked.length = 0;
      clock.advance(ms);
      await settle();
      return servers['n:1']!.asked.length;
    };
    assert.equal(await after(9_999), 0);
    assert.equal(await after(1), 1);
    assert.equal(await after(expected - 1), 0);
    assert.equal(await after(1), 1);
    assert.equal(await after(expected), 1);
  }
});

test('disappearTimeAfterStart: the start registers, and no period does until that time is over', async () => {
  const { registration, servers, clock, topics } = harness({ quietMs: 45_000, periodMs: 10_000 });
  await registration.start();
  assert.equal(servers['n:1']!.codes().length, 1);
  clock.advance(44_999);
  await settle();
  assert.deepEqual(servers['n:1']!.codes(), []);
  topics.put('V');
  await registration.registerTopics(['V']);
  assert.deepEqual(servers['n:1']!.topics(), [['V']]);
  clock.advance(5001);
  await settle();
  assert.deepEqual(servers['n:1']!.topics(), [['T', 'U', 'V']]);
});

test('equal tables have equal bytes, and a new version new ones', async () => {
  const { registration, servers, topics } = harness();
  await registration.start();
  await registration.registerAll();
  topics.put('V');
  await registration.registerAll();
  const [first, second, third] = servers['n:1']!.asked;
  assert.equal(first!.body.toString(), second!.body.toString());
  assert.match(third!.body.toString(), /"counter":1.*"V":/);
});

test('a new topic is registered at once, alone, under the version of the table', async () => {
  const { registration, servers, topics } = harness();
  await registration.start();
  servers['n:1']!.asked.length = 0;
  topics.put('V', { attributes: new Map([['message.type', 'FIFO']]), order: true });
  await registration.registerTopics(['V']);
  const wrapper = wrapperOf(servers['n:1']!.asked[0]!);
  assert.deepEqual(wrapper['dataVersion'], { counter: 1, stateVersion: 0, timestamp: 2000 });
  assert.deepEqual(wrapper['topicConfigTable'], {
    V: {
      attributes: { 'message.type': 'FIFO' },
      order: true,
      perm: 6,
      readQueueNums: 16,
      topicFilterType: 'SINGLE_TAG',
      topicName: 'V',
      topicSysFlag: 0,
      writeQueueNums: 16,
    },
  });
});

test('one request is under way at a time; what changes meanwhile shares the next one', async () => {
  const { registration, servers, topics } = harness();
  const server = servers['n:1']!;
  await registration.start();
  server.asked.length = 0;
  server.hold = true;
  topics.put('V1');
  const first = registration.registerTopics(['V1']);
  await settle();
  const done: string[] = [];
  for (const name of ['V2', 'V3', 'V4']) {
    topics.put(name);
    void registration.registerTopics([name]).then(() => done.push(name));
  }
  await settle();
  assert.equal(server.asked.length, 1);
  assert.deepEqual(done, []);
  server.release();
  await first;
  await settle();
  assert.deepEqual(server.topics(), [['V1'], ['V2', 'V3', 'V4']]);
  assert.deepEqual(done, ['V2', 'V3', 'V4']);
  assert.equal(server.mostUnderWay, 1);
});

test('a topic that is gone by then is left out', async () => {
  const { registration, servers, topics } = harness();
  await registration.start();
  servers['n:1']!.asked.length = 0;
  topics.put('V');
  topics.put('W');
  topics.remove('V');
  await registration.registerTopics(['V', 'W']);
  assert.deepEqual(servers['n:1']!.topics(), [['W']]);
});

test('with singleTopicRegister changed topics go one by one', async () => {
  const { registration, servers, topics } = harness({ singleTopicRegister: true, permission: () => 4 });
  await registration.start();
  servers['n:1']!.asked.length = 0;
  topics.put('V', { readQueueNums: 2, writeQueueNums: 3, perm: 6, topicSysFlag: 1 });
  topics.put('W');
  await registration.registerTopics(['V', 'gone', 'W']);
  const [first, second, ...others] = servers['n:1']!.asked;
  assert.deepEqual(others, []);
  assert.equal(first!.code, RequestCode.REGISTER_TOPIC_IN_NAMESRV);
  assert.deepEqual(first!.ext, { topic: 'V' });
  assert.equal(
    first!.body.toString('utf8'),
    '{"queueDatas":[{"brokerName":"a","perm":4,"readQueueNums":2,"topicSysFlag":1,"writeQueueNums":3}]}',
  );
  assert.deepEqual(second!.ext, { topic: 'W' });
});

test('what a broker may not do, its topics may not', async () => {
  const { registration, servers, topics } = harness({ permission: () => 4 });
  topics.put('V', { perm: 7 });
  await registration.start();
  const table = wrapperOf(servers['n:1']!.asked[0]!)['topicConfigTable'] as Record<string, { perm: number }>;
  assert.deepEqual([table['T']!.perm, table['V']!.perm], [4, 4]);
  const full = harness({ permission: () => 6 });
  full.topics.put('V', { perm: 7 });
  await full.registration.start();
  const other = wrapperOf(full.servers['n:1']!.asked[0]!)['topicConfigTable'] as Record<string, { perm: number }>;
  assert.equal(other['V']!.perm, 7, 'a broker with read and write permission leaves the inherit bit');
});

test('a name server that forgot the broker refuses a single topic, and gets the whole table', async () => {
  const { registration, servers, topics } = harness();
  await registration.start();
  servers['n:1']!.asked.length = 0;
  topics.put('V');
  servers['n:1']!.answers.push({ code: ResponseCode.SYSTEM_ERROR, remark: 'register broker failed' });
  await registration.registerTopics(['V']);
  await settle();
  assert.deepEqual(servers['n:1']!.topics(), [['V'], ['T', 'U', 'V']]);
  assert.equal(registration.states()[0]!.registered, true);
});

test('a name server that cannot be reached is tried again after 1, 2, 4, 5, 5 s, with one line in the log', async () => {
  const { registration, servers, clock, logger } = harness();
  servers['n:1']!.refuseConnections = true;
  await registration.start();
  assert.match(registration.states()[0]!.error ?? '', /refused/);
  assert.equal(registration.states()[0]!.registered, false);
  let attempts = 0;
  const server = servers['n:1']!;
  const connect = server.connect.bind(server);
  server.connect = () => {
    attempts++;
    return connect();
  };
  const seen: number[] = [];
  for (let second = 1; second <= 17; second++) {
    clock.advance(1000);
    await settle();
    if (attempts > 0) seen.push(second);
    attempts = 0;
  }
  assert.deepEqual(seen, [1, 3, 7, 12, 17]);
  assert.equal(logger.texts('warn').length, 1);
  server.refuseConnections = false;
  clock.advance(5000);
  await settle();
  assert.equal(registration.states()[0]!.registered, true);
  assert.equal(logger.texts('info').length, 1);
});

test('a failing name server does not hold up the others, nor a new topic', async () => {
  const { registration, servers, topics } = harness({ nameServers: 'n:1;n:2' });
  servers['n:1']!.refuseConnections = true;
  await registration.start();
  servers['n:2']!.asked.length = 0;
  topics.put('V');
  await registration.registerTopics(['V']);
  assert.deepEqual(servers['n:2']!.topics(), [['V']]);
});

test('a name server that does not answer holds up a new topic for 3 s at the most', async () => {
  const { registration, servers, topics, clock } = harness({ nameServers: 'n:1;n:2' });
  await registration.start();
  servers['n:1']!.hold = true;
  topics.put('V');
  let done = false;
  void registration.registerTopics(['V']).then(() => {
    done = true;
  });
  clock.advance(2_999);
  await settle();
  assert.equal(done, false);
  clock.advance(1);
  await settle();
  assert.equal(done, true);
});

test('what a name server did not confirm is sent again, with the whole table', async () => {
  const { registration, servers, topics, clock } = harness();
  const server = servers['n:1']!;
  await registration.start();
  topics.put('V');
  server.asked.length = 0;
  server.hold = true;
  void registration.registerTopics(['V']);
  await settle();
  server.hold = false;
  server.endConnection();
  await settle();
  assert.equal(registration.states()[0]!.registered, false);
  clock.advance(1000);
  await settle();
  assert.deepEqual(server.topics(), [['V'], ['T', 'U', 'V']]);
  assert.equal(server.connections, 2);
});

test('when a connection ends the broker registers again at once', async () => {
  const { registration, servers, clock } = harness();
  const server = servers['n:1']!;
  await registration.start();
  clock.advance(1000);
  server.asked.length = 0;
  server.endConnection();
  clock.advance(0);
  await settle();
  assert.deepEqual(server.topics(), [['T', 'U']]);
  assert.equal(server.connections, 2);
});

test('with something that hangs up at once it takes a second between two attempts', async () => {
  const { registration, servers, clock } = harness();
  await registration.start();
  servers['n:1']!.endConnection();
  clock.advance(999);
  await settle();
  assert.equal(servers['n:1']!.connections, 1);
  clock.advance(1);
  await settle();
  assert.equal(servers['n:1']!.connections, 2);
});

test('without forceRegister a periodic registration asks first, the start does not', async () => {
  const { registration, servers, clock } = harness({ forceRegister: false });
  const server = servers['n:1']!;
  await registration.start();
  assert.deepEqual(server.codes(), [RequestCode.REGISTER_BROKER]);
  const same = Buffer.from('{"counter":0,"stateVersion":0,"timestamp":1000}');
  const next = async (...answers: Array<Partial<RemotingResponse>>): Promise<number[]> => {
    server.answers.push(...answers);
    clock.advance(30_000);
    await settle();
    return server.codes();
  };
  clock.advance(10_000);
  await settle();
  server.asked.length = 0;
  const { QUERY_DATA_VERSION: query, REGISTER_BROKER: register } = RequestCode;
  assert.deepEqual(await next({ ext: { changed: 'false' }, body: same }), [query]);
  assert.deepEqual(await next({ ext: { changed: 'true' }, body: same }), [query, register]);
  const other = Buffer.from('{"counter":9,"stateVersion":0,"timestamp":1000}');
  assert.deepEqual(await next({ ext: { changed: 'false' }, body: other }), [query, register]);
  assert.deepEqual(await next({}), [query, register]);
  assert.deepEqual(await next({ code: 1 }), [query, register]);
});

test('the ordered topics come from the first name server of the list that answers', async () => {
  const heard: string[][] = [];
  const { registration, servers } = harness({
    nameServers: 'n:1;n:2',
    onOrderTopics: (topics) => heard.push([...topics]),
  });
  servers['n:1']!.answers.push({ body: Buffer.from('{"table":{"T":"a:4"}}') });
  servers['n:2']!.answers.push({ body: Buffer.from('{"table":{"U":"a:4"}}') });
  await registration.start();
  assert.ok(heard.some((topics) => topics[0] === 'T'));
  heard.length = 0;
  servers['n:1']!.answers.push({ body: Buffer.from('{"table":{"T":"a:4"}}') });
  servers['n:2']!.answers.push({ body: Buffer.from('{"table":{"U":"a:4"}}') });
  await registration.registerAll();
  assert.deepEqual(heard, [['T']]);
  servers['n:1']!.refuseConnections = true;
  servers['n:1']!.endConnection();
  await settle();
  heard.length = 0;
  servers['n:2']!.answers.push({ body: Buffer.from('{"table":{"U":"a:4"}}') });
  await registration.registerAll();
  assert.deepEqual(heard, [['U']]);
});

test('a table of ordered topics that cannot be read is ignored with a line', async () => {
  const { registration, servers, logger } = harness({ onOrderTopics: () => assert.fail('not called') });
  servers['n:1']!.answers.push({ body: Buffer.from('{"table":') });
  await registration.start();
  assert.equal(logger.texts('warn').length, 1);
  assert.equal(registration.states()[0]!.registered, true);
});

test('a stop leaves every name server, closes the connections and registers no more', async () => {
  const { registration, servers, clock, topics } = harness({ nameServers: 'n:1; n:2' });
  await registration.start();
  for (const server of Object.values(servers)) server.asked.length = 0;
  await registration.stop();
  for (const server of Object.values(servers)) {
    assert.deepEqual(server.asked, [
      {
        code: RequestCode.UNREGISTER_BROKER,
        ext: { brokerAddr: '10.0.0.1:10911', brokerId: 0, brokerName: 'a', clusterName: 'C' },
        body: Buffer.alloc(0),
      },
    ]);
    assert.match(server.closedFor ?? '', /stops/);
    server.asked.length = 0;
  }
  topics.put('V');
  await registration.registerTopics(['V']);
  await registration.registerAll();
  clock.advance(120_000);
  await settle();
  assert.deepEqual(servers['n:1']!.asked, []);
});

test('a stop waits for the request under way, so that it cannot come after the farewell', async () => {
  const { registration, servers } = harness();
  const server = servers['n:1']!;
  await registration.start();
  server.asked.length = 0;
  server.hold = true;
  void registration.registerAll();
  await settle();
  const stopped = registration.stop();
  await settle();
  assert.deepEqual(
    server.asked.map((request) => request.code),
    [RequestCode.REGISTER_BROKER],
  );
  server.release();
  await stopped;
  assert.deepEqual(server.codes(), [RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER]);
});

test('a stop takes 1 s for a request under way and goes on, also when a name server never answers', async () => {
  const { registration, servers, clock } = harness();
  const server = servers['n:1']!;
  await registration.start();
  server.hold = true;
  void registration.registerAll();
  await settle();
  let stopped = false;
  void registration.stop().then(() => {
    stopped = true;
  });
  await settle();
  clock.advance(1000);
  await settle();
  assert.equal(server.codes().at(-1), RequestCode.UNREGISTER_BROKER);
  server.endConnection();
  await settle();
  assert.equal(stopped, true);
});

test('name servers can be added and left while it runs', async () => {
  const { registration, servers, clock } = harness();
  await registration.start();
  servers['n:1']!.asked.length = 0;
  await registration.setNameServers('n:2');
  assert.deepEqual(servers['n:2']!.topics(), [['T', 'U']]);
  assert.match(servers['n:1']!.closedFor ?? '', /no longer in the list/);
  clock.advance(10_000);
  await settle();
  assert.deepEqual(servers['n:1']!.asked, []);
  assert.deepEqual(servers['n:2']!.topics(), [['T', 'U']]);
  assert.deepEqual(
    registration.states().map((state) => state.address),
    ['n:2'],
  );
});

test('without name servers nothing is awaited', async () => {
  const { registration } = harness({ nameServers: ' ; ' });
  await registration.start();
  await registration.registerTopics(['T']);
  await registration.stop();
  assert.deepEqual(registration.states(), []);
});

test('a table of many topics is built in slices, and all of it arrives', async () => {
  const { registration, servers, topics } = harness();
  for (let i = 0; i < 2_000; i++) topics.put(`topic-${i}`);
  let turns = 0;
  let done = false;
  const count = (): void => {
    turns++;
    if (!done) setImmediate(count);
  };
  setImmediate(count);
  await registration.start();
  done = true;
  assert.ok(turns >= 4, `other work ran ${turns} times meanwhile`);
  assert.equal(servers['n:1']!.topics()[0]!.length, 2_002);
});
