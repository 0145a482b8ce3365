// Requests with the answers that a Java 5.5.0 name server gave to them, one after the other over one connection
// (test/fixtures/namesrv-frames/java-5.5.0-answers*.json). Ours must be equal, field by field, but for what is listed here.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { readNamesrvSettings } from '../common/config/index.ts';
import { CollectingLogger, FakeClock, GantryError } from '../common/index.ts';
import { MemoryFileSystem } from '../io/index.ts';
import { type Channel, type ExtFields, HeaderView, parseJson, type Request, SlabPool } from '../remoting/index.ts';
import { KvConfig } from './kv-config.ts';
import { NamesrvSettings } from './namesrv-config.ts';
import { NamesrvProcessor } from './processor.ts';
import { RouteInfo } from './route-info.ts';

interface Answer {
  code: number;
  remark?: string;
  ext?: Record<string, string>;
  body?: string;
}

interface Row {
  name: string;
  request: { code: number; version: number; ext?: Record<string, string>; body?: string; bodyBase64?: string };
  answer: Answer;
}

const FIXTURES = 'test/fixtures/namesrv-frames/';

class FakeChannel implements Channel {
  static #next = 1;
  readonly id: number = FakeChannel.#next++;
  readonly remoteAddress = '127.0.0.1:5555';
  readonly remoteHost: Uint8Array = new Uint8Array(8);
  readonly localAddress = '127.0.0.1:9876';
  isOpen = true;
  language = 'JAVA';
  version = 513;
  readonly slabs: SlabPool = new SlabPool(0);
  closedFor: string | undefined;
  #listeners: Array<() => void> = [];

