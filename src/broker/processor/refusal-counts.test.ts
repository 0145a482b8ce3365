// What the runtime information says of sends that are refused: why they are now, and how many were, by cause.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { parseJson, RequestCode } from '../../remoting/index.ts';
import { BrokerFixture } from '../broker-fixture.test.support.ts';
import { registerProcessors } from './register.ts';
import { Sender } from './sender.test.support.ts';

async function refusals(broker: BrokerFixture): Promise<Record<string, string>> {
  const info = await broker.ask(RequestCode.GET_BROKER_RUNTIME_INFO);
  const { table } = parseJson(info.body) as { table: Record<string, string> };
  return Object.fromEntries(
    Object.entries(table).filter(([name]) => name.includes('Refused') && name.startsWith('gantry')),
  );
}

test('a full disk and a failed sync are in the runtime information, with how many sends they have cost', async () => {
  const broker = await BrokerFixture.open({ store: { flushDiskType: 'SYNC_FLUSH' } });
  registerProcessors(broker, broker.context);
  broker.context.topics.load();
  const sender = new Sender(broker);
  const code = async (): Promise<number> => {
    const answer = sender.send({});
    for (let i = 0; i < 20; i++) await setImmediate();
    return (await answer).code;
  };
  assert.equal(await code(), 0);
  assert.deepEqual(await refusals(broker), {});

  broker.fs.reportedUsedFraction = 0.95;
  broker.clock.advance(10_000);
  assert.deepEqual([await code(), await code()], [14, 14]);
  const full = await refusals(broker);
  assert.match(full['gantrySendsRefusedNow']!, /95\.0 % of the partition is used/);
  assert.equal(full['gantryRefusedSends_diskFull'], '2');

  broker.fs.reportedUsedFraction = 0.5;
  broker.clock.advance(10_000);
  assert.equal(await code(), 0);
  assert.deepEqual(await refusals(broker), { gantryRefusedSends_diskFull: '2' });

  broker.fs.fail({ operation: 'sync', path: 'commitlog' });
  assert.equal(await code(), 10, 'nobody knows');
  assert.equal(await code(), 14);
  const failed = await refusals(broker);
  assert.match(failed['gantrySendsRefusedNow']!, /a sync of the CommitLog failed/);
  assert.equal(failed['gantryRefusedSends_unsynced'], '1');
  assert.equal(failed['gantryRefusedSends_syncFailed'], '1');
  await broker.context.store.close();
});
