import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createOffsetMessageId, decodeOffsetMessageId, hostField, OffsetMessageIds } from './index.ts';

test('the ids of many records are those of each, with commas between', () => {
  for (const host of [hostField('192.168.0.1', 10_911), hostField('2001:db8::1', 65_535)]) {
    const ids = new OffsetMessageIds(host);
    fc.assert(
      fc.property(fc.array(fc.maxSafeNat(), { maxLength: 20 }), (offsets) => {
        const text = Buffer.from(ids.write(offsets)).toString('latin1');
        assert.equal(text, offsets.map((offset) => createOffsetMessageId(host, offset)).join(','));
        if (offsets.length === 0) return;
        for (const [i, id] of text.split(',').entries()) assert.equal(decodeOffsetMessageId(id).offset, offsets[i]);
      }),
    );
  }
});
