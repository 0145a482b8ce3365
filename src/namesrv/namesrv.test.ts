// A name server over its socket. The frames are those that a Java 5.5.0 cluster exchanged (test/fixtures/namesrv-frames): what its
// brokers and tools sent is sent again, and every answer must be what the Java name server answered, field by field.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createConnection, type Socket } from 'node:net';
import { test } from 'node:test';
import { CollectingLogger, FakeClock, GantryError } from '../common/index.ts';
import { MemoryFileSystem } from '../io/index.ts';
import {
  decodeFrame,
  HeaderView,
  parseJson,
  RemotingClient,
  RemotingServer,
  RequestCode,
  ResponseCode,
} from '../remoting/index.ts';
import { NameServer, type NameServerOptions } from './index.ts';

const FIXTURES = 'test/fixtures/namesrv-frames/';

interface Recorded {
  link: string;
  conn: number;
  from: 'client' | 'server';
  requestCode: number;
  opaque: number;
  frame: string;
}

interface Answer {
  code: number;
  opaque: number;
  isResponse: boolean;
  ext: Record<string, string>;
  remark: string | undefined;
  body: unknown;
}

/** A plain socket that sends bytes and waits for whole frames. */
class RawClient {
  readonly #socket: Socket;
  #received: Buffer = Buffer.alloc(0);
  #wake: () => void = () => {};
  closed = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (data) => {
      this.#received = Buffer.concat([this.#received, data]);
      this.#wake();
    });
    socket.on('close', () => {
      this.closed = true;
      this.#wake();
    });
    socket.on('error', () => {});
  }

  static connect(port: number): Promise<RawClient> {
    return new Promise((resolve, reject) => {
      const socket = createConnection({ host: '127.0.0.1', port }, () => resolve(new RawClient(socket)));
      socket.once('error', reject);
    });
  }

  write(bytes: Uint8Array): void {
    this.#socket.write(bytes);
  }

  end(): void {
    this.#socket.destroy();
  }

  async frame(): Promise<Buffer> {
    for (;;) {
      const length = this.#received.length < 4 ? -1 : 4 + this.#received.readInt32BE(0);
      if (length >= 0 && this.#received.length >= length) {
        const frame = this.#received.subarray(0, length);
        this.#received = this.#received.subarray(length);
        return frame;
      }
      assert.equal(this.closed, false, 'the connection lives on');
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  async ask(code: number, ext: Record<string, string>, body = '', opaque = 1): Promise<Answer> {
    const header = Buffer.from(
      JSON.stringify({ code, extFields: ext, flag: 0, language: 'JAVA', opaque, version: 513 }),
    );
    const head = Buffer.alloc(8);
    head.writeInt32BE(4 + header.length + Buffer.byteLength(body), 0);
    head.writeInt32BE(header.length, 4);
    this.write(Buffer.concat([head, header, Buffer.from(body)]));
    return answerOf(await this.frame());
  }
}

function answerOf(frame: Buffer): Answer {
  const header = new HeaderView();
  const bodyStart = decodeFrame(frame, 4, frame.length, header);
  const body = frame.subarray(bodyStart);
  return {
    code: header.code,
    opaque: header.opaque,
    isResponse: (header.flag & 1) === 1,
    ext: header.toObject(),
    remark: header.remark,
    body: body.length === 0 ? undefined : withSortedLists(parseJson(body)),
  };
}

/** Java's lists are in the order of its hash tables. */
function withSortedLists(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(withSortedLists).sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, withSortedLists(field)]));
}

interface Harness {
  nameServer: NameServer;
  clock: FakeClock;
  logger: CollectingLogger;
}

async function withNameServer(
  run: (harness: Harness) => Promise<void>,
  config: NameServerOptions['config'] = {},
): Promise<void> {
  const clock = new FakeClock();
  const logger = new CollectingLogger();
  const deps = { fs: new MemoryFileSystem(), clock, logger };
  const nameServer = await NameServer.start({ host: '127.0.0.1', port: 0, kvConfigPath: '/kv.json', config, deps });
  try {
    await run({ nameServer, clock, logger });
  } finally {
    await nameServer.stop();
  }
}

function recorded(name: string): Recorded[] {
  const text = readFileSync(`${FIXTURES}${name}.jsonl`, 'utf8');
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Recorded);
}

