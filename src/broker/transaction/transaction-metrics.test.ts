import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readWhole, writeWhole } from '../../io/index.ts';
import { World } from './transaction.test.support.ts';

const METRICS = '/store/config/transactionMetrics';

test('the counts of open transactions are saved as RocketMQ writes them, and a damaged file refuses no start', async () => {
  const w = await new World().start();
  await w.half('u1');
  await w.half('u2');
  await w.pass(11_000, 100);
  const text = Buffer.from(readWhole(w.fs, METRICS)!).toString();
  assert.match(
    text,
    /^\{"dataVersion":\{"counter":2,"stateVersion":0,"timestamp":\d+\},"transactionCount":\{"T":\{"count":2,"timeStamp":\d+\}\}\}$/,
  );
  await w.stop();
  await w.start();
  assert.equal(w.broker.context.transactions.metrics.count('T'), 2);
  await w.stop();
  for (const file of [METRICS, `${METRICS}.bak`]) writeWhole(w.fs, file, '{"transactionCount":', true);
  await w.start();
  assert.equal(w.broker.context.transactions.metrics.count('T'), 0);
});

test('an end that is noted behind the stop begins no timer', async () => {
  const w = await new World().start();
  const { metrics, ops } = w.broker.context.transactions;
  await w.stop();
  const before = w.clock.started;
  ops.add(0, 7);
  metrics.add('T', -1);
  assert.equal(w.clock.started, before);
});
