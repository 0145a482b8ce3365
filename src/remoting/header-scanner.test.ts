import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { GantryError } from '../common/index.ts';
import { decodeJsonHeader, parseJsonHeader, scanJsonHeader } from './header-scanner.ts';
import { HeaderView, MAX_RANGES } from './header-view.ts';

interface Decoded {
  code: number;
  opaque: number;
  flag: number;
  version: number;
  language: string;
  remark: string | undefined;
  ext: Record<string, string>;
}

function contents(view: HeaderView): Decoded {
  const { code, opaque, flag, version, language, remark } = view;
  return { code, opaque, flag, version, language, remark, ext: view.toObject() };
}

function decoded(text: string): Decoded {
  const bytes = Buffer.from(`xx${text}yy`);
  const view = new HeaderView();
  decodeJsonHeader(bytes, 2, bytes.length - 2, view);
  return contents(view);
}

function isScanned(text: string): boolean {
  const bytes = Buffer.from(text);
  const view = new HeaderView();
  view.reset(bytes);
  return scanJsonHeader(bytes, 0, bytes.length, view);
}

const SEND = JSON.stringify({
  code: 310,
  extFields: {
    a: 'producers',
    b: 'Topic',
    c: 'TBW102',
    d: '4',
    e: '3',
    f: '0',
    g: '1795994119136',
    h: '0',
    i: 'UNIQ_KEY\u00017F000001\u0002WAIT\u0001true\u0002TAGS\u0001é😀"\\/\u0002',
    j: '0',
    k: 'false',
    m: 'false',
    n: 'broker-a',
  },
  flag: 0,
  language: 'JAVA',
  opaque: -5,
  serializeTypeCurrentRPC: 'JSON',
  version: 513,
});

describe('scanJsonHeader', () => {
  it('reads the header of a send in place', () => {
    const view = new HeaderView();
    const bytes = Buffer.from(SEND);
    view.reset(bytes);
    assert.equal(scanJsonHeader(bytes, 0, bytes.length, view), true);
    assert.equal(view.count, 13);
    assert.equal(view.code, 310);
    assert.equal(view.opaque, -5);
    assert.equal(view.language, 'JAVA');
    assert.equal(view.get('b'), 'Topic');
    assert.equal(view.int('e'), 3);
    assert.equal(view.long('g'), 1_795_994_119_136);
    assert.equal(view.bool('m', true), false);
    assert.equal(view.get('i'), 'UNIQ_KEY\u00017F000001\u0002WAIT\u0001true\u0002TAGS\u0001é😀"\\/\u0002');
    assert.equal(view.get('z'), undefined);
    assert.equal(view.escaped[view.indexOf('b')], 0);
    assert.equal(view.escaped[view.indexOf('i')], 1);
  });

  it('takes numbers and booleans as values, in any order and with blanks, as the C++ client writes them', () => {
    const text =
      ' {\n "opaque" : 7 , "extFields" : { "queueId":3 , "x":true,"y" : false , "z":-1 } , "code":11 } \r\n\t';
    assert.equal(isScanned(text), true);
    assert.deepEqual(decoded(text).ext, { queueId: '3', x: 'true', y: 'false', z: '-1' });
    assert.equal(decoded(text).opaque, 7);
  });

  it('lets the last of duplicate keys win', () => {
    const text = '{"code":1,"code":2,"extFields":{"a":"x"},"extFields":{"b":"1","b":"2"}}';
    assert.equal(isScanned(text), true);
    assert.equal(decoded(text).code, 2);
    assert.deepEqual(decoded(text).ext, { b: '2' });
    const view = new HeaderView();
    const bytes = Buffer.from(text);
    decodeJsonHeader(bytes, 0, bytes.length, view);
    assert.equal(view.get('b'), '2');
  });

  it('finds the end of a string of any length, whatever lies behind the header', () => {
    for (let length = 0; length <= 13; length++) {
      for (const value of ['x'.repeat(length), `${'x'.repeat(length)}\\u0001y`, `${'x'.repeat(length)}\\"`]) {
        const text = `{"extFields":{"a":"${value}","long":"${value}"}}`;
        for (const behind of ['', '"', '\\', 'z"z\\z"']) {
          const bytes = Buffer.from(`"${text}${behind}`);
          const end = bytes.length - behind.length;
          const view = new HeaderView();
          assert.equal(scanJsonHeader(bytes, 1, end, view), true);
          view.buffer = bytes;
          assert.deepEqual(view.toObject(), { a: JSON.parse(`"${value}"`), long: JSON.parse(`"${value}"`) });
          for (let cut = 1; cut <= 8; cut++) {
            assert.equal(scanJsonHeader(bytes, 1, end - cut, new HeaderView()), false);
          }
        }
      }
    }
  });

  it('keeps longs exact as text', () => {
    const text = '{"code":12,"extFields":{"endTimestamp":9223372036854775807,"s":"9223372036854775807"}}';
    const bytes = Buffer.from(text);
    const view = new HeaderView();
    decodeJsonHeader(bytes, 0, bytes.length, view);
    assert.equal(view.get('endTimestamp'), '9223372036854775807');
    assert.equal(view.long('s'), 2 ** 63);
    assert.throws(() => view.int('s'), GantryError);
  });
});

