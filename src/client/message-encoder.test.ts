import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parseProperties } from '../message/index.ts';
import { decompressBody } from './compression.ts';
import {
  type EncodeLimits,
  encodeBatchMessage,
  encodeMessage,
  messageProperties,
  sendHeader,
} from './message-encoder.ts';
import type { Message } from './message-types.ts';

const limits: EncodeLimits = { maxMessageSize: 4_194_304, compressOverBytes: 4096 };

interface GoldenSend {
  ext: Record<string, string>;
  body: Buffer;
  requestCode: number;
}

// dist/src/client and .build/NAME/src/client alike: the fixtures lie in the sources.
const root = import.meta.dirname.replace(/\/(dist|\.build\/[^/]+)\/src\/.*$/, '');

/** What a Java 5.5.0 producer sent, in order: sync, sync, async, one-way, delay level, timer, batch, compressed. */
function goldenSends(): GoldenSend[] {
  const lines = readFileSync(`${root}/test/fixtures/client/producer-sends.jsonl`, 'utf8').trim().split('\n');
  return lines.map((line) => {
    const { frame, requestCode } = JSON.parse(line) as { frame: string; requestCode: number };
    const bytes = Buffer.from(frame, 'base64');
    const headerLength = bytes.readUInt32BE(4) & 0xffffff;
    const header = JSON.parse(bytes.toString('utf8', 8, 8 + headerLength)) as { extFields: Record<string, string> };
    return { ext: header.extFields, body: bytes.subarray(8 + headerLength), requestCode };
  });
}

function text(ext: ReturnType<typeof sendHeader>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(ext)
      .filter(([, value]) => value !== undefined && value !== null)
      .map(([key, value]) => [key, String(value)]),
  );
}

function uniqueKey(properties: string): string {
  return parseProperties(properties).get('UNIQ_KEY')!;
}

const messages: Message[] = [
  { topic: 'FrameA', body: 'hello', tags: 'TagA', keys: ['key1', 'key2'], properties: { 名: '值' } },
  { topic: 'FrameA', body: 'second', tags: 'TagB', keys: 'key3' },
  { topic: 'FrameA', body: 'async', tags: 'TagA', keys: 'async' },
  { topic: 'FrameA', body: 'oneway', tags: 'TagA', keys: 'oneway' },
  { topic: 'FrameA', body: 'delay', tags: 'TagA', keys: 'delay', delayLevel: 1 },
  { topic: 'FrameA', body: 'timer', tags: 'TagA', keys: 'timer', delayMs: 1500 },
];

async function headerLikeGolden(message: Message, golden: GoldenSend): Promise<Record<string, string>> {
  const encoded = await encodeMessage(message, uniqueKey(golden.ext['i']!), limits);
  assert.equal(Buffer.from(encoded.body).toString('latin1'), golden.body.toString('latin1'));
  return text(
    sendHeader(encoded, {
      producerGroup: 'PID_frames',
      defaultTopic: 'TBW102',
      defaultTopicQueueNums: 4,
      queue: { topic: 'FrameA', brokerName: 'golden-a', queueId: Number(golden.ext['e']) },
      bornTimestamp: Number(golden.ext['g']),
    }),
  );
}

for (const [index, message] of messages.entries()) {
  test(`the header of the "${String(message.body)}" message equals what Java sent, to the order of its properties`, async () => {
    const golden = goldenSends()[index]!;
    assert.deepEqual(await headerLikeGolden(message, golden), golden.ext);
  });
}

test('a batch equals what Java sent: header and every member', () => {
  const golden = goldenSends().find((send) => send.requestCode === 320)!;
  const ids = [...golden.body.toString('latin1').matchAll(/UNIQ_KEY.(\w+)/g)].map((match) => match[1]!);
  ids.push(uniqueKey(golden.ext['i']!));
  const members = [0, 1, 2, 3].map((i) => ({ topic: 'FrameA', body: `batch${i}`, tags: 'TagA', keys: `batch${i}` }));
  const encoded = encodeBatchMessage(members, () => ids.shift()!, limits);
  assert.equal(Buffer.from(encoded.body).toString('hex'), golden.body.toString('hex'));
  const header = text(
    sendHeader(encoded, {
      producerGroup: 'PID_frames',
      defaultTopic: 'TBW102',
      defaultTopicQueueNums: 4,
      queue: { topic: 'FrameA', brokerName: 'golden-a', queueId: Number(golden.ext['e']) },
      bornTimestamp: Number(golden.ext['g']),
    }),
  );
  assert.deepEqual(header, golden.ext);
});

