import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { unescapeInto, unescapeText } from './json-unescape.ts';

function unescaped(content: string): Buffer {
  const source = Buffer.from(`"${content}"`);
  const target = Buffer.alloc(source.length + 3, 0xee);
  const end = unescapeInto(source, 1, source.length - 1, target, 3);
  assert.ok(target.subarray(0, 3).every((byte) => byte === 0xee));
  assert.ok(target.subarray(end).every((byte) => byte === 0xee));
  assert.ok(end - 3 <= source.length - 2, 'longer than its source');
  return target.subarray(3, end);
}

describe('unescapeInto', () => {
  it('knows every escape', () => {
    assert.equal(unescaped('\\"\\\\\\/\\b\\f\\n\\r\\t\\u0001\\u0002\\u0041').toString(), '"\\/\b\f\n\r\t\u0001\u0002A');
  });

  it('writes one to four bytes a character', () => {
    assert.equal(unescaped('\\u007f\\u0080\\u07ff\\u0800\\uffff').toString(), '\u007f\u0080\u07ff\u0800\uffff');
    assert.equal(unescaped('\\ud83d\\ude00\\uD83D\\uDE00').toString(), '😀😀');
    assert.equal(unescaped('é😀').toString(), 'é😀');
  });

  it('makes ? of half a pair, as Java does', () => {
    assert.equal(unescaped('a\\ud83db').toString(), 'a?b');
    assert.equal(unescaped('\\ude00').toString(), '?');
    assert.equal(unescaped('\\ud83d\\u0041').toString(), '?A');
    assert.equal(unescaped('\\ud83d\\ud83d\\ude00').toString(), '?😀');
    assert.equal(unescaped('\\ud83d\\n').toString(), '?\n');
    assert.equal(unescaped('\\ud83d').toString(), '?');
  });

  it('undoes JSON.stringify', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.boolean(), (value, ascii) => {
        let content = JSON.stringify(value).slice(1, -1);
        if (ascii) {
          content = content.replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
        }
        assert.equal(unescaped(content).toString(), value);
        const source = Buffer.from(content);
        assert.equal(unescapeText(source, 0, source.length), value);
      }),
    );
  });
});
