// Requests that are well-formed and wrong, against a whole broker: each gets an answer that says what is wrong, and nothing of it stays.
// What Java 5.5.0 answered to the same bytes lies in test/fixtures/frames.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it, test } from 'node:test';
import { CollectingLogger } from '../../src/common/index.ts';
import { encodeBatch } from '../../src/message/index.ts';
import { RequestCode, ResponseCode } from '../../src/remoting/index.ts';
import { type StartBrokerOptions, startBroker, type TestBroker } from '../../src/testing/index.ts';
import {
  binaryRequest,
  type Fields,
  type Frame,
  frameOf,
  jsonRequest,
  ONEWAY,
  RESPONSE,
  sendFields,
  until,
  WirePeer,
} from './wire-peer.ts';

const root = import.meta.dirname.replace(/\/(dist|\.build\/[^/]+)\/test\/e2e$/, '');

interface Fixture {
  server: TestBroker;
  logger: CollectingLogger;
  peer: WirePeer;
  ask: (code: number, ext?: Fields, body?: Uint8Array | string) => Promise<Frame>;
}

async function withBroker(run: (fixture: Fixture) => Promise<void>, options: StartBrokerOptions = {}): Promise<void> {
  const logger = new CollectingLogger();
  const server = await startBroker({ logger, ...options });
  const peer = await WirePeer.open(server.address);
  let opaque = 1_000;
  const ask: Fixture['ask'] = (code, ext = {}, body = '') => peer.call(code, opaque++, ext, Buffer.from(body));
  try {
    await run({ server, logger, peer, ask });
    // Whatever it was: the connection lives, and so does the broker.
    assert.equal((await ask(RequestCode.GET_MAX_OFFSET, { topic: 'none', queueId: '0' })).code, 0);
    assert.deepEqual(logger.texts('error'), []);
  } finally {
    await peer.close();
    await server.stop();
  }
}

const send = (changes: Fields = {}): Fields => sendFields('Orders', changes);

function pull(topic: string, offset: number, changes: Fields = {}): Fields {
  const place = {
    consumerGroup: 'G',
    topic,
    queueId: '0',
    queueOffset: String(offset),
    maxMsgNums: '32',
    sysFlag: '4',
  };
  return { ...place, commitOffset: '0', suspendTimeoutMillis: '0', subVersion: '0', subscription: '*', ...changes };
}

const { SEND_MESSAGE_V2: SEND, SEND_BATCH_MESSAGE: SEND_BATCH, PULL_MESSAGE: PULL } = RequestCode;
const LIMITS =
  'the message is illegal, maybe msg body or properties length not matched. msg body length limit 4194304B, msg properties length limit 32KB.';

