import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { GantryError } from '../errors.ts';
import { decodeProperties, editProperties, escapeValue, parseProperties } from './properties.ts';

function table(text: string): Record<string, string> {
  return Object.fromEntries(parseProperties(text, 'x.conf').map((entry) => [entry.key, entry.value]));
}

test('separators, blanks and comments are those of java.util.Properties', () => {
  assert.deepEqual(table('a=1\nb:2\nc 3\n d\t=\f4\n\n# e=5\n  ! f=6\ng\nh==i\nj = k = l'), {
    a: '1',
    b: '2',
    c: '3',
    d: '4',
    g: '',
    h: '=i',
    j: 'k = l',
  });
});

test('line breaks of every kind end a line', () => {
  assert.deepEqual(table('a=1\rb=2\r\nc=3\n\r\nd=4'), { a: '1', b: '2', c: '3', d: '4' });
});

test('a line that ends in an odd number of backslashes goes on in the next one', () => {
  assert.deepEqual(table('a=1,\\\n   2,\\\r\n\t3\nb=4\\\\\nc=5\\\\\\\n6'), { a: '1,2,3', b: '4\\', c: '5\\6' });
  assert.deepEqual(table('a=1\\\n\nb=2'), { a: '1', b: '2' });
  assert.deepEqual(table('a=1\\\n#2'), { a: '1#2' });
});

test('escapes are resolved in keys and values', () => {
  assert.deepEqual(table('a\\=b\\:c\\ d=\\t\\n\\u0041\\u00e9\\q\\\\'), { 'a=b:c d': '\t\nAéq\\' });
});

test('a malformed \\u escape names the file and the line', () => {
  assert.throws(
    () => parseProperties('a=1\nb=\\u12g4', 'x.conf'),
    (error) =>
      error instanceof GantryError && error.code === 'CONFIG_FILE' && error.message.startsWith('x.conf line 2:'),
  );
});

test('trailing blanks belong to the value, and lines are counted through continuations', () => {
  const entries = parseProperties('a=1  \nb=2\\\n3\n\nc=4', 'x.conf');
  assert.deepEqual(
    entries.map(({ key, value, line }) => [key, value, line]),
    [
      ['a', '1  ', 1],
      ['b', '23', 2],
      ['c', '4', 5],
    ],
  );
});

test('UTF-8 is read as such, with or without a byte order mark; anything else as ISO-8859-1', () => {
  assert.deepEqual(decodeProperties(Buffer.from('a=é', 'utf8')), { text: 'a=é', encoding: 'utf8' });
  assert.deepEqual(decodeProperties(Buffer.from('\uFEFFa=1', 'utf8')).text, 'a=1');
  assert.deepEqual(decodeProperties(Buffer.from('a=é', 'latin1')), { text: 'a=é', encoding: 'latin1' });
});

const someText = fc.string({
  unit: fc.constantFrom(
    '\\',
    '\n',
    '\r',
    '\r\n',
    ' ',
    '\t',
    '=',
    ':',
    '#',
    '!',
    'a',
    'b',
    'key',
    '\\u0041',
    'ü',
    '\\\n ',
  ),
  maxLength: 20,
});

test('any text is parsed, or refused with our own error', () => {
  fc.assert(
    fc.property(someText, (text) => {
      try {
        for (const { start, end } of parseProperties(text, 'x')) assert.ok(start < end && end <= text.length);
      } catch (error) {
        assert.ok(error instanceof GantryError && error.code === 'CONFIG_FILE');
      }
    }),
  );
});

test('an escaped value comes back as it was', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (value) => {
      assert.equal(table(`key=${escapeValue(value)}`)['key'], value);
    }),
  );
});

test('B68 changing one setting rewrites the whole config file: only its line changes', () => {
  const file = [
    '# our broker',
    'brokerName = broker-a',
    '! kept since 2019',
    'messageDelayLevel : 1s 2s',
    '',
    'fileReservedTime=48   ',
    '  maxMessageSize\t1024',
    'namesrvAddr=a:9876;\\',
    '            b:9876',
  ].join('\n');
  const lines = file.split('\n');

  const delay = editProperties(file, 'messageDelayLevel', '1s 5s 10s');
  assert.deepEqual(delay.split('\n'), [...lines.slice(0, 3), 'messageDelayLevel : 1s 5s 10s', ...lines.slice(4)]);

  const names = editProperties(file, 'namesrvAddr', 'c:9876');
  assert.deepEqual(names.split('\n'), [...lines.slice(0, 7), 'namesrvAddr=c:9876']);

  const size = editProperties(file, 'maxMessageSize', '2048');
  assert.deepEqual(size.split('\n'), [...lines.slice(0, 6), '  maxMessageSize\t2048', ...lines.slice(7)]);

  const added = editProperties(file, 'traceOn', 'false');
  assert.equal(added, `${file}\ntraceOn=false\n`);
  assert.equal(editProperties('a=1\r\n', 'b', ' 2'), 'a=1\r\nb=\\ 2\r\n');
});

test('B68 a file that ends in a continued line keeps that line to itself', () => {
  for (const end of ['\\', '\\\n', '\\\r', '\\\\\\\r', '\\\r\n']) {
    assert.equal(table(editProperties(`b=1${end}`, 'a', 'x'))['a'], 'x', JSON.stringify(end));
    assert.equal(table(editProperties(end, 'a', ''))['a'], '', JSON.stringify(end));
  }
});

test('B68 of a key that is there twice the line that counts is changed', () => {
  assert.equal(editProperties('a=1\na=2\n', 'a', '3'), 'a=1\na=3\n');
});

test('B68 whatever stands in a file, an edit changes one key and no other', () => {
  const key = fc.constantFrom('a', 'b', 'key', 'new');
  const value = fc.string({ unit: fc.constantFrom(' ', '=', '\\', 'x', 'é', '\t', '#') });
  fc.assert(
    fc.property(someText, key, value, (text, name, wanted) => {
      let before: Record<string, string>;
      try {
        before = table(text);
      } catch {
        return;
      }
      // A lone backslash before the end of the file has an empty key, which no setting has.
      const { '': _empty, ...others } = before;
      const { '': _also, ...after } = table(editProperties(text, name, wanted));
      assert.deepEqual(after, { ...others, [name]: wanted });
    }),
  );
});
