// After each store was opened, new messages go on exactly where Java's ended: offsets, ordinals, and everything is readable together.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { viewOf } from '../../src/common/index.ts';
import { RecordOutcome, RecordView, readRecord, Verify } from '../../src/message/index.ts';
import { FILE_STORES, goldenManifest } from './golden.ts';
import { append, durable, goldenDisk, openStore, read } from './open-store.ts';

/** Each store as its broker was set, and those that Java wrote in other ways with each kind of segments. */
const CASES: ReadonlyArray<readonly [name: string, settings: Readonly<Record<string, string>>]> = [
  ...FILE_STORES.map((name) => [name, {}] as const),
  ...['550-writewithoutmmap', '550-pool-propcrc', '550-pool-propcrc-crash', '550-midwrite-crash'].flatMap((name) =>
    [
      { gantrySegments: 'mapped', writeWithoutMmap: 'false', transientStorePoolEnable: 'false' },
      {
        gantrySegments: 'mapped',
        warmMapedFileEnable: 'true',
        writeWithoutMmap: 'false',
        transientStorePoolEnable: 'false',
      },
      { writeWithoutMmap: 'true', transientStorePoolEnable: 'false' },
      { transientStorePoolEnable: 'true', writeWithoutMmap: 'false' },
    ].map((settings) => [name, settings] as const),
  ),
];

for (const [name, settings] of CASES) {
  const set = Object.entries(settings).filter(([, value]) => value !== 'false');
  test(`${name}: appending goes on where Java's log and queues ended${set.map((pair) => `, ${pair.join('=')}`).join('')}`, async () => {
    const manifest = goldenManifest(name);
    const conf = { ...manifest.brokerConf, ...settings };
    const fs = goldenDisk(name);
    const java = manifest.javaAfterStart!;
    const plain = java.queues.filter(({ topic }) => Buffer.byteLength(topic) <= 127 || topic.startsWith('%RETRY%'));
    let { store } = await openStore(fs, conf);
    let position = manifest.endOfData;
    const fileSize = store.config.mappedFileSizeCommitLog;
    for (let round = 0; round < 2; round++) {
      for (const queue of plain) {
        const result = append(store, queue.topic, queue.queueId, `new-${round}`, 'TagNew');
        // A record that does not fit with eight bytes to spare begins the next file.
        const left = fileSize - (position % fileSize);
        if (result.wroteBytes + 8 > left) position += left;
        assert.equal(result.wroteOffset, position);
        assert.equal(result.queueOffset, queue.maxOffset + round, `${queue.topic}/${queue.queueId}`);
        position += result.wroteBytes;
      }
      await durable(store, position);
      await store.close();
      ({ store } = await openStore(fs, conf));
      assert.equal(store.recovery.clean, true);
      assert.equal(store.watermarks.wrote, position);
    }

    for (const queue of plain) {
      const { topic, queueId, maxOffset } = queue;
      const found = await read(store, { topic, queueId, offset: maxOffset, maxMsgs: 32 });
      assert.equal(found.status, 'FOUND');
      assert.equal(found.messages, 2);
      assert.equal(found.nextBeginOffset, maxOffset + 2);
    }
    const { topic } = plain[0]!;
    const byKey = await store.queryMessage(topic, 'new-1', 64, 0, Number.MAX_SAFE_INTEGER, 'K');
    const record = new RecordView();
    assert.equal(byKey.records.length, plain.filter((queue) => queue.topic === topic).length);
    for (const bytes of byKey.records) {
      assert.equal(readRecord(bytes, viewOf(bytes), 0, bytes.length, Verify.BODY_CRC, record), RecordOutcome.RECORD);
      assert.equal(Buffer.from(bytes.subarray(record.bodyStart, record.bodyEnd)).toString(), 'body of new-1');
    }
    await store.close();
  });
}