describe('illegal messages are refused with the code and the words of Java', () => {
  const cases: Array<[name: string, code: number, remark: string | RegExp, changes: Fields, body?: Uint8Array]> = [
    [
      'a topic with illegal characters',
      ResponseCode.INVALID_PARAMETER,
      'The specified topic: a/b, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$',
      { b: 'a/b' },
    ],
    ['a blank topic', ResponseCode.INVALID_PARAMETER, 'The specified topic is blank.', { b: ' ' }],
    ['a topic of NUL', ResponseCode.INVALID_PARAMETER, /contains illegal characters/, { b: 'a\u0000b' }],
    [
      'a topic with a property separator',
      ResponseCode.INVALID_PARAMETER,
      /contains illegal characters/,
      { b: 'a\u0001b' },
    ],
    [
      'a topic of 128',
      ResponseCode.INVALID_PARAMETER,
      `The specified topic: ${'t'.repeat(128)}, is longer than topic max length: 127`,
      { b: 't'.repeat(128) },
    ],
    [
      'a retry topic of 256',
      ResponseCode.INVALID_PARAMETER,
      `The specified topic is DLQ or Retry topic: %RETRY%${'t'.repeat(249)}, and it's longer than topic max length: 255`,
      { b: `%RETRY%${'t'.repeat(249)}` },
    ],
    [
      'a system topic',
      ResponseCode.NO_PERMISSION,
      'Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden.',
      { b: 'SCHEDULE_TOPIC_XXXX' },
    ],
    ['half messages by name', ResponseCode.NO_PERMISSION, /is forbidden/, { b: 'RMQ_SYS_TRANS_HALF_TOPIC' }],
    [
      'a queue that the topic has not',
      ResponseCode.INVALID_PARAMETER,
      /^request queueId\[4\] is illegal, TopicConfig \[topicName=Orders, readQueueNums=4, writeQueueNums=4, perm=RW-, topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, attributes=\{\}\] Producer: 127\.0\.0\.1:\d+$/,
      { e: '4' },
    ],
    ['B79: an empty body', ResponseCode.MESSAGE_ILLEGAL, 'the message body is empty', {}, Buffer.alloc(0)],
    [
      'a body beyond maxMessageSize',
      ResponseCode.MESSAGE_ILLEGAL,
      `${LIMITS} (the body has 4194305 bytes, the limit maxMessageSize is 4194304)`,
      {},
      Buffer.alloc(4_194_305),
    ],
    [
      'properties beyond 32767 bytes',
      ResponseCode.MESSAGE_ILLEGAL,
      `${LIMITS} (the properties have 33003 bytes, the limit is 32767)`,
      { i: `a\u0001${'v'.repeat(33_000)}\u0002` },
    ],
    [
      'properties that come to more than 32767 bytes with what the broker adds',
      ResponseCode.MESSAGE_ILLEGAL,
      /the properties have 32\d{3} bytes, the limit is 32767/,
      { i: `a\u0001${'v'.repeat(32_700)}\u0002` },
    ],
  ];
  for (const [name, code, remark, changes, body] of cases) {
    it(name, () =>
      withBroker(async ({ server, ask }) => {
        assert.equal((await ask(SEND, send(), 'good')).code, 0);
        const before = server.broker.context.store.watermarks.wrote;
        const answer = await ask(SEND, send(changes), body ?? 'x');
        assert.equal(answer.code, code);
        if (typeof remark === 'string') assert.equal(answer.remark, remark);
        else assert.match(answer.remark!, remark);
        assert.deepEqual(answer.ext, { MSG_REGION: 'DefaultRegion', TRACE_ON: 'true' });
        assert.equal(server.broker.context.store.watermarks.wrote, before, 'something was stored');
      }),
    );
  }

  it('a topic of 127 and a retry topic of 255 are taken', () =>
    withBroker(async ({ ask }) => {
      assert.equal((await ask(SEND, send({ b: 't'.repeat(127) }), 'x')).code, 0);
      const group = 'g'.repeat(120);
      await ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, JSON.stringify({ groupName: group }));
      assert.equal((await ask(SEND, send({ b: `%RETRY%${group}` }), 'x')).code, 0);
    }));

  it('with autoCreateTopicEnable=false the refusal names the setting and the command', () =>
    withBroker(
      async ({ ask }) => {
        const answer = await ask(SEND, send(), 'x');
        assert.equal(answer.code, ResponseCode.TOPIC_NOT_EXIST);
        assert.match(answer.remark!, /^topic\[Orders\] not exist, apply first please!/);
        assert.match(
          answer.remark!,
          /autoCreateTopicEnable is false; create it with mqadmin updateTopic -t Orders -c DefaultCluster/,
        );
      },
      { config: { autoCreateTopicEnable: false } },
    ));

  it('B11: property length wraps in batch encoding: the batch is refused whole', () =>
    withBroker(async ({ server, ask }) => {
      const member = (properties: string) => ({ flag: 0, body: Buffer.from('b'), properties: Buffer.from(properties) });
      const batch = encodeBatch([
        member('a\u00011\u0002'),
        member(`k\u0001${'v'.repeat(33_000)}\u0002`),
        member('a\u00013\u0002'),
      ]);
      const refused = await ask(SEND_BATCH, send({ m: 'true' }), batch);
      assert.equal(refused.code, ResponseCode.MESSAGE_ILLEGAL);
      assert.match(refused.remark!, /batch member 1: properties of 33003 bytes are beyond the limit of 32767/);
      const taken = await ask(SEND, send(), 'normal');
      assert.equal(taken.ext['queueOffset'], '0');
      const disk = await server.crash('kill');
      const again = await startBroker({ disk });
      const reader = await WirePeer.open(again.address);
      const found = await reader.call(PULL, 1, pull('Orders', 0));
      assert.equal(found.ext['maxOffset'], '1');
      assert.ok(found.body.includes('normal'));
      await reader.close();
      await again.stop();
    }).catch((error: Error) => {
      // The first broker is gone by now, and so is its connection.
      if (!error.message.startsWith('closed before the answer')) throw error;
    }));
});

