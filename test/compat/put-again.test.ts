// What a Java broker stored, put here once more from what was sent: the log, every kind of queue and the index come out as Java's files.
// Light queues' ordinals and the bases of inner batches are given here, as Java gave them there.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../src/common/index.ts';
import { MemoryFileSystem } from '../../src/io/memory-file-system.ts';
import { hostField, propertiesTextInJavaOrder } from '../../src/message/index.ts';
import { MessageStore, PutMessageStatus, PutRequest, PutResult } from '../../src/store/index.ts';
import { type GoldenMessage, goldenFiles, goldenManifest, packed } from './golden.ts';
import { durable, filesBelow, ROOT, storeConfig, withoutIndexNames } from './open-store.ts';

/** Given by the put. */
const GIVEN = ['INNER_MULTI_QUEUE_OFFSET', 'INNER_BASE'];

function host(text: string): Uint8Array {
  const [address, port] = text.split('|');
  return hostField(address!, Number(port));
}

/** The request that stored a record: `stored` is the record's bytes. */
function requestOf(message: GoldenMessage, stored: Uint8Array): PutRequest {
  const request = new PutRequest();
  request.topic = message.topic;
  request.topicBytes = Buffer.from(message.topic);
  request.queueId = message.queueId;
  request.flag = message.flag;
  request.sysFlag = message.sysFlag;
  request.bornTimestamp = message.bornTimestamp;
  request.bornHost = host(message.bornHost);
  request.storeHost = host(message.storeHost);
  request.reconsumeTimes = message.reconsumeTimes;
  request.preparedTransactionOffset = message.preparedTransactionOffset;
  request.body = stored;
  request.bodyStart = 88;
  request.bodyEnd = 88 + message.bodyLength;
  const topicEnd = request.bodyEnd + 1 + request.topicBytes.length;
  request.properties = stored;
  request.propertiesStart = topicEnd + 2;
  request.propertiesEnd = stored.length;
  if (!GIVEN.some((name) => name in message.properties)) return request;
  const text = Buffer.from(stored.subarray(topicEnd + 2)).toString('utf8');
  const pairs = text.split('\u0002').map((pair) => pair.split('\u0001') as [string, string]);
  const sent = new Map(pairs.filter(([name]) => name !== '' && !GIVEN.includes(name)));
  request.properties = Buffer.from(propertiesTextInJavaOrder(sent));
  request.propertiesStart = 0;
  request.propertiesEnd = request.properties.length;
  return request;
}

for (const name of ['550-features', '550-lmq-poison']) {
  test(`${name}: put again, log, queues and index are Java's byte for byte`, async () => {
    const manifest = goldenManifest(name);
    const java = goldenFiles(name);
    const log = Buffer.concat([...filesBelow(java, 'commitlog')].sort().map(([, bytes]) => bytes));
    const fs = new MemoryFileSystem({ directories: [ROOT] });
    const clock = new FakeClock(manifest.messages[0]!.storeTimestamp);
    const store = await MessageStore.open(
      { storePathRootDir: ROOT, ...storeConfig(manifest.brokerConf) },
      { fs, clock, isBatchTopic: (topic) => topic === 'GoldenBcq' },
    );
    for (const message of manifest.messages) {
      clock.advance(message.storeTimestamp - clock.now());
      const at = message.physicalOffset;
      const result = new PutResult();
      store.put(requestOf(message, log.subarray(at, at + message.storeSize)), result);
      assert.equal(result.status, PutMessageStatus.PUT_OK, result.reason);
      assert.equal(result.wroteOffset, at);
      assert.equal(result.queueOffset, message.queueOffset);
      await durable(store, at + result.wroteBytes);
    }
    await store.close();
    const ours = packed(fs, ROOT);
    const again = filesBelow(ours, 'commitlog');
    assert.ok(Buffer.concat([...again].map(([, bytes]) => bytes)).equals(log.subarray(0, again.size * 65_536)));
    // Java built nothing of the other store.
    if (name !== '550-features') return;
    const folders = ['consumequeue', 'batchconsumequeue', 'index'];
    const [mine, theirs] = [ours, java].map((files) => filesBelow(withoutIndexNames(files), ...folders));
    assert.deepEqual([...mine!.keys()].sort(), [...theirs!.keys()].sort());
    for (const [path, bytes] of theirs!) assert.ok(Buffer.from(bytes).equals(mine!.get(path)!), path);
  });
}
