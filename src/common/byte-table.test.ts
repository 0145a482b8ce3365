import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ByteTable } from './byte-table.ts';

interface Entry {
  readonly bytes: Uint8Array;
}
const entry = (text: string): Entry => ({ bytes: Buffer.from(text) });

test('finds entries by bytes inside others, also of one hash', () => {
  const table = new ByteTable<Entry>();
  // "Aa" and "BB" have one hash.
  const added = ['Aa', 'BB', 'AaBB', ''].map(entry);
  for (const one of added) table.add(one, one.bytes);
  const around = Buffer.from('xAaBBx');
  assert.equal(table.find(around, 1, 3), added[0]);
  assert.equal(table.find(around, 3, 5), added[1]);
  assert.equal(table.find(around, 3, 5), added[1]);
  assert.equal(table.find(around, 1, 5), added[2]);
  assert.equal(table.find(around, 2, 2), added[3]);
  assert.equal(table.find(around, 0, 3), undefined);
  assert.equal(table.find(Buffer.from('BBAa'), 0, 4), undefined, 'the hash of AaBB alone');
  assert.deepEqual([...table.values()], added.slice(0, 3).concat(added[3]!));
});

test('an entry that is only looked at first is gone with the next one', () => {
  const table = new ByteTable<Entry>();
  const kept = entry('kept');
  table.add(kept, kept.bytes);
  const brief = entry('brief');
  table.lookFirstAt(brief, brief.bytes);
  assert.equal(table.find(brief.bytes, 0, 5), brief);
  assert.equal(table.find(kept.bytes, 0, 4), kept);
  assert.equal(table.find(brief.bytes, 0, 5), undefined);
});