/** Sends the client's frames of a scenario one by one and compares each answer with the recorded one. */
async function replay(port: number, frames: Recorded[], clients: Map<string, RawClient>): Promise<number> {
  let compared = 0;
  for (const request of frames) {
    if (request.from !== 'client') continue;
    const key = `${request.link} ${request.conn}`;
    const client = clients.get(key) ?? (await RawClient.connect(port));
    clients.set(key, client);
    client.write(Buffer.from(request.frame, 'base64'));
    const ours = answerOf(await client.frame());
    const theirs = frames.find(
      (frame) =>
        frame.from === 'server' &&
        frame.link === request.link &&
        frame.conn === request.conn &&
        frame.opaque === request.opaque,
    );
    assert.ok(theirs, 'the recording has the answer');
    assert.deepEqual(ours, answerOf(Buffer.from(theirs.frame, 'base64')), `${request.requestCode} of ${key}`);
    compared++;
  }
  return compared;
}

test('golden frames with JSON headers: registration, new topics, administration and shutdown are answered as by Java', async () => {
  await withNameServer(async ({ nameServer }) => {
    const clients = new Map<string, RawClient>();
    const counts: number[] = [];
    for (const scenario of ['broker-register', 'topic-create']) {
      counts.push(await replay(nameServer.port, recorded(`json-${scenario}`), clients));
    }
    const admin = recorded('json-admin');
    // The recording leaves out most periodic registrations; the one in its middle has all topics that are asked for before.
    const whole = admin.filter((frame) => frame.requestCode === RequestCode.REGISTER_BROKER);
    counts.push(await replay(nameServer.port, [...whole, ...admin], clients));
    counts.push(await replay(nameServer.port, recorded('json-broker-shutdown'), clients));
    assert.deepEqual(counts, [1, 7, 24, 2]);
    for (const client of clients.values()) client.end();
  });
});

test('golden frames with binary headers: registration, new topics and shutdown are answered as by Java', async () => {
  await withNameServer(async ({ nameServer }) => {
    const clients = new Map<string, RawClient>();
    const counts: number[] = [];
    for (const scenario of ['broker-register', 'topic-create', 'broker-shutdown']) {
      counts.push(await replay(nameServer.port, recorded(`binary-${scenario}`), clients));
    }
    assert.deepEqual(counts, [1, 9, 2]);
    for (const client of clients.values()) client.end();
  });
});

const BROKER = {
  clusterName: 'C',
  brokerName: 'a',
  brokerAddr: '10.0.0.1:1',
  brokerId: '0',
  haServerAddr: '10.0.0.1:2',
};
const TOPICS = JSON.stringify({
  topicConfigSerializeWrapper: {
    dataVersion: { counter: 1, stateVersion: 0, timestamp: 1 },
    topicConfigTable: { T: { topicName: 'T' }, U: { topicName: 'U' } },
  },
});

test('bad requests get their code, and the connection that they came over goes on working', async () => {
  await withNameServer(async ({ nameServer }) => {
    const client = await RawClient.connect(nameServer.port);
    const { REGISTER_BROKER, QUERY_DATA_VERSION, BROKER_HEARTBEAT, UNREGISTER_BROKER } = RequestCode;
    const { brokerName: _gone, ...nameless } = BROKER;
    for (const [code, ext, body, expected, remark] of [
      [REGISTER_BROKER, { ...BROKER, bodyCrc32: '1' }, TOPICS, ResponseCode.SYSTEM_ERROR, /^crc32 not match$/],
      [REGISTER_BROKER, BROKER, '{"topicConfig', ResponseCode.SYSTEM_ERROR, /^Failed to decode RegisterBrokerBody/],
      [REGISTER_BROKER, { ...BROKER, compressed: 'true' }, TOPICS, ResponseCode.SYSTEM_ERROR, /RegisterBrokerBody/],
      [REGISTER_BROKER, nameless, TOPICS, ResponseCode.SYSTEM_ERROR, /brokerName/],
      [REGISTER_BROKER, { ...BROKER, brokerId: 'x' }, TOPICS, ResponseCode.SYSTEM_ERROR, /brokerId/],
      [REGISTER_BROKER, {}, TOPICS, ResponseCode.SYSTEM_ERROR, /clusterName/],
      [QUERY_DATA_VERSION, BROKER, '{', ResponseCode.SYSTEM_ERROR, /DataVersion/],
      [BROKER_HEARTBEAT, {}, '', ResponseCode.SYSTEM_ERROR, /clusterName/],
      [UNREGISTER_BROKER, nameless, '', ResponseCode.SYSTEM_ERROR, /brokerName/],
      [4711, {}, '', ResponseCode.REQUEST_CODE_NOT_SUPPORTED, /^ request type 4711 not supported$/],
      [105, { topic: 'X' }, '', ResponseCode.TOPIC_NOT_EXIST, /for the topic: X\nSee https:/],
    ] as const) {
      const answer = await client.ask(code, ext, body);
      assert.equal(answer.code, expected, `${code} ${JSON.stringify(ext)}`);
      assert.match(answer.remark ?? '', remark);
    }
    assert.equal((await client.ask(REGISTER_BROKER, BROKER, TOPICS)).code, ResponseCode.SUCCESS);
    assert.equal((await client.ask(105, { topic: 'T' })).code, ResponseCode.SUCCESS);
    client.end();
  });
});

