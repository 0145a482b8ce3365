// A day of a Java 5.5.0 broker: what Java clients and mqadmin asked it, in order, and what it answered (recorded on the wire). The same
// requests go to our processors; answers must be equal field by field, but for what is named below.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { FakeClock, viewOf } from '../common/index.ts';
import { BatchMember, decodeMessages, parseProperties, parsePropertyBytes, readBatchMember } from '../message/index.ts';
import { type JsonValue, parseJson, RequestCode } from '../remoting/index.ts';
import { type Answer, BrokerFixture, FakeChannel, messageWith } from './broker-fixture.test.support.ts';
import { applyDelayLevel } from './internal-put.ts';
import { registerProcessors } from './processor/register.ts';

const root = import.meta.dirname.replace(/\/(dist|\.build\/[^/]+)\/src\/.*$/, '');
const FIXTURE = `${root}/test/fixtures/broker-frames/java-5.5.0-exchanges.jsonl`;

interface Body {
  text?: string;
  base64?: string;
}

interface Exchange {
  /** Ms since the epoch. */
  t: number;
  scenario: string;
  conn: number;
  code: number;
  version: number;
  language: string;
  ext: Record<string, string>;
  body: Body;
  answer?: { code: number; remark: string | null; ext: Record<string, string> | null; body: Body };
  /** Code of a question of the broker; then `answer` is the client's. */
  clientAnswer?: number;
}

const bytesOf = (body: Body): Buffer =>
  body.base64 === undefined ? Buffer.from(body.text ?? '') : Buffer.from(body.base64, 'base64');

/** Our physical offset of a message that the Java broker stored at another. */
type Places = Map<number, number>;

/** Sends are other processors' work; here they only fill the store. */
async function send(broker: BrokerFixture, exchange: Exchange, places: Places): Promise<void> {
  const { ext, answer } = exchange;
  if (answer !== undefined && answer.code !== 0) return;
  // Of the two timed messages one was recalled and one delivered, after a moment.
  if (ext['i']?.includes('TIMER_DELAY_MS\u000160000')) return;
  const topic = ext['b'] ?? ext['topic'] ?? '';
  const queueId = Number(ext['e'] ?? ext['queueId']);
  broker.context.topics.createInSend(topic, 'TBW102', 'test', 4, 0);
  broker.context.topics.persistIfChanged();
  const ids = (answer?.ext?.['msgId'] ?? '').split(',');
  for (const [index, member] of membersOf(exchange).entries()) {
    const message = messageWith({
      topic,
      queueId,
      sysFlag: Number(ext['f'] ?? ext['sysFlag'] ?? 0) & ~4,
      bornTimestamp: Number(ext['g'] ?? ext['bornTimestamp']),
      ...member,
    });
    applyDelayLevel(message, broker.context.schedule.maxDelayLevel);
    const result = await broker.put(message);
    places.set(Number.parseInt(ids[index]?.slice(16) ?? '', 16), result.wroteOffset);
  }
}

/** The messages of a send: one, with what the broker adds to its properties, or those of a batch as they are. */
function membersOf(exchange: Exchange): Array<{ body: Uint8Array; properties: Map<string, string> }> {
  const body = bytesOf(exchange.body);
  if (exchange.code !== RequestCode.SEND_BATCH_MESSAGE) {
    const properties = parseProperties(exchange.ext['i'] ?? exchange.ext['properties'] ?? '');
    for (const [name, value] of Object.entries({ MSG_REGION: 'DefaultRegion', TRACE_ON: 'false' })) {
      properties.set(name, value);
    }
    return [{ body, properties: properties.set('CLUSTER', 'GoldenCluster') }];
  }
  const members = [];
  const member = new BatchMember();
  for (let at = 0; at < body.length; at = member.end) {
    assert.equal(readBatchMember(viewOf(body), at, body.length, member), undefined);
    members.push({
      body: body.subarray(member.bodyStart, member.bodyEnd),
      properties: parsePropertyBytes(body, member.propertiesStart, member.propertiesEnd),
    });
  }
  return members;
}

const SENDS: ReadonlySet<number> = new Set([
  RequestCode.SEND_MESSAGE,
  RequestCode.SEND_MESSAGE_V2,
  RequestCode.SEND_BATCH_MESSAGE,
]);

interface Difference {
  where: string;
  java: unknown;
  ours: unknown;
}