describe('decodeJsonHeader beyond the scanner', () => {
  const cases: Array<[name: string, text: string, expected: Partial<Decoded>]> = [
    ['numbers as strings', '{"code":"34","opaque":"-7","version":"513"}', { code: 34, opaque: -7, version: 513 }],
    ['language as ordinal', '{"language":9}', { language: 'GO' }],
    ['an unknown language', '{"language":"KLINGON"}', { language: 'OTHER' }],
    ['a null value is absent', '{"extFields":{"a":"x","b":null}}', { ext: { a: 'x' } }],
    ['a later null hides an earlier value', '{"extFields":{"a":"x","a":null}}', { ext: {} }],
    [
      'objects and arrays as text',
      '{"extFields":{"o":{"b":1,"a":[true,null]},"n":12345678901234567890}}',
      { ext: { o: '{"a":[true,null],"b":1}', n: '12345678901234567890' } },
    ],
    ['fractions', '{"extFields":{"d":1.5}}', { ext: { d: '1.5' } }],
    ['escaped keys', '{"\\u0063ode":3,"extFields":{"\\u0061":"b"}}', { code: 3, ext: { a: 'b' } }],
    ['null remark and fields', '{"remark":null,"extFields":null}', { remark: undefined, ext: {} }],
    ['nothing at all', '{}', { code: 0, opaque: 0, flag: 0, version: 0, language: 'JAVA', ext: {} }],
    ['a field that is called __proto__', '{"extFields":{"__proto__":"x"}}', {}],
    ['unknown keys of any kind', '{"code":5,"extra":{"a":[1]},"more":1.5}', { code: 5 }],
  ];
  for (const [name, text, expected] of cases) {
    it(name, () => {
      const actual = decoded(text);
      assert.deepEqual({ ...actual, ...expected }, actual);
    });
  }

  it('takes more fields than there are ranges', () => {
    const ext = Object.fromEntries(Array.from({ length: MAX_RANGES + 1 }, (_, i) => [`k${i}`, `${i}`]));
    assert.deepEqual(decoded(JSON.stringify({ code: 1, extFields: ext })).ext, ext);
  });

  const refused = [
    '',
    '   ',
    'null',
    '[]',
    '"x"',
    '{',
    '{"code":1',
    '{"code":1}x',
    '{"code":"x"}',
    '{"code":1.5}',
    '{"code":true}',
    '{"opaque":2147483648}',
    '{"opaque":-2147483649}',
    '{"opaque":99999999999999999999}',
    '{"code":1,}',
    '{"extFields":[]}',
    '{"extFields":{"a":"\\u00g0"}}',
    '{"extFields":{"a":"\\x"}}',
    '{"extFields":{"a":01}}',
    'GET / HTTP/1.1\r\n\r\n',
    `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`,
    '['.repeat(10_000),
  ];
  for (const text of refused) {
    it(`refuses ${text.slice(0, 40) || 'nothing'}`, () => {
      assert.throws(
        () => decoded(text),
        (error: unknown) => error instanceof GantryError && error.code === 'FRAME',
      );
    });
  }
});

