import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readWhole } from '../../io/index.ts';
import { BrokerFixture } from '../broker-fixture.test.support.ts';
import { Sender } from '../processor/sender.test.support.ts';
import { SendDeduplication } from './send-deduplication.ts';

/** Sends 50 messages, some with keys and some without an id, and answers what the store's files hold then. */
async function filesOf(enabled: boolean): Promise<string[]> {
  const broker = await BrokerFixture.open({ broker: { gantrySendDeduplicationEnable: enabled } });
  const { context, fs } = broker;
  context.topics.load();
  const once = await SendDeduplication.open(context);
  assert.equal(once !== undefined, enabled);
  const sender = new Sender(broker, once);
  for (let i = 0; i < 50; i++) {
    const properties =
      i % 5 === 0 ? 'KEYS\u0001k\u0002' : `UNIQ_KEY\u0001id-${i}\u0002${i % 7 === 0 ? 'DELAY\u00012\u0002' : ''}`;
    const answer = await sender.send({ e: i % 2, g: 1, i: properties }, `body ${i}`);
    assert.equal(answer.code, 0);
  }
  if (enabled) assert.equal(once!.size, 40);
  await context.store.close();
  const folders = [
    'commitlog',
    'consumequeue/T/0',
    'consumequeue/T/1',
    'consumequeue/SCHEDULE_TOPIC_XXXX/1',
    'gantry',
    '',
  ];
  const files: string[] = [];
  for (const folder of folders) {
    for (const name of fs.list(`/store/${folder}`)) {
      if (fs.stat(`/store/${folder}/${name}`)?.isDirectory === true) continue;
      const bytes = readWhole(fs, `/store/${folder}/${name}`)!;
      files.push(`${folder}/${name} ${Buffer.from(bytes).toString('base64')}`);
    }
  }
  return files;
}

test('send de-duplication leaves no trace in any file', async () => {
  const files = await filesOf(false);
  assert.ok(files.length >= 5);
  assert.deepEqual(await filesOf(true), files);
});