test('what Java 5.5.0 answered to wrong requests on the wire, code and words', () =>
  withBroker(
    async ({ ask, peer }) => {
      const lines = readFileSync(`${root}/test/fixtures/frames/json/errors.jsonl`, 'utf8').trim().split('\n');
      const frames = lines.map((line) => JSON.parse(line) as Recorded).filter((each) => each.link === 'client-broker');
      await ask(SEND, send({ b: 'FrameA', d: '2' }), 'x');
      await ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, '{"groupName":"GID_frames"}');
      let compared = 0;
      for (const request of frames.filter((each) => each.kind === 'request')) {
        const java = frames.find((each) => each.kind === 'response' && each.opaque === request.opaque)!.java;
        // Pop is another part.
        if (request.code > 200_000) continue;
        peer.write(Buffer.from(request.frame, 'base64'));
        const ours = await peer.answer(request.opaque);
        assert.equal(ours.code, java.code, `code of ${request.code}`);
        if (java.code === 0) continue;
        compared++;
        // Exceptions have the words of whoever threw them; for the rest ours begin with Java's first line and may say more.
        if (/^(java|com)\./.test(java.remark!)) continue;
        const first = java.remark!.split('\n')[0]!.trim().replace(/:\d+$/, '');
        assert.equal(ours.remark!.trim().slice(0, first.length), first, `remark of ${request.code}`);
      }
      assert.ok(compared > 10);
    },
    { config: { traceOn: false } },
  ));

interface Recorded {
  link: string;
  kind: string;
  code: number;
  opaque: number;
  frame: string;
  java: { code: number; remark: string | null };
}

describe('requests that could take more than their share', () => {
  it('a reference to what it stands in, in a header or a body, is no end of the process', () =>
    withBroker(async ({ peer, ask }) => {
      const texts = ['{"$ref":"$"}', '[{"$ref":"@"}]', '{"a":{"$ref":".."}}', '{"x":{"$ref":"$.extFields"}}'];
      for (const [i, text] of texts.entries()) {
        peer.write(frameOf(0, Buffer.from(`{"code":30,"opaque":${i},"extFields":{"topic":${text},"queueId":0}}`)));
        assert.equal((await peer.answer(i)).code, 0);
        assert.ok((await ask(RequestCode.HEART_BEAT, {}, `{"clientID":"c","consumerDataSet":[${text}]}`)).code <= 1);
      }
    }));

  it('a topic may not have so many queues that a walk over them never ends', () =>
    withBroker(async ({ ask }) => {
      const topic = { topic: 'Wide', defaultTopic: 'TBW102', perm: '6', topicFilterType: 'SINGLE_TAG' };
      for (const [read, write] of [
        ['2147483647', '1'],
        ['1', '65537'],
        ['-1', '1'],
      ]) {
        const answer = await ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {
          ...topic,
          readQueueNums: read,
          writeQueueNums: write,
        });
        assert.equal(answer.code, ResponseCode.INVALID_PARAMETER);
        assert.match(answer.remark!, /QueueNums is -?\d+, a topic has 0 to 65536 queues/);
      }
      for (const nums of ['2147483647', '1e300', '4294967296']) {
        const list = `{"topicConfigList":[{"topicName":"Wide","readQueueNums":${nums},"writeQueueNums":1}]}`;
        assert.notEqual((await ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {}, list)).code, 0, nums);
        const group = `{"groupName":"Wide","retryQueueNums":${nums}}`;
        assert.notEqual((await ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, group)).code, 0, nums);
      }
      assert.equal((await ask(RequestCode.GET_TOPIC_CONFIG, { topic: 'Wide' })).code, ResponseCode.TOPIC_NOT_EXIST);
      const most = { ...topic, readQueueNums: '65536', writeQueueNums: '65536' };
      assert.equal((await ask(RequestCode.UPDATE_AND_CREATE_TOPIC, most)).code, 0);
      assert.equal((await ask(RequestCode.GET_TOPIC_STATS_INFO, { topic: 'Wide' })).code, 0);
    }));

  it('thousands of properties are read in one pass, and millions not at all', () =>
    withBroker(async ({ ask }) => {
      const properties = (count: number): string =>
        Array.from({ length: count }, (_, i) => `${i.toString(36)}\u0001v\u0002`).join('');
      const taken = await ask(SEND, send({ i: properties(5_000) }), 'x');
      assert.equal(taken.code, 0);
      const found = await ask(PULL, pull('Orders', 0));
      assert.ok(found.body.includes(`${(4_999).toString(36)}\u0001v\u0002`));
      // With one look per pair at all before it this would take hours.
      const refused = await ask(SEND, send({ i: properties(500_000) }), 'x');
      assert.equal(refused.code, ResponseCode.MESSAGE_ILLEGAL);
    }));

  it('a long header that only the slow parser could read ends the connection', () =>
    withBroker(async ({ server, logger }) => {
      const other = await WirePeer.open(server.address);
      other.write(frameOf(0, Buffer.from(`{"code":30,"opaque":1,"extFields":{"a":[${'[1],'.repeat(50_000)}1]}}`)));
      await until(() => other.closed);
      assert.match(logger.texts('warn').join(), /a header of \d+ bytes that is not written as clients write it/);
    }));

  it('a remark that quotes what was sent is cut', () =>
    withBroker(async ({ ask }) => {
      const answer = await ask(SEND, send({ b: '!'.repeat(1_000_000) }), 'x');
      assert.equal(answer.code, ResponseCode.INVALID_PARAMETER);
      assert.ok(answer.remark!.length < 20_000 && answer.remark!.endsWith('...'));
    }));

  it('thousands of pulls that wait on one queue are all answered when their time is over', () =>
    withBroker(async ({ peer, ask }) => {
      await ask(SEND, send(), 'x');
      const waiting = 5_000;
      const wants = pull('Orders', 0, { queueId: '1', sysFlag: '6', suspendTimeoutMillis: '200' });
      peer.write(Buffer.concat(Array.from({ length: waiting }, (_, i) => jsonRequest(PULL, 10_000 + i, wants))));
      await until(() => peer.frames.filter((frame) => frame.opaque >= 10_000).length === waiting);
    }));
});

