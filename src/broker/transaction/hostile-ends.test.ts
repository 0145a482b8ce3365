// END_TRANSACTION with fields that are missing, mistyped, too large or contradict each other: RocketMQ's codes and, where it says more than the
// name of an exception, its remarks (asked of a broker of RocketMQ 5.5.0).

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '../../common/index.ts';
import { COMMIT, endFields, type Half, ROLLBACK, World } from './transaction.test.support.ts';

const NO_REMARK_SET = 'not set any response code';
const NOT_FOUND = 'Find prepared transaction message failed';
const I64_MAX = 9_223_372_036_854_775_807n;

/** Field, value (undefined: it is not there), code, remark. */
const TABLE: Array<[string, string | undefined, number, string | null | RegExp]> = [
  ['msgId', undefined, 0, null],
  ['transactionId', undefined, 0, null],
  ['fromTransactionCheck', undefined, 0, null],
  ['fromTransactionCheck', 'maybe', 0, null],
  ['fromTransactionCheck', 'TRUE', 0, null],
  ['commitOrRollback', '12', 0, NO_REMARK_SET],
  ['commitOrRollback', '+8', 0, null],
  ['commitOrRollback', '008', 0, null],
  ['commitOrRollback', undefined, 1, /the custom field <commitOrRollback> is null/],
  ['commitOrRollback', '4', 1, /^commitOrRollback field wrong/],
  ['commitOrRollback', '-8', 1, /^commitOrRollback field wrong/],
  ['commitOrRollback', '', 1, /commitOrRollback> is not a number/],
  ['commitOrRollback', 'commit', 1, /commitOrRollback> is not a number/],
  ['commitOrRollback', '8.0', 1, /commitOrRollback> is not a number/],
  ['commitOrRollback', '4294967304', 1, /commitOrRollback> is not a number/],
  ['producerGroup', undefined, 1, 'The producer group wrong'],
  ['producerGroup', '', 1, 'The producer group wrong'],
  ['producerGroup', 'pg', 1, 'The producer group wrong'],
  ['tranStateTableOffset', undefined, 1, /the custom field <tranStateTableOffset> is null/],
  ['tranStateTableOffset', 'x', 1, /tranStateTableOffset> is not a number/],
  ['tranStateTableOffset', '9223372036854775808', 1, /tranStateTableOffset> is not a number/],
  ['tranStateTableOffset', '9223372036854775807', 1, 'The transaction state table offset wrong'],
  ['tranStateTableOffset', '-1', 1, 'The transaction state table offset wrong'],
  ['commitLogOffset', undefined, 1, /the custom field <commitLogOffset> is null/],
  ['commitLogOffset', '0x10', 1, /commitLogOffset> is not a number/],
  ['commitLogOffset', '9223372036854775808', 1, /commitLogOffset> is not a number/],
  ['commitLogOffset', '9223372036854775807', 1, NOT_FOUND],
  ['commitLogOffset', '-5', 1, NOT_FOUND],
  ['commitLogOffset', '3', 1, NOT_FOUND],
];

test('a field that is missing or wrong is answered with the code and the remark of RocketMQ', async () => {
  const w = await new World().start();
  const delivered: string[] = [];
  for (const [i, [field, value, code, remark]] of TABLE.entries()) {
    const fields = endFields(await w.half(`u${i}`));
    if (value === undefined) delete fields[field];
    else fields[field] = value;
    const answer = await w.endWith(fields);
    assert.equal(answer.code, code, `${field} ${value}`);
    if (remark instanceof RegExp) assert.match(answer.remark!, remark);
    else assert.equal(answer.remark, remark, `${field} ${value}`);
    if (code === 0 && value !== '12') delivered.push(`u${i}`);
  }
  assert.equal((await w.endWith({})).code, 1);
  assert.deepEqual(await w.delivered(), delivered);
  assert.equal(w.producer.isOpen, true);
});

/** Long.parseLong. */
function parsed(text: string | undefined): bigint | undefined {
  if (text === undefined || !/^[+-]?\d+$/.test(text)) return undefined;
  const value = BigInt(text.startsWith('+') ? text.slice(1) : text);
  return value > I64_MAX || value < -I64_MAX - 1n ? undefined : value;
}

test('any mix of fields is answered, ends what it names or nothing, and nothing twice', async () => {
  const random = new SeededRandom(11);
  const w = await new World().start();
  const halves: Half[] = [];
  for (let i = 0; i < 60; i++) halves.push(await w.half(`u${i}`));
  const ends = new Map<number, bigint>();
  const strange = [
    '',
    'x',
    '-1',
    '+0',
    '8',
    '12',
    '9223372036854775808',
    '1e3',
    ' 8',
    '8\u0000',
    '\u0665',
    '0'.repeat(50),
    '"\\',
  ];
  const pick = <T>(of: readonly T[]): T => of[random.int(of.length)]!;
  for (let i = 0; i < 3000; i++) {
    const index = random.int(halves.length);
    const fields = endFields(halves[index]!, pick([COMMIT, ROLLBACK]));
    const names = Object.keys(fields);
    // One in four is as it should be.
    for (let changes = random.int(4); changes > 0; changes--) {
      const field = pick(names);
      const other = endFields(pick(halves));
      if (random.int(4) === 0) delete fields[field];
      else fields[field] = random.int(3) === 0 ? other[field]! : pick(strange);
    }
    const outcome = parsed(fields['commitOrRollback']);
    // Unknown: no answer.
    if (outcome === 0n) continue;
    const fits =
      (outcome === 8n || outcome === 12n) &&
      fields['producerGroup'] === 'PG' &&
      parsed(fields['commitLogOffset']) !== undefined &&
      parsed(fields['tranStateTableOffset']) !== undefined;
    const named = halves.findIndex((half) => BigInt(half.offset) === parsed(fields['commitLogOffset']));
    const ended = fits && named >= 0 && BigInt(halves[named]!.queueOffset) === parsed(fields['tranStateTableOffset']);
    const { code, remark } = await w.endWith(fields);
    assert.equal(code, ended ? 0 : 1, `${JSON.stringify(fields)}: ${remark}`);
    if (ended && !ends.has(named)) ends.set(named, outcome);
  }
  const committed = [...ends].filter(([, outcome]) => outcome === 8n).map(([index]) => `u${index}`);
  assert.ok(committed.length > 5 && committed.length < ends.size);
  assert.deepEqual(await w.delivered(), committed);
  assert.equal(w.producer.isOpen, true);
});
