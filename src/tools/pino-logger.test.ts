import assert from 'node:assert/strict';
import { test } from 'node:test';
import { oneLine } from './pino-logger.ts';

test('what a peer calls itself makes no lines of its own in the log, and no endless ones', () => {
  assert.equal(oneLine('consumer ключ "x" of group g'), 'consumer ключ "x" of group g');
  assert.equal(
    oneLine('a\n[00:00:00.000] ERROR: b\r\u001b[31m\u0000\t\u007f\u0085\u2028'),
    'a\\n[00:00:00.000] ERROR: b\\r\\u001b[31m\\u0000\\t\\u007f\\u0085\\u2028',
  );
  const long = oneLine('y'.repeat(5_000_000));
  assert.ok(long.length < 2_100 && long.endsWith('... (5000000 characters)'));
});
