import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeTemplate, fillDecimal, OPAQUE_BASE, ResponseScanner } from './wire.ts';

function headerOf(frame: Buffer): { code: number; opaque: number; extFields: Record<string, string> } {
  assert.equal(frame.readInt32BE(0), frame.length - 4);
  return JSON.parse(frame.toString('utf8', 8, 8 + frame.readInt32BE(4))) as ReturnType<typeof headerOf>;
}

test('a template is a whole frame, and its holes take numbers of any value that fits', () => {
  const { bytes, holes } = encodeTemplate(
    310,
    { b: 'Tö{topic:4}', e: '{queue:1}', i: 'K\u0001v\u0002' },
    Buffer.from('body'),
  );
  fillDecimal(bytes, holes.get('topic')!, 37);
  fillDecimal(bytes, holes.get('queue')!, 7);
  fillDecimal(bytes, holes.get('opaque')!, OPAQUE_BASE + 63);
  const header = headerOf(bytes);
  assert.equal(header.code, 310);
  assert.equal(header.opaque, OPAQUE_BASE + 63);
  assert.deepEqual(header.extFields, { b: 'Tö0037', e: '7', i: 'K\u0001v\u0002' });
  assert.equal(bytes.toString('utf8', bytes.length - 4), 'body');
});

test('the scanner finds code and opaque wherever they are, also where they were not the last time', () => {
  const scanner = new ResponseScanner();
  const headers = [
    `{"code":0,"extFields":{"queueOffset":"9"},"flag":1,"opaque":${OPAQUE_BASE + 5},"version":513}`,
    `{"code":0,"extFields":{"queueOffset":"10"},"flag":1,"opaque":${OPAQUE_BASE + 6},"version":513}`,
    `{"opaque":${OPAQUE_BASE + 7},"remark":"busy","code":2}`,
    `{"code":19,"opaque":${OPAQUE_BASE},"remark":"x"}`,
  ];
  const found = headers.map((header) => {
    const bytes = Buffer.from(`....${header}....`);
    scanner.scan(bytes, 4, bytes.length - 4);
    return [scanner.code, scanner.slot];
  });
  assert.deepEqual(found, [
    [0, 5],
    [0, 6],
    [2, 7],
    [19, 0],
  ]);
});

test('a header without opaque is an error', () => {
  const bytes = Buffer.from('{"code":0}');
  assert.throws(() => new ResponseScanner().scan(bytes, 0, bytes.length), /opaque/);
});
