import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deflateSync } from 'node:zlib';
import fc from 'fast-check';
import { GantryError } from '../common/index.ts';
import { RegisterBodies, readDataVersion, readQueueDatas, readRegisterBody } from './register-body.ts';

const V5_5_0 = 513;
const BODY =
  '{"filterServerList":["10.0.0.1:4444"],"topicConfigSerializeWrapper":{"dataVersion":{"counter":3,"stateVersion":1,"timestamp":1795994092101},' +
  '"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":1},"topicConfigTable":{"T":{"attributes":{},"order":false,"perm":4,' +
  '"readQueueNums":2,"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":1,"writeQueueNums":3}},"topicQueueMappingDetailMap":{},' +
  '"topicQueueMappingInfoMap":{"T":{"bname":"a","currIdMap":{0:0,3:1},"dirty":false,"epoch":9,"scope":"__global__","topic":"T","totalQueues":8}}}}';

const TABLES = {
  dataVersion: { counter: 3, stateVersion: 1, timestamp: 1795994092101 },
  topics: [{ topicName: 'T', readQueueNums: 2, writeQueueNums: 3, perm: 4, topicSysFlag: 1 }],
  queueMappings: [
    {
      bname: 'a',
      currIdMap: { '0': 0, '3': 1 },
      dirty: false,
      epoch: 9,
      scope: '__global__',
      topic: 'T',
      totalQueues: 8,
    },
  ],
  filterServers: ['10.0.0.1:4444'],
};

function read(text: string, version = V5_5_0): ReturnType<typeof readRegisterBody> {
  return readRegisterBody(Buffer.from(text), false, version);
}

test('the JSON of a Java broker, with its bare numeric keys, is read', () => {
  assert.deepEqual(read(BODY), TABLES);
});

test('no body is an empty table of version 0', () => {
  assert.deepEqual(readRegisterBody(new Uint8Array(), false, V5_5_0), {
    dataVersion: { counter: 0, stateVersion: 0, timestamp: 0 },
    topics: [],
    queueMappings: [],
    filterServers: [],
  });
});

test('a broker before V3_0_11 sends the topic table alone', () => {
  const table = '{"dataVersion":{"counter":1,"timestamp":5},"topicConfigTable":{"T":{"topicName":"T","perm":6}}}';
  const tables = read(table, 36);
  assert.deepEqual(tables.dataVersion, { counter: 1, stateVersion: 0, timestamp: 5 });
  assert.deepEqual(tables.topics, [
    { topicName: 'T', readQueueNums: 16, writeQueueNums: 16, perm: 6, topicSysFlag: 0 },
  ]);
});

test('missing fields take the defaults of RocketMQ, numbers may be strings, and a missing name is the key', () => {
  const tables = read('{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"readQueueNums":"3"}}}}');
  assert.deepEqual(tables.topics, [{ topicName: 'T', readQueueNums: 3, writeQueueNums: 16, perm: 6, topicSysFlag: 0 }]);
});