/** What differs, and is meant to or cannot be otherwise here; all else fails the test. */
const EXPLAINED: ReadonlyArray<{ why: string; code?: number; where: RegExp }> = [
  { why: 'the texts of the JSON parsers differ', code: 34, where: /^remark$/ },
  { why: 'records lie elsewhere, since not all sends were recorded', where: /[pP]hy(sicO|o)ffset$/ },
  { why: 'nothing is pulled or popped here', where: /consumeTps$|pullOffset$/ },
  { why: 'ours counts what is really in flight, and no pop group', code: 317, where: /total(Inflight)?Diff$/ },
  { why: 'transactions and pop are other parts', where: /GID_fpop|CID_RMQ_SYS_(TRANS|REVIVE)/ },
  { why: 'the pop retry topic is missing from the count', code: 21, where: /totalTopicNum$/ },
  { why: 'later heartbeats were left out of the recording', code: 203, where: /subVersion$/ },
  { why: 'statistics by topic and group are not kept', code: 315, where: /./ },
  { why: 'counts, rates and sizes; the names are compared below', code: 28, where: /^body\.table/ },
];

/** Lines of the runtime information that would say something about parts that a Java broker has. */
const NOT_OURS = /ThreadPoolQueueCapacity$|^EndTransaction|^putLatency|Distribute|^commitLogDirCapacity|ratio_|Ratio_/;

/** Values that differ from run to run. */
const VARIES = /time|stamp|counter|^version$|clientAddr|remoteIP|brokerAddr/i;

/** The offsets of groups that pop or end transactions, which nobody does here. */
const OTHER_PARTS = new Set(['GID_fpop', 'CID_RMQ_SYS_TRANS', 'CID_RMQ_SYS_REVIVE_GROUP', '%RETRY%GID_fpop_FramePop']);

function isExplained(exchange: Exchange, difference: Difference): boolean {
  if (Object.values(exchange.ext).some((value) => OTHER_PARTS.has(value))) return true;
  if (exchange.code === 300 && (difference.java as string[]).every((group) => OTHER_PARTS.has(group))) return true;
  return EXPLAINED.some(
    ({ code, where }) => (code === undefined || code === exchange.code) && where.test(difference.where),
  );
}

function compareJson(java: JsonValue, ours: JsonValue, where: string, found: Difference[]): void {
  if (java instanceof Map && ours instanceof Map) {
    compareJson(byText(java), byText(ours), where, found);
  } else if (Array.isArray(java) && Array.isArray(ours)) {
    const sorted = (list: JsonValue[]): JsonValue[] => [...list].sort((a, b) => (textOf(a) < textOf(b) ? -1 : 1));
    const [a, b] = [sorted(java), sorted(ours)];
    if (a.length !== b.length) found.push({ where, java, ours });
    else for (const [i, value] of a.entries()) compareJson(value, b[i]!, `${where}[${i}]`, found);
  } else if (isObject(java) && isObject(ours)) {
    for (const key of new Set([...Object.keys(java), ...Object.keys(ours)])) {
      const [a, b] = [java[key], ours[key]];
      if (a === undefined || b === undefined) found.push({ where: `${where}.${key}`, java: a, ours: b });
      else if (!(VARIES.test(key) && typeof a === typeof b && typeof a !== 'object')) {
        compareJson(a, b, `${where}.${key}`, found);
      }
    }
  } else if (java !== ours) {
    found.push({ where, java, ours });
  }
}

function isObject(value: JsonValue): value is { [key: string]: JsonValue } {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Map);
}

function textOf(value: JsonValue): string {
  return JSON.stringify(value, (_key, inner) => (inner instanceof Map ? byText(inner) : inner));
}

function byText(map: Map<JsonValue, JsonValue>): { [key: string]: JsonValue } {
  return Object.fromEntries([...map].map(([key, value]) => [JSON.stringify(key), value]));
}

/** What stays of messages when places and times are left out. */
function essence(bytes: Uint8Array): object[] {
  return decodeMessages(bytes).map((message) => ({
    topic: message.topic,
    queueId: message.queueId,
    body: Buffer.from(message.body).toString('hex'),
    properties: Object.fromEntries(message.properties),
    bornTimestamp: message.bornTimestamp,
    storeHost: message.storeHost,
  }));
}

