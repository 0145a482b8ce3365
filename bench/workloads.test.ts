import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LoadFigures } from './load-run.ts';
import { refused } from './workloads.ts';

test('requests that were refused as busy are counted; any other code, or nothing done, is no measurement', () => {
  const driven = (errors: Record<string, number>, messages = 1): LoadFigures => ({
    ...{ messages, accepted: 1, seconds: 1, perSecond: 1, p50Ms: 1, p99Ms: 1, maxMs: 1 },
    ...{ errors, serverCpuMicros: 1, clientCpuMicros: 1 },
  });
  assert.equal(refused(driven({})), 0);
  assert.equal(refused(driven({ 2: 7 })), 7);
  assert.throws(() => refused(driven({ 2: 7, 1: 1 })), /error codes: .*"1":1/);
  assert.throws(() => refused(driven({ 2: 7 }, 0)), /nothing was acknowledged; refused as busy: 7/);
});