function block(text: string): Buffer {
  const bytes = Buffer.from(text);
  const length = Buffer.alloc(4);
  length.writeInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

function count(n: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(n);
  return bytes;
}

const COMPRESSED = Buffer.concat([
  block('{"counter":3,"stateVersion":1,"timestamp":1795994092101}'),
  count(1),
  block('T 2 3 4 SINGLE_TAG {"message.type":"NORMAL"}'),
  block('["10.0.0.1:4444"]'),
]);
const MAPPINGS = Buffer.concat([count(1), block(JSON.stringify(TABLES.queueMappings[0]))]);

test('the compressed form is read, with the queue mappings that only newer brokers send', () => {
  const topics = [{ ...TABLES.topics[0], topicSysFlag: 0 }];
  const old = readRegisterBody(deflateSync(COMPRESSED), true, 401);
  assert.deepEqual(old, { ...TABLES, topics, queueMappings: [] });
  const fresh = readRegisterBody(deflateSync(Buffer.concat([COMPRESSED, MAPPINGS])), true, V5_5_0);
  assert.deepEqual(fresh, { ...TABLES, topics });
});

test('the compressed form cut anywhere is refused', () => {
  const whole = Buffer.concat([COMPRESSED, MAPPINGS]);
  for (let length = 0; length < whole.length; length++) {
    assert.throws(
      () => readRegisterBody(deflateSync(whole.subarray(0, length)), true, V5_5_0),
      isBodyError,
      `${length}`,
    );
  }
});

test('a body of few bytes that inflates to very many is refused with the limit', () => {
  const many = Buffer.concat([COMPRESSED, Buffer.alloc(8 * 1024 * 1024)]);
  const body = deflateSync(many);
  assert.ok(body.length < 10_000);
  assert.throws(
    () => readRegisterBody(body, true, V5_5_0),
    (error) => isBodyError(error) && /inflate to more than the limit of 8388608$/.test((error as Error).message),
  );
});

function isBodyError(error: unknown): boolean {
  return error instanceof GantryError && error.code === 'BODY' && error.responseCode === 1;
}

for (const [name, body] of [
  ['no JSON', '{"topicConfigSerializeWrapper":'],
  ['a list', '[]'],
  ['null', 'null'],
  ['a table that is a list', '{"topicConfigSerializeWrapper":{"topicConfigTable":[]}}'],
  ['a topic that is a number', '{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":1}}}'],
  ['queues that are no number', '{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":"rw"}}}}'],
] as const) {
  test(`a body that is ${name} is refused with a text that begins as RocketMQ's`, () => {
    assert.throws(
      () => read(body),
      (error) => isBodyError(error) && /^Failed to decode RegisterBrokerBody/.test((error as Error).message),
    );
  });
}

test('random bytes raise nothing but our own error', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 200 }),
      fc.boolean(),
      fc.constantFrom(30, 401, 513),
      (bytes, compressed, version) => {
        try {
          readRegisterBody(bytes, compressed, version);
        } catch (error) {
          assert.ok(isBodyError(error), String(error));
        }
      },
    ),
  );
});

test('a data version is read, and anything else refused', () => {
  assert.deepEqual(readDataVersion(Buffer.from('{"counter":1,"stateVersion":0,"timestamp":2}')), {
    counter: 1,
    stateVersion: 0,
    timestamp: 2,
  });
  assert.throws(() => readDataVersion(Buffer.from('1')), isBodyError);
});

test('the queues of a route body are read, and anything else refused', () => {
  const queue = { brokerName: 'a', perm: 6, readQueueNums: 4, topicSysFlag: 0, writeQueueNums: 5 };
  assert.deepEqual(readQueueDatas(Buffer.from(JSON.stringify({ queueDatas: [queue] }))), [queue]);
  assert.deepEqual(readQueueDatas(Buffer.from('{}')), []);
  assert.throws(() => readQueueDatas(Buffer.from('{"queueDatas":{}}')), isBodyError);
});

test('the same large body over the same connection is parsed once; a changed one again', () => {
  const table: Record<string, object> = {};
  for (let i = 0; i < 1000; i++) table[`topic-${i}`] = { topicName: `topic-${i}`, perm: 6, filler: 'x'.repeat(60) };
  const body = (perm: number): Buffer =>
    Buffer.from(JSON.stringify({ topicConfigSerializeWrapper: { topicConfigTable: { ...table, last: { perm } } } }));
  const bodies = new RegisterBodies();
  const first = bodies.read(1, body(6), false, V5_5_0);
  assert.equal(bodies.read(1, body(6), false, V5_5_0), first);
  assert.notEqual(bodies.read(2, body(6), false, V5_5_0), first);
  assert.equal(bodies.read(1, body(4), false, V5_5_0).topics[1000]?.perm, 4);
  const again = bodies.read(1, body(6), false, V5_5_0);
  assert.notEqual(again, first);
  bodies.forget(1);
  assert.notEqual(bodies.read(1, body(6), false, V5_5_0), again);
});