describe('HeaderView', () => {
  function view(fields: string): HeaderView {
    const bytes = Buffer.from(`{"extFields":${fields}}`);
    const header = new HeaderView();
    decodeJsonHeader(bytes, 0, bytes.length, header);
    return header;
  }

  it('says which field is missing or no number', () => {
    const header = view('{"a":"x","b":"","c":"+5","d":"9223372036854775808","e":"2147483648"}');
    const code1 = (error: unknown): boolean =>
      error instanceof GantryError && error.code === 'HEADER' && error.responseCode === 1;
    assert.throws(() => header.required('topic'), /the custom field <topic> is null/);
    assert.throws(() => header.int('topic'), code1);
    assert.throws(() => header.long('topic'), code1);
    assert.throws(() => header.int('a'), /<a> is not a number of its size: For input string: "x"/);
    assert.throws(() => header.long('b'), code1);
    assert.throws(() => header.longOr('d', 0), code1);
    assert.throws(() => header.intOr('e', 0), code1);
    assert.equal(header.int('c'), 5);
    assert.equal(header.intOr('topic', -1), -1);
    assert.equal(header.longOr('topic', -2), -2);
    assert.equal(header.bool('topic', true), true);
  });

  it('reads numbers alike from ranges and from parsed fields', () => {
    for (const text of [
      '0',
      '-0',
      '-1',
      '15',
      '1.5',
      '9007199254740993',
      '-9223372036854775808',
      '1e3',
      '0x10',
      ' 1',
    ]) {
      const scanned = view(JSON.stringify({ n: text }));
      const parsed = view(`{"n":${JSON.stringify(text)},"o":{}}`);
      assert.equal(parsed.count, -1);
      const outcome = (header: HeaderView): unknown => {
        try {
          return header.long('n') + 0;
        } catch (error) {
          return (error as Error).message;
        }
      };
      assert.equal(outcome(scanned), outcome(parsed), text);
    }
  });
});

// What JSON.parse makes of a header: an oracle that shares no code with the scanner or the parser behind it.
function oracle(text: string): Decoded {
  const root = JSON.parse(text) as Record<string, unknown>;
  const ext = Object.fromEntries(
    Object.entries((root['extFields'] ?? {}) as Record<string, unknown>)
      .filter(([, value]) => value !== null)
      .map(([key, value]) => [key, typeof value === 'object' ? canonical(value) : String(value)]),
  );
  return {
    code: Number(root['code'] ?? 0),
    opaque: Number(root['opaque'] ?? 0),
    flag: Number(root['flag'] ?? 0),
    version: Number(root['version'] ?? 0),
    language: String(root['language'] ?? 'JAVA'),
    remark: root['remark'] === null || root['remark'] === undefined ? undefined : String(root['remark']),
    ext,
  };
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).filter(([, field]) => field !== null);
  fields.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return `{${fields.map(([key, field]) => `${JSON.stringify(key)}:${canonical(field)}`).join(',')}}`;
}

const space = fc.constantFrom('', '', '', ' ', '\n', ' \t\r\n');
const text = fc.oneof(
  fc.string(),
  fc.string({ unit: 'grapheme' }),
  fc.constantFrom('', 'topic', 'UNIQ_KEY\u0001A\u0002', '"\\/\b\f\n\r\t', 'é😀\u2028'),
);

/** A JSON string with some characters escaped that need not be. */
const jsonString = fc.tuple(text, fc.infiniteStream(fc.boolean())).map(([value, escapes]) => {
  let out = '';
  for (let i = 0; i < value.length; i++) {
    const plain = JSON.stringify(value[i]).slice(1, -1);
    const wantsEscape = escapes.next().value === true && value.charCodeAt(i) < 0x80;
    out += wantsEscape ? `\\u${value.charCodeAt(i).toString(16).padStart(4, '0')}` : plain;
  }
  return `"${out}"`;
});
/** The same, but whole characters stay whole: JSON.stringify escapes half of a pair. */
const wholeString = text.map((value) => JSON.stringify(value));
const anyString = fc.oneof(jsonString, wholeString);
const extValue = fc.oneof(
  { weight: 5, arbitrary: anyString },
  { weight: 2, arbitrary: fc.integer().map(String) },
  { weight: 1, arbitrary: fc.constantFrom('true', 'false', 'null', '-0', '1.25', '1e3', '9007199254740991') },
  { weight: 1, arbitrary: fc.constantFrom('{}', '[]', '{"b":"x","a":[1,null,{"c":true}]}') },
);