describe('fields that are not what they should be', () => {
  it('numbers beyond 32 bits in a send are refused instead of being cut', () =>
    withBroker(async ({ ask }) => {
      for (const field of ['e', 'f', 'h', 'j']) {
        for (const value of ['2147483648', '-2147483649', '99999999999999']) {
          const answer = await ask(SEND, send({ [field]: value }), 'x');
          assert.equal(answer.code, ResponseCode.SYSTEM_ERROR);
          assert.match(
            answer.remark!,
            new RegExp(`the custom field <${field}> is not a number of its size: For input string: "${value}"`),
          );
        }
      }
    }));

  it('a priority that is no whole number names no queue', () =>
    withBroker(async ({ ask }) => {
      for (const value of ['1.5', '1e2', '-1', 'x', '0x1']) {
        const answer = await ask(SEND, send({ i: `_SYS_MSG_PRIORITY_\u0001${value}\u0002` }), 'x');
        assert.equal(answer.code, 0);
        assert.equal(answer.ext['queueId'], '0');
      }
      assert.equal((await ask(SEND, send({ i: '_SYS_MSG_PRIORITY_\u00013\u0002' }), 'x')).ext['queueId'], '3');
    }));

  it('an offset beyond 2^53 is held to what every reader of the file can load', () =>
    withBroker(async ({ server, ask }) => {
      await ask(SEND, send(), 'x');
      await ask(PULL, pull('Orders', 0));
      const where = { consumerGroup: 'G', topic: 'Orders', queueId: '0' };
      const commit = { ...where, commitOffset: '9223372036854775807' };
      assert.equal((await ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code, 0);
      server.broker.context.offsets.persist();
      assert.match(server.broker.context.offsets.text(), /0:9007199254740991/);
    }));

  it('a one-way pull is not answered', () =>
    withBroker(async ({ peer, ask }) => {
      await ask(SEND, send(), 'x');
      peer.write(jsonRequest(PULL, 7, pull('Orders', 0), undefined, ONEWAY));
      peer.write(
        jsonRequest(PULL, 8, pull('Orders', 1, { sysFlag: '6', suspendTimeoutMillis: '20' }), undefined, ONEWAY),
      );
      // An answer that waits as long comes after the one that must not come.
      await peer.call(PULL, 9, pull('Orders', 1, { sysFlag: '6', suspendTimeoutMillis: '600' }));
      assert.deepEqual(
        peer.frames.map((frame) => frame.opaque).filter((opaque) => opaque < 9),
        [],
      );
    }));

  it('names of fields that are passed on to another client cannot become a request of their own', () =>
    withBroker(async ({ server, peer, ask }) => {
      const consumer = await WirePeer.open(server.address);
      const group = {
        groupName: 'G',
        consumeType: 'CONSUME_PASSIVELY',
        messageModel: 'CLUSTERING',
        subscriptionDataSet: [],
      };
      const heartbeat = JSON.stringify({ clientID: 'victim', consumerDataSet: [group], producerDataSet: [] });
      await consumer.call(RequestCode.HEART_BEAT, 1, {}, Buffer.from(heartbeat));
      const name = 'x":"y"},"code":39,"z":{"';
      const ext = { consumerGroup: 'G', clientId: 'victim', [name]: 'v', 'ключ\n': 'ü' };
      peer.write(binaryRequest(RequestCode.GET_CONSUMER_RUNNING_INFO, 5, ext));
      const isQuestion = (frame: Frame): boolean => (frame.flag & (RESPONSE | ONEWAY)) === 0;
      await until(() => consumer.frames.some(isQuestion) || consumer.closed);
      const question = consumer.frames.find(isQuestion)!;
      assert.equal(question.code, RequestCode.GET_CONSUMER_RUNNING_INFO);
      assert.deepEqual(question.ext, ext);
      // And what the client answers cannot become another answer.
      consumer.write(jsonRequest(0, question.opaque, { [name]: 'w' }, undefined, RESPONSE));
      const answer = await peer.answer(5);
      assert.equal(answer.code, 0);
      assert.deepEqual(answer.ext, { [name]: 'w' });
      await consumer.close();
      await ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, { consumerGroup: 'G' });
    }));

  it('bytes in a message that look like a size are not read as a message', () =>
    withBroker(async ({ ask }) => {
      const body = Buffer.alloc(4_000);
      for (let at = 0; at < body.length; at += 4) body.writeInt32BE(900, at);
      const { ext } = await ask(SEND, send(), body);
      const offset = Number.parseInt(ext['msgId']!.slice(16), 16);
      for (let at = offset + 84; at < offset + 200; at++) {
        const answer = await ask(RequestCode.VIEW_MESSAGE_BY_ID, { offset: String(at) });
        assert.equal(answer.remark, `can not find message by the offset, ${at}`);
      }
      assert.equal((await ask(RequestCode.VIEW_MESSAGE_BY_ID, { offset: String(offset) })).code, 0);
    }));
});