  readonly inFlight = 0;
  readonly unsentBytes = 0;
  sendOneway(): void {}
  send(): void {}
  drop(): void {}
  holdInput(): void {}
  resumeInput(): void {}
  request(): void {}
  invoke(): never {
    throw new Error('not in this test');
  }
  close(reason: string): void {
    this.isOpen = false;
    this.closedFor = reason;
    for (const listener of this.#listeners.splice(0)) listener();
  }
  onClose(fn: () => void): void {
    this.#listeners.push(fn);
  }
}

interface Harness {
  fs: MemoryFileSystem;
  clock: FakeClock;
  logger: CollectingLogger;
  processor: NamesrvProcessor;
  told: Array<[string, ExtFields]>;
  ask(request: Row['request'], channel?: Channel): Answer;
}

function harness(config: Record<string, string> = {}): Harness {
  const clock = new FakeClock();
  const logger = new CollectingLogger();
  const fs = new MemoryFileSystem();
  const overrides = Object.entries(config).map(([key, value]) => ({ key, value, from: 'the test' }));
  const settings = new NamesrvSettings(readNamesrvSettings({ overrides }), fs, logger);
  const told: Array<[string, ExtFields]> = [];
  const processor = new NamesrvProcessor({
    routes: new RouteInfo(settings.config),
    kvConfig: KvConfig.open('/kv.json', { fs, logger }),
    settings,
    clock,
    logger,
    notifyBroker: (address, ext) => told.push([address, ext]),
  });
  const connection = new FakeChannel();
  return {
    fs,
    clock,
    logger,
    processor,
    told,
    ask: (request, channel = connection) => ask(processor, request, channel),
  };
}

function ask(
  processor: NamesrvProcessor,
  { code, version, ext, body, bodyBase64 }: Row['request'],
  channel: Channel,
): Answer {
  const header = new HeaderView();
  header.reset(Buffer.alloc(0));
  header.code = code;
  header.version = version;
  header.count = -1;
  header.parsed = ext ?? {};
  const bytes = bodyBase64 === undefined ? Buffer.from(body ?? '') : Buffer.from(bodyBase64, 'base64');
  // The body lies in the middle of a chunk, as it does on a socket.
  const buffer = Buffer.concat([Buffer.from('before'), bytes, Buffer.from('behind')]);
  let answer: Answer | undefined;
  const request: Request = {
    channel,
    opaque: 7,
    code,
    oneway: false,
    header,
    buffer,
    bodyStart: 6,
    bodyEnd: 6 + bytes.length,
    bodyCopy: () => Uint8Array.prototype.slice.call(bytes),
    keepBody: () => assert.fail('answered at once'),
    defer: () => assert.fail('answered at once'),
    hold: () => assert.fail('answered at once'),
    begin: () => assert.fail('answered by respond'),
    takeOver: () => assert.fail('answered at once'),
    respond(responseCode, remark, extFields, responseBody) {
      assert.equal(answer, undefined, 'answered once');
      answer = { code: responseCode };
      if (remark) answer.remark = remark.split('\n')[0]!;
      const fields = Object.entries(extFields ?? {}).filter(([, value]) => value !== undefined && value !== null);
      if (fields.length > 0) answer.ext = Object.fromEntries(fields.map(([key, value]) => [key, String(value)]));
      if (responseBody && responseBody.length > 0) answer.body = Buffer.from(responseBody).toString('utf8');
    },
  };
  try {
    processor.handle(request);
  } catch (error) {
    if (!(error instanceof GantryError)) throw error;
    return { code: error.responseCode ?? 1, remark: error.message };
  }
  assert.ok(answer, 'answered');
  return answer;
}

/** What we answer otherwise, by the name of the request, and why. */
const DIFFERENT: Record<string, { code: number; remark?: RegExp; body?: RegExp; why: string }> = {
  '106 after bad': { code: 0, body: /"w2":/, why: 'a refused broker leaves no entry without addresses' },
  '217 notopic': { code: 1, remark: /topic/, why: 'nothing is registered without a topic' },
  '216 none': { code: 1, remark: /topic/, why: 'nothing is deleted without a topic' },
  '318 badval': { code: 1, remark: /enableTopicList=maybe/, why: 'B68: bad values are refused' },
  '224 after': { code: 0, why: 'since the bad value before was refused' },
  '318 badnum': { code: 1, remark: /waitSecondsForService=abc/, why: 'B68: bad values are refused' },
  '318 unknown': { code: 1, remark: /foo/, why: 'B68: unknown keys are refused' },
  '104 none': { code: 1, remark: /clusterName/, why: 'nobody is unregistered' },
  'reg no brokerAddr': { code: 1, remark: /brokerAddr/, why: 'nothing is registered, or half of it' },
  'reg no cluster': { code: 1, remark: /clusterName/, why: 'nothing is registered' },
  'reg no brokerName': { code: 1, remark: /brokerName/, why: 'nothing is registered, or half of it' },
};

/** A body that is compared as JSON, with lists in any order where Java's order is that of a hash table. */
function comparable(name: string, body: string | undefined): unknown {
  if (body === undefined) return undefined;
  if (name === '319') {
    const keys = ['configBlackList', 'enableTopicList', 'scanNotActiveBrokerInterval', 'orderMessageEnable'];
    return body.split('\n').filter((line) => keys.includes(line.slice(0, line.indexOf('='))));
  }
  return sorted(parseJson(body));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(sorted).sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, sorted(field)]));
}

/** Sends the requests of a fixture one after the other, and compares; how many there were. */
function compareAll(file: string, { ask: send, logger }: Harness, differences: typeof DIFFERENT): number {
  const rows = JSON.parse(readFileSync(`${FIXTURES}${file}`, 'utf8')) as Row[];
  const unused = new Set(Object.keys(differences));
  for (const { name, request, answer } of rows) {
    const ours = send(request);
    const different = differences[name];
    if (different !== undefined) {
      unused.delete(name);
      assert.equal(ours.code, different.code, name);
      assert.notDeepEqual(ours, answer, `${name} is no difference`);
      if (different.remark !== undefined) assert.match(ours.remark ?? '', different.remark, name);
      if (different.body !== undefined) assert.match(ours.body ?? '', different.body, name);
      continue;
    }
    assert.equal(ours.code, answer.code, `${name}: ${ours.remark}`);
    // The text of an exception is Java's own affair.
    if (answer.remark?.match(/Exception/)) assert.ok(ours.remark, name);
    else assert.equal(ours.remark, answer.remark, name);
    assert.deepEqual(ours.ext, answer.ext, name);
    assert.deepEqual(comparable(name, ours.body), comparable(name, answer.body), name);
  }
  assert.deepEqual([...unused], []);
  assert.deepEqual(logger.texts('error'), []);
  return rows.length;
}

