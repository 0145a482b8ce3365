import assert from 'node:assert/strict';
import { test } from 'node:test';
import { linesOf, spread, table } from './report.ts';

test('spread: median of odd and even numbers of rounds', () => {
  assert.deepEqual(spread([5, 1, 3]), { median: 3, min: 1, max: 5 });
  assert.deepEqual(spread([4, 2]), { median: 3, min: 2, max: 4 });
  assert.equal(spread([]), undefined);
});

test('a ratio is Gantry by Java, and absent where Java is', () => {
  const result = { name: 'send', title: 'sends', java: [{ 'sends/s': 10 }], gantry: [{ 'sends/s': 40, 'p99 ms': 2 }] };
  assert.deepEqual(
    linesOf(result).map((line) => [line.figure, line.ratio]),
    [
      ['sends/s', 4],
      ['p99 ms', undefined],
    ],
  );
  assert.match(table([result]), /sends\/s +10\.0 +40\.0 +4\.00/);
});