test('a large body is compressed with the flags that Java sets, and Java bytes decompress to it', async () => {
  const golden = goldenSends().at(-1)!;
  const body = decompressBody(golden.body, Number(golden.ext['f']));
  assert.ok(body.length >= 4096);
  const encoded = await encodeMessage({ topic: 'FrameA', body, tags: 'TagA', keys: 'big' }, 'ID', limits);
  assert.equal(encoded.sysFlag, Number(golden.ext['f']));
  assert.deepEqual(Buffer.from(decompressBody(encoded.body, encoded.sysFlag)), Buffer.from(body));
});

test('one byte below the limit is not compressed', async () => {
  const encoded = await encodeMessage({ topic: 'T', body: 'x'.repeat(4095) }, 'ID', limits);
  assert.equal(encoded.sysFlag, 0);
  assert.equal(encoded.body.length, 4095);
});

const refused: Array<[string, Message, RegExp]> = [
  ['an empty body', { topic: 'T', body: '' }, /empty/],
  ['a body over the limit', { topic: 'T', body: new Uint8Array(4_194_305) }, /4194305 bytes.*4194304/],
  ['an illegal topic', { topic: 'a b', body: 'x' }, /"a b"/],
  ['a long topic', { topic: 't'.repeat(128), body: 'x' }, /128 characters, 127/],
  ['a system topic', { topic: 'SCHEDULE_TOPIC_XXXX', body: 'x' }, /SCHEDULE_TOPIC_XXXX/],
  ['a reserved property', { topic: 'T', body: 'x', properties: { UNIQ_KEY: 'x' } }, /UNIQ_KEY is reserved/],
  ['a separator in a property', { topic: 'T', body: 'x', properties: { a: 'b\u0002c' } }, /separates/],
  ['an empty property', { topic: 'T', body: 'x', properties: { a: '' } }, /empty/],
  ['two delays', { topic: 'T', body: 'x', delayLevel: 1, delayMs: 1 }, /only one/],
  ['a negative delay', { topic: 'T', body: 'x', delayMs: -1 }, /-1/],
  ['long properties', { topic: 'T', body: 'x', properties: { a: 'v'.repeat(32_767) } }, /32767 are allowed/],
];
for (const [what, message, pattern] of refused) {
  test(`${what} is refused before anything is sent`, async () => {
    await assert.rejects(encodeMessage(message, 'ID', limits), (error: Error & { code?: string }) => {
      assert.equal(error.code, 'MESSAGE');
      assert.match(error.message, pattern);
      return true;
    });
  });
}

test('a batch of two topics, with a delay, with different waits, or empty is refused', () => {
  const id = (): string => 'ID';
  const bad: Message[][] = [
    [],
    [
      { topic: 'A', body: 'x' },
      { topic: 'B', body: 'x' },
    ],
    [{ topic: 'A', body: 'x', delayLevel: 3 }],
    [
      { topic: 'A', body: 'x' },
      { topic: 'A', body: 'x', waitStoreMsgOK: false },
    ],
    [{ topic: '%RETRY%G', body: 'x' }],
  ];
  for (const batch of bad) assert.throws(() => encodeBatchMessage(batch, id, limits), { code: 'MESSAGE' });
});

test('compressed bodies that cannot be read say why', () => {
  assert.throws(() => decompressBody(Buffer.from('x'), 0x701), /sysFlag 0x701/);
  assert.throws(() => decompressBody(Buffer.from('no zlib'), 0x301), { code: 'MESSAGE' });
});

test('a priority is a property of the message, and a number that can be none is refused', () => {
  const properties = messageProperties({ topic: 'T', body: 'x', priority: 3 }, 'K');
  assert.equal(properties.get('_SYS_MSG_PRIORITY_'), '3');
  for (const priority of [-1, 1.5, 2 ** 31, Number.NaN]) {
    assert.throws(() => messageProperties({ topic: 'T', body: 'x', priority }, 'K'), { code: 'MESSAGE' });
  }
});
