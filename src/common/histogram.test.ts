import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Histogram } from './histogram.ts';

test('quantiles are right to within a bucket, and never above the greatest value', () => {
  const histogram = new Histogram();
  const fine = new Histogram(64);
  assert.equal(histogram.quantile(0.99), 0);
  for (let i = 1; i <= 1000; i++) {
    histogram.add(i / 10);
    fine.add(i / 10);
  }
  assert.equal(histogram.count, 1000);
  for (const [fraction, exact] of [
    [0.5, 50],
    [0.99, 99],
    [0.001, 0.1],
  ] as const) {
    const value = histogram.quantile(fraction);
    assert.ok(value >= exact && value <= exact * 1.1, `${fraction}: ${value}`);
    const closer = fine.quantile(fraction);
    assert.ok(closer >= exact && closer <= exact * 1.012, `${fraction} with 64 steps: ${closer}`);
  }
  assert.equal(histogram.quantile(1), 100);
});

test('what is shorter than the first bucket or longer than the last one is counted all the same', () => {
  const histogram = new Histogram();
  for (const ms of [0, -1, 1e12]) histogram.add(ms);
  assert.equal(histogram.count, 3);
  assert.equal(histogram.quantile(0.5), 0.001 * 2 ** (1 / 8));
  assert.equal(histogram.maxMs, 1e12);
});
