import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { MemoryFileSystem } from '../../io/index.ts';
import { GetMessageStatus, GetResult, MessageStore, PutResult } from '../index.ts';
import { putRequest } from '../put/put-request.test.support.ts';

/** Units of a queue file. */
const PER_FILE = 10;
const NONE = { all: false, codes: new Set([12_345]) };

/** Where a pull whose tag nobody has goes on, in a queue of 35 messages. */
async function nextOf(offset: number, config: object): Promise<number> {
  const fs = new MemoryFileSystem();
  const store = await MessageStore.open(
    {
      storePathRootDir: '/store',
      mappedFileSizeConsumeQueue: PER_FILE * 20,
      maxHashSlotNum: 16,
      maxIndexNum: 64,
      ...config,
    },
    { fs },
  );
  const put = new PutResult();
  for (let i = 0; i < 35; i++) store.put(putRequest('T', Buffer.from(`m${i}`)), put);
  while (store.maxOffsetInQueue('T', 0) < 35) await turn();
  const result = new GetResult();
  const request = { topic: 'T', queueId: 0, offset, maxMessages: 4, maxBytes: 1 << 20, filter: NONE };
  const selected = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const again = (error?: Error): void => {
        if (error !== undefined) reject(error);
        else if (store.select(request, result, again)) resolve();
      };
      again();
    });
  await selected();
  assert.equal(result.status, GetMessageStatus.NO_MATCHED_MESSAGE);
  await store.close();
  return result.nextBeginOffset;
}

test('travelCqFileNumWhenGetMessage: a pull that matches nothing looks through so many queue files', async () => {
  assert.equal(await nextOf(3, {}), 10, 'to the end of the first file');
  assert.equal(await nextOf(3, { travelCqFileNumWhenGetMessage: 2 }), 20);
  assert.equal(await nextOf(3, { travelCqFileNumWhenGetMessage: 9 }), 35);
  assert.equal(await nextOf(3, { travelCqFileNumWhenGetMessage: 9, maxFilterMessageSize: 15 * 20 }), 18);
});
