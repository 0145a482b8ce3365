// Many queues on the real disk: what they cost in blocks and open files. The whole size, 20,000 queues, is measured by
// `npm run bench -- queues`.

import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { hostField } from '../message/index.ts';
import { MessageStore, PutMessageStatus, PutRequest, PutResult } from './index.ts';

const TOPICS = 40;
const QUEUES = 8;
const PER_QUEUE = 10;
const HOST = hostField('127.0.0.1', 10_911);

function blocks(folder: string): number {
  let bytes = 0;
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    bytes += statSync(join(folder, name)).blocks * 512;
  }
  return bytes;
}

test('320 queues with 10 messages each: a block and a folder each, and no handle', async (t) => {
  const descriptors = (): number => readdirSync('/proc/self/fd').length;
  if (!existsSync('/proc/self/fd')) return t.skip('this system does not tell what is open');
  const dir = mkdtempSync(join(tmpdir(), 'gantry-queues-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const settings = { storePathRootDir: dir, mappedFileSizeCommitLog: 64 * 1024 * 1024, gantryQueuesLookedAt: 100 };
  const before = descriptors();
  const store = await MessageStore.open(settings);
  const request = new PutRequest();
  const result = new PutResult();
  request.bornHost = request.storeHost = HOST;
  request.body = Buffer.from('body');
  request.bodyEnd = request.body.length;
  for (let n = 0; n < TOPICS * QUEUES * PER_QUEUE; n++) {
    request.topic = `Topic${n % TOPICS}`;
    request.topicBytes = Buffer.from(request.topic);
    request.queueId = Math.floor(n / TOPICS) % QUEUES;
    store.put(request, result);
    assert.equal(result.status, PutMessageStatus.PUT_OK, result.reason);
  }
  await store.close();
  const perQueue = blocks(join(dir, 'consumequeue')) / (TOPICS * QUEUES);
  assert.ok(perQueue <= 10_000, `${perQueue} bytes of disk a queue, its folder included`);

  const again = await MessageStore.open(settings);
  const opened = descriptors() - before;
  assert.ok(opened < 20, `${opened} descriptors`);
  assert.equal(again.recovery.dispatched, 0);
  for (let n = 0; n < TOPICS; n += 3) assert.equal(again.maxOffsetInQueue(`Topic${n}`, n % QUEUES), PER_QUEUE);
  await again.close();
  assert.ok(descriptors() <= before + 2, 'all is closed');
});
