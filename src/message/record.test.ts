import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { viewOf } from '../common/index.ts';
import {
  copy,
  decodeMessages,
  decodeOffsetMessageId,
  hostField,
  hostText,
  propertiesBytes,
  RecordOutcome,
  RecordSource,
  RecordView,
  readRecord,
  recordBytes,
  recordVersion,
  sysFlagWithHosts,
  Verify,
  writeRecord,
} from './index.ts';

/** The worked example of docs/formats/commit-log.md. */
function example(): RecordSource {
  const source = new RecordSource();
  source.topic = 'TopicTest';
  source.topicBytes = Buffer.from('TopicTest');
  source.queueId = 1;
  source.bornTimestamp = 1_700_000_000_000;
  source.bornHost = hostField('10.1.2.3', 54_321);
  source.storeHost = hostField('192.168.0.1', 10_911);
  source.body = Buffer.from('hello');
  source.bodyEnd = 5;
  source.properties = Buffer.from('TAGS\u0001TagA\u0002KEYS\u0001k1\u0002');
  source.propertiesEnd = source.properties.length;
  return source;
}

function encode(source: RecordSource, propertyCrc: boolean, queueOffset = 5, physicalOffset = 4096): Uint8Array {
  const version = recordVersion(source.topic, true);
  const block = propertiesBytes(source, propertyCrc, true);
  const size = recordBytes(source, version, block);
  const bytes = new Uint8Array(size);
  writeRecord(
    bytes,
    viewOf(bytes),
    0,
    source,
    sysFlagWithHosts(source),
    version,
    size,
    block,
    propertyCrc,
    queueOffset,
    physicalOffset,
    1_700_000_000_123,
  );
  return bytes;
}

const RECORD_A =
  '0000007bdaa320a73610a686000000010000000000000000000000050000000000001000000000000000018bcfe568000a0102030000d431' +
  '0000018bcfe5687bc0a8000100002a9f0000000000000000000000000000000568656c6c6f09546f7069635465737400125441475301546167' +
  '41024b455953016b3102';
const RECORD_B =
  '0000008fdaa320a73610a686000000010000000000000000000000050000000000001000000000000000018bcfe568000a0102030000d431' +
  '0000018bcfe5687bc0a8000100002a9f0000000000000000000000000000000568656c6c6f09546f7069635465737400265441475301546167' +
  '41024b455953016b31025f5f435243333223013530333934353132313102';

test('a record is written as Java writes it', () => {
  assert.equal(Buffer.from(encode(example(), false)).toString('hex'), RECORD_A);
});

test('a record with a property CRC is written as Java writes it, and verifies', () => {
  const bytes = encode(example(), true);
  assert.equal(Buffer.from(bytes).toString('hex'), RECORD_B);
  const view = new RecordView();
  assert.equal(readRecord(bytes, viewOf(bytes), 0, bytes.length, Verify.PROPERTY_CRC, view), RecordOutcome.RECORD);
  bytes[60]! ^= 1;
  assert.equal(readRecord(bytes, viewOf(bytes), 0, bytes.length, Verify.PROPERTY_CRC, view), RecordOutcome.BAD);
});

test('a flipped bit in the body fails the body CRC only when it is asked for', () => {
  const bytes = encode(example(), false);
  bytes[0x5a]! ^= 4;
  const view = new RecordView();
  assert.equal(readRecord(bytes, viewOf(bytes), 0, bytes.length, Verify.BODY_CRC, view), RecordOutcome.BAD);
  assert.equal(view.reason, 'the body CRC is wrong');
  assert.equal(readRecord(bytes, viewOf(bytes), 0, bytes.length, Verify.STRUCTURE, view), RecordOutcome.RECORD);
});

test('any record comes back as it was written, V1 and V2, IPv4 and IPv6', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom('a', 'B', '_', '9', '-'), minLength: 1, maxLength: 250 }),
      fc.uint8Array({ maxLength: 300 }),
      fc.boolean(),
      fc.boolean(),
      fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
      (topic, body, v6, crc, offset) => {
        const source = example();
        source.topic = topic;
        source.topicBytes = Buffer.from(topic);
        source.body = body;
        source.bodyEnd = body.length;
        if (v6) source.bornHost = hostField('2001:db8::17', 1);
        const [message] = decodeMessages(encode(source, crc, offset, offset));
        assert.ok(message);
        assert.equal(message.topic, topic);
        assert.deepEqual([...message.body], [...body]);
        assert.equal(message.queueOffset, offset);
        assert.equal(message.bornHost, v6 ? '[2001:db8:0:0:0:0:0:17]:1' : '10.1.2.3:54321');
        assert.equal(message.properties.get('KEYS'), 'k1');
        assert.equal(decodeOffsetMessageId(message.offsetMessageId).offset, offset);
      },
    ),
  );
});

test('every truncation and random bytes are judged without a throw', () => {
  const view = new RecordView();
  const record = encode(example(), false);
  for (let end = 0; end < record.length; end++) {
    assert.equal(readRecord(record, viewOf(record), 0, end, Verify.BODY_CRC, view), RecordOutcome.SHORT);
  }
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), fc.nat(122), fc.integer(), (noise, at, value) => {
      const damaged = encode(example(), false);
      viewOf(damaged).setInt32(Math.min(at, damaged.length - 4), value);
      for (const bytes of [noise, damaged]) readRecord(bytes, viewOf(bytes), 0, bytes.length, Verify.BODY_CRC, view);
    }),
    { numRuns: 2000 },
  );
});

test('host fields read back as text', () => {
  assert.equal(hostText(hostField('127.0.0.1', 10_911)), '127.0.0.1:10911');
  assert.equal(hostText(hostField('::ffff:10.0.0.9', 5)), '10.0.0.9:5');
  assert.equal(hostText(hostField('::1', 5)), '[0:0:0:0:0:0:0:1]:5');
  assert.throws(() => hostField('localhost', 5), { code: 'ADDRESS' });
});

test('a decoded message does not share memory with the bytes that it came from', () => {
  const bytes = Buffer.from(encode(example(), false));
  const [message] = decodeMessages(bytes);
  bytes.fill(0);
  assert.equal(Buffer.from(message!.body).toString(), 'hello');
});

test('copy moves just the bytes asked for, of any length', () => {
  const source = Uint8Array.from({ length: 200 }, (_, i) => i + 1);
  for (let length = 0; length <= 170; length++) {
    for (const from of [source.subarray(0, length), source]) {
      const start = from === source ? 5 : 0;
      const target = new Uint8Array(200);
      assert.equal(copy(from, start, start + length, target, 3), 3 + length);
      assert.deepEqual(target.subarray(3, 3 + length), source.subarray(start, start + length));
      assert.ok(target.subarray(3 + length).every((byte) => byte === 0));
    }
  }
});