test('a broker whose connection ends is gone from routes; one that only falls silent when its time is over', async () => {
  await withNameServer(async ({ nameServer, clock }) => {
    const asker = await RawClient.connect(nameServer.port);
    const route = async (): Promise<number> => (await asker.ask(105, { topic: 'T' })).code;
    const first = await RawClient.connect(nameServer.port);
    await first.ask(103, BROKER, TOPICS);
    assert.equal(await route(), 0);
    first.end();
    for (let i = 0; i < 100 && (await route()) === 0; i++);
    assert.equal(await route(), 17);

    const second = await RawClient.connect(nameServer.port);
    await second.ask(103, { ...BROKER, heartbeatTimeoutMillis: '20000' }, TOPICS);
    clock.advance(5_000);
    clock.advance(15_000);
    assert.equal(await route(), 0);
    clock.advance(5_000);
    assert.equal(await route(), 17);
    for (let i = 0; i < 100 && !second.closed; i++) await asker.ask(106, {});
    assert.equal(second.closed, true);
    asker.end();
  });
});

test('the scan goes by scanNotActiveBrokerInterval, after 5 s', async () => {
  const config = { scanNotActiveBrokerInterval: 1_000 };
  await withNameServer(async ({ nameServer, clock }) => {
    const client = await RawClient.connect(nameServer.port);
    await client.ask(103, { ...BROKER, heartbeatTimeoutMillis: '5500' }, TOPICS);
    const asker = await RawClient.connect(nameServer.port);
    clock.advance(5_999);
    assert.equal((await asker.ask(105, { topic: 'T' })).code, 0);
    clock.advance(1);
    assert.equal((await asker.ask(105, { topic: 'T' })).code, 17);
    asker.end();
    client.end();
  }, config);
});

test('a new smallest broker id is told to the others over the wire', async () => {
  const heard: Array<Record<string, string>> = [];
  const clock = new FakeClock();
  const logger = new CollectingLogger();
  const broker = new RemotingServer({ clock, logger });
  const told = new Promise<void>((resolve) => {
    broker.register(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, (request) => {
      heard.push(request.header.toObject());
      assert.equal(request.oneway, true);
      resolve();
    });
  });
  const brokerPort = await broker.listen('127.0.0.1', 0);
  await withNameServer(
    async ({ nameServer }) => {
      const client = await RawClient.connect(nameServer.port);
      const acting = { ...BROKER, enableActingMaster: 'true' };
      await client.ask(103, { ...acting, brokerId: '2', brokerAddr: `127.0.0.1:${brokerPort}` }, TOPICS);
      await client.ask(103, { ...acting, brokerId: '1', brokerAddr: '10.0.0.2:1' }, TOPICS);
      await told;
      assert.deepEqual(heard, [{ minBrokerId: '1', minBrokerAddr: '10.0.0.2:1', haBrokerAddr: '10.0.0.1:2' }]);
      client.end();
    },
    { notifyMinBrokerIdChanged: true },
  );
  await broker.close();
});

test('a taken port is one clear error', async () => {
  await withNameServer(async ({ nameServer, clock, logger }) => {
    const deps = { fs: new MemoryFileSystem(), clock, logger };
    await assert.rejects(
      NameServer.start({ host: '127.0.0.1', port: nameServer.port, kvConfigPath: '/kv.json', deps }),
      (error) => error instanceof GantryError && error.code === 'PORT_TAKEN',
    );
  });
});

test('a stop ends the connections, may be called twice, and says nothing of brokers that are gone', async () => {
  await withNameServer(async ({ nameServer, clock, logger }) => {
    const client = new RemotingClient({ clock, logger });
    const body = Buffer.from(TOPICS);
    await client.invoke(nameServer.address, RequestCode.REGISTER_BROKER, BROKER, body, 3000);
    const closed = new Promise<void>((resolve) => client.onDisconnect(() => resolve()));
    await Promise.all([nameServer.stop(), nameServer.stop(), closed]);
    assert.deepEqual(
      logger.texts('warn').filter((line) => line.includes('removed')),
      [],
    );
    await client.close();
  });
});