function compare(exchange: Exchange, ours: Answer): Difference[] {
  const java = exchange.answer!;
  const found: Difference[] = [];
  if (java.code !== ours.code) found.push({ where: 'code', java: java.code, ours: ours.code });
  if (java.remark !== ours.remark) found.push({ where: 'remark', java: java.remark, ours: ours.remark });
  compareJson(java.ext ?? {}, ours.ext, 'ext', found);
  const javaBody = bytesOf(java.body);
  if (java.body.base64 !== undefined) {
    const [a, b] = [essence(javaBody), essence(ours.body)];
    if (JSON.stringify(a) !== JSON.stringify(b)) found.push({ where: 'messages', java: a, ours: b });
  } else if (javaBody.length === 0 || ours.body.length === 0) {
    if (javaBody.length !== ours.body.length) {
      found.push({ where: 'body', java: javaBody.toString(), ours: Buffer.from(ours.body).toString() });
    }
  } else if (javaBody[0] === 0x7b) {
    compareJson(parseJson(javaBody), parseJson(ours.body), 'body', found);
  }
  return found;
}

const exchanges: Exchange[] = readFileSync(FIXTURE, 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Exchange);

/** Lets the time pass until `t`, with whatever falls due meanwhile. */
async function passTime(clock: FakeClock, t: number): Promise<void> {
  while (clock.now() < t) {
    clock.advance(Math.min(250, t - clock.now()));
    for (let turn = 0; turn < 4; turn++) await setImmediate();
  }
}

test('recorded requests of Java clients and mqadmin are answered as a Java broker answered them', async () => {
  const clock = new FakeClock(exchanges.find((exchange) => exchange.t !== undefined)!.t);
  const broker = await BrokerFixture.open({
    clock,
    broker: {
      enablePropertyFilter: true,
      brokerClusterName: 'GoldenCluster',
      brokerName: 'golden-a',
      brokerIP1: '127.0.0.2',
      listenPort: 30911,
      reviveQueueNum: 1,
      traceOn: false,
      defaultTopicQueueNums: 4,
    },
  });
  registerProcessors(broker, broker.context);
  broker.context.schedule.start();
  const channels = new Map<string, FakeChannel>();
  const clientAnswers = new Map<string, Exchange>();
  const places: Places = new Map();
  const differences: string[] = [];
  let compared = 0;
  for (const exchange of exchanges) {
    const key = `${exchange.scenario}/${exchange.conn}`;
    if (exchange.clientAnswer !== undefined) {
      clientAnswers.set(key, exchange);
      continue;
    }
    await passTime(clock, exchange.t);
    const channel = channels.get(key) ?? new FakeChannel(40_000 + channels.size);
    channels.set(key, channel);
    channel.version = exchange.version;
    const told = clientAnswers.get(key)?.answer;
    if (told !== undefined) {
      channel.answer = () =>
        Promise.resolve({
          code: told.code,
          remark: told.remark ?? undefined,
          ext: told.ext ?? {},
          body: bytesOf(told.body),
          version: 513,
        });
    }
    if (SENDS.has(exchange.code)) {
      await send(broker, exchange, places);
      continue;
    }
    const ext = { ...exchange.ext };
    const place = places.get(Number(ext['offset']));
    if (exchange.code === RequestCode.VIEW_MESSAGE_BY_ID && place !== undefined) ext['offset'] = String(place);
    const ours = await broker.ask(exchange.code, ext, bytesOf(exchange.body), channel);
    if (exchange.answer === undefined) continue;
    compared++;
    for (const difference of compare(exchange, ours)) {
      if (isExplained(exchange, difference)) continue;
      const { where, java, ours: our } = difference;
      differences.push(
        `${exchange.scenario} ${exchange.code} ${JSON.stringify(exchange.ext)} ${where}: java ${JSON.stringify(java)}, ours ${JSON.stringify(our)}`,
      );
    }
  }
  broker.context.schedule.stop();
  await broker.context.store.close();
  assert.equal(differences.join('\n'), '');
  assert.ok(compared > 250);
});

test('the runtime information has the lines that tools look for', async () => {
  const broker = await BrokerFixture.open();
  registerProcessors(broker, broker.context);
  const java = exchanges.find((exchange) => exchange.code === RequestCode.GET_BROKER_RUNTIME_INFO)!.answer!.body.text!;
  const answer = await broker.ask(RequestCode.GET_BROKER_RUNTIME_INFO);
  const names = (text: string): string[] => Object.keys((parseJson(text) as { table: object }).table);
  const ours = new Set(names(Buffer.from(answer.body).toString()));
  const missing = names(java).filter((name) => !ours.has(name) && !NOT_OURS.test(name));
  // An empty store has no earliest message and no delayed ones.
  assert.deepEqual(missing.sort(), ['earliestMessageTimeStamp', 'scheduleMessageOffset_1']);
  await broker.context.store.close();
});