test("the answers to a Java name server's requests are Java's, field by field", () => {
  assert.equal(compareAll('java-5.5.0-answers.json', harness(), DIFFERENT), 147);
});

test('so they are with acting masters, ordered topics in routes and topics deleted by registration', () => {
  const config = {
    supportActingMaster: 'true',
    deleteTopicWithBrokerRegistration: 'true',
    orderMessageEnable: 'true',
    returnOrderTopicConfigToBroker: 'false',
  };
  assert.equal(compareAll('java-5.5.0-answers-acting-master.json', harness(config), {}), 38);
});

const TWO_TOPICS = JSON.stringify({
  topicConfigSerializeWrapper: {
    dataVersion: { counter: 1, stateVersion: 0, timestamp: 1 },
    topicConfigTable: { T: { topicName: 'T' }, U: { topicName: 'U' } },
  },
});

function register(change: Record<string, string> = {}): Row['request'] {
  const ext = { clusterName: 'C', brokerName: 'a', brokerAddr: '10.0.0.1:1', brokerId: '0', ...change };
  return { code: 103, version: 513, ext, body: TWO_TOPICS };
}

function route(topic: string): Row['request'] {
  return { code: 105, version: 513, ext: { topic } };
}

test('until waitSecondsForService are over no route is answered, if needWaitForService', () => {
  const { ask: send, clock } = harness({ needWaitForService: 'true', waitSecondsForService: '45' });
  send(register());
  clock.advance(44_999);
  assert.deepEqual(send(route('T')), { code: 1, remark: 'name server not ready' });
  assert.equal(send({ code: 106, version: 513 }).code, 0);
  clock.advance(1);
  assert.equal(send(route('T')).code, 0);
});

test('a broker is removed when its connection ends, with one line that says so', () => {
  const { ask: send, logger } = harness();
  const channel = new FakeChannel();
  send(register(), channel);
  send(register(), channel);
  channel.close('gone');
  assert.equal(send(route('T')).code, 17);
  assert.equal(logger.texts('warn').filter((line) => line.includes('10.0.0.1:1')).length, 1);
});

test('a broker that went silent is removed by the scan, and its connection closed', () => {
  const { ask: send, clock, processor } = harness();
  const channel = new FakeChannel();
  send(register({ heartbeatTimeoutMillis: '1000' }), channel);
  clock.advance(1000);
  processor.scanNotActiveBrokers();
  assert.equal(channel.isOpen, true);
  clock.advance(1);
  processor.scanNotActiveBrokers();
  assert.equal(channel.isOpen, false);
  assert.equal(send(route('T')).code, 17);
});

test('BROKER_HEARTBEAT and QUERY_DATA_VERSION count as signs of life', () => {
  for (const code of [904, 322]) {
    const { ask: send, clock, processor } = harness();
    const channel = new FakeChannel();
    send(register({ heartbeatTimeoutMillis: '1000' }), channel);
    clock.advance(900);
    send({ code, version: 513, ext: { clusterName: 'C', brokerName: 'a', brokerAddr: '10.0.0.1:1', brokerId: '0' } });
    clock.advance(900);
    processor.scanNotActiveBrokers();
    assert.equal(channel.isOpen, true, `${code}`);
  }
});

test('without returnOrderTopicConfigToBroker a registration is answered without the table', () => {
  const put = { code: 100, version: 513, ext: { namespace: 'ORDER_TOPIC_CONFIG', key: 'T', value: 'a:4' } };
  const yes = harness();
  yes.ask(put);
  assert.equal(yes.ask(register()).body, '{"table":{"T":"a:4"}}');
  const no = harness({ returnOrderTopicConfigToBroker: 'false' });
  no.ask(put);
  assert.equal(no.ask(register()).body, undefined);
});