describe('questions', () => {
  it('B78: delete a group, get it back: no question brings it back', () =>
    withBroker(async ({ ask }) => {
      await ask(SEND, send(), 'x');
      const group = { consumerGroup: 'Gone', group: 'Gone', topic: 'Orders', queueId: '0' };
      await ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, '{"groupName":"Gone"}');
      assert.equal((await ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group)).code, 0);
      const doomed = { groupName: 'Gone', cleanOffset: 'false' };
      assert.equal((await ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, doomed)).code, 0);
      const questions = [
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        RequestCode.GET_CONSUME_STATS,
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.QUERY_TOPICS_BY_CONSUMER,
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
        RequestCode.QUERY_CONSUME_TIME_SPAN,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.UPDATE_CONSUMER_OFFSET,
      ];
      for (const code of questions) await ask(code, { ...group, timestamp: '-1', commitOffset: '0', isForce: 'true' });
      const all = await ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG);
      assert.ok(!all.body.includes('"Gone"'), 'the group is back');
    }));

  it('B59: where a new group begins', () =>
    withBroker(async ({ server, ask }) => {
      for (let i = 0; i < 10; i++) await ask(SEND, send(), 'x');
      const { store } = server.broker.context;
      await until(() => store.watermarks.dispatched === store.watermarks.wrote);
      const begin = async (changes: Fields): Promise<string> => {
        const fields = { consumerGroup: 'New', topic: 'Orders', queueId: '0', ...changes };
        const answer = await ask(RequestCode.QUERY_CONSUMER_OFFSET, fields);
        return `${answer.code} ${answer.ext['offset']}`;
      };
      assert.equal(await begin({}), '0 0');
      assert.equal(await begin({ setZeroIfNotFound: 'true' }), '0 0');
      assert.equal(await begin({ setZeroIfNotFound: 'false' }), '22 undefined');
      assert.equal(await begin({ queueId: '77' }), '22 undefined');
    }));
});