function object(members: fc.Arbitrary<[string, string][]>): fc.Arbitrary<string> {
  return fc.tuple(members, fc.infiniteStream(space)).map(([list, spaces]) => {
    const blank = (): string => spaces.next().value as string;
    const body = list.map(([key, value]) => `${blank()}${key}${blank()}:${blank()}${value}${blank()}`);
    return `${blank()}{${body.length === 0 ? blank() : body.join(',')}}${blank()}`;
  });
}

const key = fc.oneof(fc.constantFrom('"topic"', '"a"', '"b"', '"queueId"'), anyString);
const member = fc.oneof(
  fc.tuple(fc.constantFrom('"code"', '"flag"', '"opaque"', '"version"'), fc.integer().map(String)),
  fc.tuple(fc.constant('"language"'), fc.constantFrom('"JAVA"', '"GO"', '"NODE_JS"')),
  fc.tuple(fc.constant('"remark"'), fc.oneof(anyString, fc.constant('null'))),
  fc.tuple(
    fc.constant('"extFields"'),
    fc.oneof(object(fc.array(fc.tuple(key, extValue), { maxLength: 8 })), fc.constant('null')),
  ),
  fc.tuple(
    fc.constantFrom('"serializeTypeCurrentRPC"', '"more"', '"cod"', '"flags"', '"extField"'),
    fc.constantFrom('"JSON"', '1', 'true', 'null', '{"a":1}', '[1,2]'),
  ),
);
const header = object(fc.array(member as fc.Arbitrary<[string, string]>, { maxLength: 8 }));

describe('header properties', () => {
  it('the scanner, the parser and JSON.parse agree', () => {
    let scans = 0;
    fc.assert(
      fc.property(header, (source) => {
        const expected = oracle(source);
        const bytes = Buffer.from(source);
        const parsed = new HeaderView();
        parsed.reset(bytes);
        parseJsonHeader(bytes, 0, bytes.length, parsed);
        assert.deepEqual(contents(parsed), expected);
        const scanned = new HeaderView();
        scanned.reset(bytes);
        if (!scanJsonHeader(bytes, 0, bytes.length, scanned)) return;
        scans++;
        assert.deepEqual(contents(scanned), expected);
        for (const [name, value] of Object.entries(expected.ext)) {
          if (/^[ -~]*$/.test(name)) assert.equal(scanned.get(name), value);
        }
      }),
      { numRuns: 2000 },
    );
    assert.ok(scans > 200, `only ${scans} headers were of the scanner's kind`);
  });

  it('every truncation is refused with our own error', () => {
    const bytes = Buffer.from(SEND);
    const view = new HeaderView();
    for (let end = 0; end < bytes.length; end++) {
      assert.throws(() => decodeJsonHeader(bytes, 0, end, view), GantryError);
    }
  });

  it('bytes behind the header are never looked at', () => {
    const bytes = Buffer.concat([Buffer.from(SEND), Buffer.from('"}}}}')]);
    const view = new HeaderView();
    decodeJsonHeader(bytes, 0, bytes.length - 5, view);
    assert.equal(view.get('n'), 'broker-a');
  });

  it('changed bytes raise nothing but our own error', () => {
    const changes = fc.array(fc.tuple(fc.nat(SEND.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 });
    const view = new HeaderView();
    fc.assert(
      fc.property(changes, (list) => {
        const bytes = Buffer.from(SEND);
        for (const [at, value] of list) bytes[at] = value;
        try {
          decodeJsonHeader(bytes, 0, bytes.length, view);
          contents(view);
        } catch (error) {
          assert.ok(error instanceof GantryError, String(error));
        }
      }),
      { numRuns: 3000 },
    );
  });
});
