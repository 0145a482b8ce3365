import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { GantryError } from '../common/index.ts';
import { parseJson } from './json.ts';
import { toJson, toJsonBytes } from './json-writer.ts';

describe('parseJson', () => {
  it('takes bare numeric keys', () => {
    assert.deepEqual(parseJson('{"brokerAddrs":{0:"1.2.3.4:5", -1 : "x"}}'), {
      brokerAddrs: { '0': '1.2.3.4:5', '-1': 'x' },
    });
  });

  it('takes objects as keys, with blanks in and around them', () => {
    const table = parseJson('{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:5, { "queueId" : 1 } : 6}}');
    const map = (table as { offsetTable: Map<unknown, unknown> }).offsetTable;
    assert.deepEqual(
      [...map],
      [
        [{ brokerName: 'b', queueId: 0, topic: 'T' }, 5],
        [{ queueId: 1 }, 6],
      ],
    );
  });

  it('keeps longs exact where asked', () => {
    const text = '{"a":9223372036854775807,"b":[-9223372036854775808],"c":5}';
    assert.deepEqual(parseJson(text, { exactLongs: true }), {
      a: 9223372036854775807n,
      b: [-9223372036854775808n],
      c: 5,
    });
    assert.deepEqual(parseJson(text), { a: 2 ** 63, b: [-(2 ** 63)], c: 5 });
  });

  it('replaces references of fastjson 1', () => {
    const text =
      '{"a.b":{"x":[1,{"y":2}]},"list":[{"k":1},{"$ref":"$.list[0]"}],"same":{"$ref":"$.a\\\\.b.x[1]"},' +
      '"self":{"up":{"$ref":".."}},"lost":{"$ref":"$.nowhere"},"map":{{"q":1}:{"$ref":"$.list[0].k"}}}';
    const root = parseJson(text) as Record<string, unknown>;
    assert.deepEqual(root['list'], [{ k: 1 }, { k: 1 }]);
    assert.deepEqual(root['same'], { y: 2 });
    assert.equal((root['self'] as Record<string, unknown>)['up'], null);
    assert.equal(root['lost'], null);
    assert.deepEqual([...(root['map'] as Map<unknown, unknown>).values()], [1]);
  });

  it('a reference to what it stands in, or to what stands in it, makes no ring', () => {
    for (const text of [
      '{"a":{"$ref":"$"}}',
      '{"a":[{"$ref":"@"}]}',
      '[{"$ref":".."}]',
      '{"a":{"x":{"$ref":"$.b"}},"b":{"y":{"$ref":"$.a"}}}',
      '{"a":{"b":{"c":{"$ref":"$.a"}}}}',
    ]) {
      assert.doesNotThrow(() => JSON.stringify(parseJson(text)), text);
    }
  });

  it('references that would repeat without end are refused', () => {
    const doubled = Array.from({ length: 60 }, (_, i) => `"l${i + 1}":[{"$ref":"$.l${i}"},{"$ref":"$.l${i}"}]`);
    assert.throws(
      () => parseJson(`{"l0":[1],${doubled.join()}}`),
      (error) => error instanceof GantryError && error.code === 'JSON',
    );
  });

  it('takes what fastjson takes: single quotes, bare words, control characters, NaN', () => {
    assert.deepEqual(parseJson(`{'a':'it\\'s',b_c:"x\ty","n":NaN}`), { a: "it's", b_c: 'x\ty', n: null });
  });

  it('agrees with JSON.parse on all that is plain JSON', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        assert.deepEqual(parseJson(text, { lenientOnly: true }), JSON.parse(text));
      }),
    );
  });

  it('refuses everything else with our own error', () => {
    for (const text of ['', ' ', '{', '[1,', '[1,]', '{"a"}', '{"a":}', 'nul', '"', '"\\x"', '1 2', '01', '{:1}']) {
      assert.throws(
        () => parseJson(text),
        (error: unknown) => error instanceof GantryError && error.code === 'JSON',
      );
    }
    const deep = `${'[{a:'.repeat(50_000)}`;
    assert.throws(() => parseJson(deep), GantryError);
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'{}[]":,0-1e.atrue\\') }), (text) => {
        try {
          parseJson(text, { lenientOnly: true });
        } catch (error) {
          assert.ok(error instanceof GantryError, String(error));
        }
      }),
      { numRuns: 2000 },
    );
  });
});

describe('toJson', () => {
  it('writes compact text with sorted fields and leaves null out', () => {
    assert.equal(
      toJson({
        b: [1, 'x', null, true],
        a: { z: undefined, y: null, x: 2n ** 63n - 1n },
        c: Number.NaN,
        d: new Set([1]),
      }),
      '{"a":{"x":9223372036854775807},"b":[1,"x",null,true],"c":null,"d":[1]}',
    );
  });

  it('writes objects as raw keys, and all other keys as strings', () => {
    const map = new Map<unknown, unknown>([
      [{ topic: 'T', queueId: 0, brokerName: 'b' }, 5],
      [7, 'x'],
    ]);
    assert.equal(toJson({ t: map }), '{"t":{{"brokerName":"b","queueId":0,"topic":"T"}:5,"7":"x"}}');
  });

  it('is read back as it was', () => {
    const value = fc.jsonValue({ maxDepth: 4 });
    fc.assert(
      fc.property(value, (source) => {
        // Zero has no sign in JSON, and null fields are absent.
        const plain = JSON.parse(
          JSON.stringify(source, (_key, field) =>
            typeof field === 'object' && field !== null && !Array.isArray(field)
              ? Object.fromEntries(Object.entries(field).filter(([, inner]) => inner !== null))
              : field,
          ),
        );
        assert.deepEqual(parseJson(toJsonBytes(source)), plain);
      }),
    );
  });
});
