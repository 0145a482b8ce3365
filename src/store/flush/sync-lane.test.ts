// The lane on a real disk, from the door of the store.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { CollectingLogger } from '../../common/index.ts';
import { type FileHandle, type FileSystem, nodeFileSystem, type SyncLane } from '../../io/index.ts';
import { MessageStore, type MessageStoreConfig, PutMessageStatus, PutResult } from '../index.ts';
import { putRequest } from '../put/put-request.test.support.ts';

function open(folder: string, fs: FileSystem, config: Partial<MessageStoreConfig> = {}): Promise<MessageStore> {
  return MessageStore.open(
    { storePathRootDir: folder, mappedFileSizeCommitLog: 1024 * 1024, maxHashSlotNum: 16, maxIndexNum: 64, ...config },
    { fs, logger: new CollectingLogger() },
  );
}

function send(store: MessageStore): Promise<PutMessageStatus> {
  const result = new PutResult();
  store.put(putRequest('T', 'm'), result);
  return new Promise((resolve) => store.whenDurable(result.wroteOffset + result.wroteBytes, true, resolve));
}

/** The real disk, its lanes and their syncs counted. */
function watched(): {
  fs: FileSystem;
  lanes: Array<{ syncs: number; files: Set<string>; atOnce: number; open: boolean }>;
} {
  const lanes: Array<{ syncs: number; files: Set<string>; atOnce: number; open: boolean }> = [];
  const openSyncLane: FileSystem['openSyncLane'] = (logger) => {
    const lane = nodeFileSystem.openSyncLane(logger);
    const seen = { syncs: 0, files: new Set<string>(), atOnce: 0, open: true };
    lanes.push(seen);
    let running = 0;
    const sync: SyncLane['sync'] = (file: FileHandle, done) => {
      seen.syncs++;
      seen.files.add(file.path.split('/').at(-2)!);
      seen.atOnce = Math.max(seen.atOnce, ++running);
      lane.sync(file, (error) => {
        running--;
        done(error);
      });
    };
    return {
      sync,
      close: async () => {
        await lane.close();
        seen.open = false;
      },
    };
  };
  return { fs: { ...nodeFileSystem, openSyncLane }, lanes };
}

test('each store with sync flush has a lane for its log alone, one sync at a time, and a close ends it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-lanes-'));
  const { fs, lanes } = watched();
  const stores = await Promise.all(
    ['a', 'b'].map((name) => open(join(folder, name), fs, { flushDiskType: 'SYNC_FLUSH' })),
  );
  for (let round = 0; round < 20; round++) {
    const answers = await Promise.all(stores.flatMap((store) => [send(store), send(store), send(store)]));
    assert.ok(answers.every((status) => status === PutMessageStatus.PUT_OK));
  }
  for (const store of stores) await store.close();
  assert.equal(lanes.length, 2);
  for (const lane of lanes) {
    assert.ok(lane.syncs >= 20);
    assert.deepEqual([[...lane.files], lane.atOnce, lane.open], [['commitlog'], 1, false]);
  }
  rmSync(folder, { recursive: true });
});

test('with asynchronous flush there is none', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-lanes-'));
  const { fs, lanes } = watched();
  const store = await open(folder, fs);
  assert.equal(await send(store), PutMessageStatus.PUT_OK);
  await store.close();
  assert.equal(lanes.length, 0);
  rmSync(folder, { recursive: true });
});

test('a start that fails leaves no lane behind', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-lanes-'));
  let opened = 0;
  for (const path of ['/abort', '/gantry/boot']) {
    const { fs, lanes } = watched();
    const unwritable: FileSystem = {
      ...fs,
      open: (file, mode) => {
        if (file.endsWith(path) && mode === 'create') throw new Error('no space');
        return fs.open(file, mode);
      },
    };
    await assert.rejects(open(folder, unwritable, { flushDiskType: 'SYNC_FLUSH' }), /no space/);
    assert.ok(lanes.every((lane) => !lane.open));
    opened += lanes.length;
  }
  assert.ok(opened > 0);
  rmSync(folder, { recursive: true });
});