test('with notifyMinBrokerIdChanged the others of a group hear of a new smallest id, and of one that is gone', () => {
  const slave = { brokerId: '1', brokerAddr: '10.0.0.2:1', enableActingMaster: 'true', haServerAddr: '10.0.0.2:2' };
  const second = { brokerId: '2', brokerAddr: '10.0.0.3:1', enableActingMaster: 'true' };
  const { ask: send, told } = harness({ notifyMinBrokerIdChanged: 'true' });
  send(register(second));
  send(register(slave));
  assert.deepEqual(told.splice(0), [
    [
      '10.0.0.3:1',
      { minBrokerId: 1, minBrokerAddr: '10.0.0.2:1', offlineBrokerAddr: undefined, haBrokerAddr: '10.0.0.2:2' },
    ],
  ]);
  send({
    code: 104,
    version: 513,
    ext: { clusterName: 'C', brokerName: 'a', brokerAddr: '10.0.0.2:1', brokerId: '1' },
  });
  assert.deepEqual(told.splice(0), [
    [
      '10.0.0.3:1',
      { minBrokerId: 2, minBrokerAddr: '10.0.0.3:1', offlineBrokerAddr: '10.0.0.2:1', haBrokerAddr: undefined },
    ],
  ]);
  const quiet = harness();
  quiet.ask(register(second));
  quiet.ask(register(slave));
  assert.deepEqual(quiet.told, []);
});

test('a KV value that cannot be saved is answered with the reason, and is not there', () => {
  const { ask: send, fs } = harness();
  fs.fail({ operation: 'write', path: 'kv.json', code: 'DISK_FULL' });
  const put = { code: 100, version: 513, ext: { namespace: 'n', key: 'k', value: 'v' } };
  const answer = send(put);
  assert.equal(answer.code, 1);
  assert.match(answer.remark ?? '', /no space/);
  assert.equal(send({ code: 101, version: 513, ext: { namespace: 'n', key: 'k' } }).code, 22);
  assert.equal(send(put).code, 0);
});

test('a body that would hold up the loop while it is parsed is refused with its size and the limit', () => {
  const { ask } = harness();
  const mib = 1024 * 1024;
  // REGISTER_BROKER, REGISTER_TOPIC_IN_NAMESRV, QUERY_DATA_VERSION, UPDATE_NAMESRV_CONFIG.
  for (const [code, limit] of [
    [103, 8 * mib],
    [217, mib],
    [322, mib],
    [318, mib],
  ] as const) {
    const refused = ask({ code, version: 513, body: ' '.repeat(limit + 1) });
    const remark = `the body of request ${code} has ${limit + 1} bytes, the limit is ${limit}`;
    assert.deepEqual(refused, { code: 1, remark });
    assert.doesNotMatch(ask({ code, version: 513, body: ' '.repeat(limit) }).remark ?? '', /the limit is/);
  }
});

test('the table of a broker with 20,000 topics is far below the limit', () => {
  const { ask } = harness();
  const topicConfigTable: Record<string, object> = {};
  for (let i = 0; i < 20_000; i++) {
    const topicName = `a-topic-with-a-name-of-usual-length-${i}`;
    topicConfigTable[topicName] = { topicName, perm: 6, readQueueNums: 8, writeQueueNums: 8, topicSysFlag: 0 };
  }
  const body = JSON.stringify({
    topicConfigSerializeWrapper: { topicConfigTable, dataVersion: { counter: 1, stateVersion: 0, timestamp: 1 } },
  });
  assert.ok(body.length > 2_000_000 && body.length < 4_000_000, `${body.length} bytes`);
  const ext = { brokerName: 'b', brokerAddr: '127.0.0.1:10911', clusterName: 'c', brokerId: '0' };
  assert.equal(ask({ code: 103, version: 513, ext, body }).code, 0);
});
