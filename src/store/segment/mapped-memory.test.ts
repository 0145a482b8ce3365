// The mapped kind on a real disk: files roll, records run over panes, everything is where it was put, and stays there.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { SeededRandom } from '../../common/index.ts';
import { nodeFileSystem } from '../../io/index.ts';
import { hostField, RecordOutcome, RecordView, readRecord, Verify } from '../../message/index.ts';
import { MessageStore, type MessageStoreConfig, PutMessageStatus, PutRequest, PutResult } from '../index.ts';

const folder = mkdtempSync(join(tmpdir(), 'gantry-mapped-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const skip = nodeFileSystem.mapper === undefined && 'files cannot be mapped here';
const MIB = 1024 * 1024;

for (const flushDiskType of ['ASYNC_FLUSH', 'SYNC_FLUSH'] as const) {
  test(`${flushDiskType}: records of all sizes in mapped files`, { skip }, async () => {
    const config: Partial<MessageStoreConfig> & { storePathRootDir: string } = {
      storePathRootDir: join(folder, flushDiskType),
      mappedFileSizeCommitLog: MIB + 12_345,
      messageIndexEnable: false,
      flushDiskType,
      gantryDiskFullRatio: 1,
      warmMapedFileEnable: flushDiskType === 'SYNC_FLUSH',
    };
    const random = new SeededRandom(7);
    const request = new PutRequest();
    request.topic = 'T';
    request.topicBytes = Buffer.from('T');
    request.bornHost = hostField('127.0.0.1', 1);
    request.storeHost = request.bornHost;
    const result = new PutResult();
    const places: Array<{ offset: number; fill: number; length: number }> = [];

    let store = await MessageStore.open({ ...config, gantrySegments: 'mapped' });
    for (let turn = 0; turn < 60; turn++) {
      for (let n = 0; n < 5; n++) {
        const length = random.int(10) === 0 ? random.int(300_000) : random.int(3000);
        const fill = random.int(256);
        request.body = Buffer.alloc(length, fill);
        request.bodyEnd = length;
        store.put(request, result);
        assert.equal(result.status, PutMessageStatus.PUT_OK, result.reason);
        places.push({ offset: result.wroteOffset, fill, length });
      }
      const end = result.wroteOffset + result.wroteBytes;
      const status = await new Promise((resolve) => store.whenDurable(end, true, resolve));
      assert.equal(status, PutMessageStatus.PUT_OK);
    }
    const check = async (): Promise<void> => {
      const record = new RecordView();
      for (const { offset, fill, length } of places) {
        const bytes = await store.recordAt(offset);
        assert.ok(bytes !== undefined, `a record at ${offset}`);
        const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
        assert.equal(readRecord(bytes, view, 0, bytes.length, Verify.BODY_CRC, record), RecordOutcome.RECORD);
        assert.equal(record.bodyEnd - record.bodyStart, length);
        if (length > 0) assert.equal(bytes[record.bodyStart], fill);
      }
    };
    await check();
    await store.close();
    assert.equal(statSync(join(config.storePathRootDir, 'commitlog', '0'.repeat(20))).size, MIB + 12_345);

    store = await MessageStore.open({ ...config, gantrySegments: 'buffered' });
    assert.equal(store.recovery.clean, true);
    assert.equal(store.recovery.end, result.wroteOffset + result.wroteBytes);
    await check();
    await store.close();
  });
}
