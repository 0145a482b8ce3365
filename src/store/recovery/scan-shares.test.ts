import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { CollectingLogger, SeededRandom, silentLogger } from '../../common/index.ts';
import { MemoryFileSystem, readWhole } from '../../io/index.ts';
import { hostField } from '../../message/index.ts';
import { MessageStore, type MessageStoreConfig, PutMessageStatus, PutRequest, PutResult } from '../index.ts';
import { ShareParser } from './share-parser.ts';

const HOST = hostField('127.0.0.1', 10_911);
const FILE_BYTES = 64 * 1024;
const CONFIG: Pick<MessageStoreConfig, 'storePathRootDir'> & Partial<MessageStoreConfig> = {
  storePathRootDir: '/store',
  mappedFileSizeCommitLog: FILE_BYTES,
  mappedFileSizeConsumeQueue: 2000,
  maxHashSlotNum: 64,
  maxIndexNum: 4000,
};
/** Small shares, and no scan is too short. */
const parser = new ShareParser(silentLogger, 4096, 0);
after(() => parser.close());

/** A closed store with random messages in some files of the log. */
async function randomStore(seed: number): Promise<MemoryFileSystem> {
  const random = new SeededRandom(seed);
  const fs = new MemoryFileSystem();
  const store = await MessageStore.open(CONFIG, { fs });
  const result = new PutResult();
  const count = 50 + random.int(400);
  for (let i = 0; i < count; i++) {
    const put = new PutRequest();
    put.topic = `T${random.int(4)}`;
    put.topicBytes = Buffer.from(put.topic);
    put.queueId = random.int(3);
    put.bornHost = HOST;
    put.storeHost = HOST;
    // Some are longer than a share.
    put.body = Buffer.alloc(random.int(20) === 0 ? random.int(9000) : random.int(600), `${i} `);
    put.bodyEnd = put.body.length;
    put.properties = Buffer.from(`KEYS\u0001k${i} all\u0002TAGS\u0001t${random.int(3)}\u0002`);
    put.propertiesEnd = put.properties.length;
    store.put(put, result);
    assert.equal(result.status, PutMessageStatus.PUT_OK, result.reason);
  }
  await store.close();
  return fs;
}

/** Path and bytes of all that is derived from the log. The names of index files are times. */
function derived(fs: MemoryFileSystem): Map<string, string> {
  const files = new Map<string, string>();
  const walk = (path: string): void => {
    for (const name of fs.list(path).sort()) {
      const inner = `${path}/${name}`;
      if (fs.stat(inner)!.isDirectory) walk(inner);
      else
        files.set(
          path.endsWith('/index') ? `index ${files.size}` : inner,
          Buffer.from(readWhole(fs, inner)!).toString('latin1'),
        );
    }
  };
  walk('/store/consumequeue');
  walk('/store/index');
  return files;
}

/** What a start makes of the store, and what it says of the log. */
async function rebuilt(source: MemoryFileSystem, concurrently: boolean, config: Partial<MessageStoreConfig> = {}) {
  const fs = source.clone();
  fs.removeTree('/store/consumequeue');
  fs.removeTree('/store/index');
  const logger = new CollectingLogger();
  const settings = { ...CONFIG, ...config, enableBuildConsumeQueueConcurrently: concurrently };
  const own = new ShareParser(silentLogger, parser.shareBytes, parser.leastBytes);
  try {
    const store = await MessageStore.open(settings, { fs, logger, ...(concurrently ? { parser: own } : {}) });
    const { end, records, lastRecord, damage, scannedFrom } = store.recovery;
    await store.close();
    return { files: derived(fs), report: { end, records, lastRecord, damage, scannedFrom }, parsed: own.parsed };
  } catch (error) {
    return { error: String(error), parsed: own.parsed };
  }
}

function flip(fs: MemoryFileSystem, position: number): void {
  const path = `/store/commitlog/${String(position - (position % FILE_BYTES)).padStart(20, '0')}`;
  const byte = new Uint8Array(1);
  const file = fs.open(path, 'write');
  file.readSync(byte, 0, 1, position % FILE_BYTES);
  byte[0] = byte[0]! ^ 0x10;
  file.writeSync(byte, 0, 1, position % FILE_BYTES);
  file.close();
}

describe('enableBuildConsumeQueueConcurrently', () => {
  for (let seed = 1; seed <= 12; seed++) {
    it(`a rebuild by threads is the serial one, byte for byte, seed ${seed}`, async () => {
      const fs = await randomStore(seed);
      const serial = await rebuilt(fs, false);
      const concurrent = await rebuilt(fs, true);
      assert.equal(serial.error, undefined);
      assert.ok(concurrent.parsed > 5, `${concurrent.parsed} shares`);
      assert.deepEqual(concurrent.report, serial.report);
      assert.deepEqual(concurrent.files, serial.files);
    });
  }

  for (const gantryDamagedRecord of ['refuse', 'cut', 'skip'] as const) {
    it(`a bad record somewhere ends at the same place with the same words (${gantryDamagedRecord})`, async () => {
      const random = new SeededRandom(7);
      for (let n = 0; n < 12; n++) {
        const fs = await randomStore(100 + n);
        const files = fs.list('/store/commitlog').length - 1;
        if (n % 3 === 0) {
          const abort = fs.open('/store/abort', 'create');
          abort.close();
        }
        flip(fs, random.int(Math.max(1, files) * FILE_BYTES));
        const serial = await rebuilt(fs, false, { gantryDamagedRecord });
        const concurrent = await rebuilt(fs, true, { gantryDamagedRecord });
        assert.equal(concurrent.error, serial.error);
        assert.deepEqual(concurrent.report, serial.report);
        assert.deepEqual(concurrent.files, serial.files);
      }
    });
  }

  it('a short scan has no threads', async () => {
    const fs = await randomStore(3);
    const own = new ShareParser(silentLogger);
    const store = await MessageStore.open(
      { ...CONFIG, enableBuildConsumeQueueConcurrently: true },
      { fs, parser: own },
    );
    await store.close();
    assert.equal(own.parsed, 0);
  });
});
