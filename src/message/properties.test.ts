import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { nameBytes, PropertyTable, parseProperties, propertiesTextInJavaOrder } from './properties.ts';

function tableText(table: PropertyTable): string {
  const target = new Uint8Array(table.bytes());
  assert.equal(table.write(target, 0), target.length);
  return Buffer.from(target).toString('utf8');
}

test('the order is that of a Java HashMap of capacity 128 and of 16', () => {
  const names = 'KEYS TAGS UNIQ_KEY WAIT CLUSTER DELAY REAL_TOPIC REAL_QID TRAN_MSG PGROUP'.split(' ');
  const map = new Map(names.map((name) => [name, 'v']));
  const order = (text: string): string => [...parseProperties(text).keys()].join(' ');
  assert.equal(
    order(propertiesTextInJavaOrder(map, 128)),
    'UNIQ_KEY CLUSTER PGROUP DELAY TAGS TRAN_MSG KEYS WAIT REAL_TOPIC REAL_QID',
  );
  assert.equal(
    order(propertiesTextInJavaOrder(map, 16)),
    'REAL_TOPIC KEYS TRAN_MSG UNIQ_KEY CLUSTER WAIT DELAY PGROUP TAGS REAL_QID',
  );
});

test('pairs without name or value are dropped, and the last duplicate wins', () => {
  const text = 'A\u0001\u0002\u0001x\u0002noSeparator\u0002B\u00011\u0002C\u0001a\u0001b\u0002B\u00012';
  const bytes = Buffer.from(text, 'utf8');
  const table = new PropertyTable();
  table.read(bytes, 0, bytes.length);
  assert.deepEqual(Object.fromEntries(parseProperties(text)), { B: '2', C: 'a\u0001b' });
  assert.equal(table.get(nameBytes('B')), '2');
  assert.equal(table.get(nameBytes('C')), 'a\u0001b');
  assert.equal(table.count, 2);
});

test('the table over bytes and the functions over maps agree', () => {
  const word = fc
    .string({ unit: 'grapheme', maxLength: 8 })
    .filter((s) => !s.includes('\u0001') && !s.includes('\u0002'));
  fc.assert(
    fc.property(fc.array(fc.tuple(word, word), { maxLength: 120 }), word, (pairs, value) => {
      const text = pairs.map(([name, v]) => `${name}\u0001${v}\u0002`).join('');
      const bytes = Buffer.from(text, 'utf8');
      const map = parseProperties(bytes.toString('utf8'));
      const table = new PropertyTable();
      table.read(bytes, 0, bytes.length);
      assert.equal(tableText(table), propertiesTextInJavaOrder(map));
      if (value.length === 0) return;
      map.set('CLUSTER', value);
      table.put(nameBytes('CLUSTER'), Buffer.from(value, 'utf8'));
      assert.equal(tableText(table), propertiesTextInJavaOrder(map));
    }),
  );
});

test('thousands of names, also with one Java hash, are found, replaced and ordered as a few are', () => {
  const alike = (n: number): string => n.toString(2).padStart(11, '0').replace(/0/g, 'Aa').replace(/1/g, 'BB');
  for (const nameOf of [(n: number) => `n${n}`, alike]) {
    const names = Array.from({ length: 1_500 }, (_, i) => nameOf(i));
    const text = [...names, ...names.slice(700, 800)].map((name, i) => `${name}\u0001${i}\u0002`).join('');
    const bytes = Buffer.from(text, 'utf8');
    const table = new PropertyTable();
    for (let round = 0; round < 2; round++) {
      table.read(bytes, 0, bytes.length);
      assert.equal(table.count, names.length);
      assert.equal(table.get(nameBytes(names[750]!)), '1550');
      assert.equal(table.find(nameBytes('absent')), -1);
      assert.equal(tableText(table), propertiesTextInJavaOrder(parseProperties(text)));
      table.read(bytes, 0, 40);
      assert.ok(table.count < 10);
    }
  }
});
