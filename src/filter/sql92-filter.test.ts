import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Sql92Filter } from './sql92-filter.ts';

interface Table {
  messages: Array<Record<string, string>>;
  cases: Array<{ expression: string; verdicts?: string; error?: string }>;
}

/** What RocketMQ 5.5's own filter says: test/interop writes it anew with `filter-table` and compares. */
const table = JSON.parse(readFileSync('test/fixtures/filter/java-verdicts.json', 'utf8')) as Table;

function bytesOf(properties: Record<string, string>): Uint8Array {
  return Buffer.from(
    Object.entries(properties)
      .map(([name, value]) => `${name}\u0001${value}\u0002`)
      .join(''),
  );
}

function verdict(expression: string, text: string): string {
  const bytes = Buffer.from(text);
  return 'FTNX'[new Sql92Filter(expression).verdict(bytes, 0, bytes.length)]!;
}

test('every expression of the table says of every message what Java says', () => {
  const messages = table.messages.map(bytesOf);
  let compared = 0;
  for (const { expression, verdicts } of table.cases) {
    if (verdicts === undefined) continue;
    const filter = new Sql92Filter(expression);
    const ours = messages.map((bytes) => 'FTNX'[filter.verdict(bytes, 0, bytes.length)]).join('');
    assert.equal(ours, verdicts, expression);
    compared += messages.length;
  }
  assert.ok(compared > 2500);
});

test("expressions that Java refuses are refused with Java's words", () => {
  let refused = 0;
  for (const { expression, error } of table.cases) {
    if (error === undefined) continue;
    assert.throws(() => new Sql92Filter(expression), { code: 'SUBSCRIPTION', responseCode: 23, message: error });
    refused++;
  }
  assert.ok(refused > 80);
});

test('the last of two properties of one name counts, and a pair without name or value is none', () => {
  assert.equal(verdict('a = 2', 'a\u00011\u0002a\u00012\u0002'), 'T');
  assert.equal(verdict('a = 1', 'a\u00011\u0002a\u0001\u0002'), 'T');
  assert.equal(verdict('a IS NULL', '\u0001a\u0002b\u00011\u0002a'), 'T');
  assert.equal(verdict("a = '1'", 'junk\u0002a\u00011'), 'T');
  assert.equal(verdict("a = 'x\u0001y'", 'a\u0001x\u0001y\u0002'), 'T');
});

test('a range of a larger buffer is looked at, and no byte beside it', () => {
  const bytes = Buffer.from('a\u00011\u0002b\u00012\u0002c\u00013\u0002');
  const filter = new Sql92Filter('a IS NULL AND b = 2 AND c IS NULL');
  assert.equal(filter.matches(bytes, 4, 8), true);
  assert.equal(filter.matches(bytes, 0, 8), false);
});

test('longs are compared exactly, beyond 2^53 too', () => {
  assert.equal(verdict('a = 9007199254740993', 'a\u00019007199254740993\u0002'), 'T');
  assert.equal(verdict('a > 9007199254740992', 'a\u00019007199254740993\u0002'), 'T');
  assert.equal(verdict('a = 9007199254740992', 'a\u00019007199254740993\u0002'), 'F');
});

test('an expression that nests without end is refused, one with very many terms is not', () => {
  assert.throws(() => new Sql92Filter(`${'('.repeat(200_000)}a${')'.repeat(200_000)}`), { code: 'SUBSCRIPTION' });
  const many = new Sql92Filter(Array.from({ length: 20_000 }, (_, i) => `a <> ${i + 2}`).join(' AND '));
  assert.equal(many.matches(Buffer.from('a\u00011\u0002'), 0, 4), true);
});
