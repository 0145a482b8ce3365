import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger, GantryError, SeededRandom, silentLogger } from '../common/index.ts';
import { MemoryFileSystem, readWhole, writeWhole } from '../io/index.ts';
import { KvConfig, ORDER_TOPIC_CONFIG } from './kv-config.ts';

const PATH = '/home/namesrv/kvConfig.json';

function disk(): MemoryFileSystem {
  return new MemoryFileSystem({ directories: ['/home/namesrv'] });
}

function content(fs: MemoryFileSystem, path = PATH): string {
  return Buffer.from(readWhole(fs, path)!).toString('utf8');
}

test('values are kept by namespace and key, and in the file that RocketMQ reads', () => {
  const fs = disk();
  const kv = KvConfig.open(PATH, { fs, logger: silentLogger });
  kv.put(ORDER_TOPIC_CONFIG, 'T', 'broker-a:4;broker-b:4');
  kv.put('other', 'k', 'ä"\n');
  assert.equal(kv.get(ORDER_TOPIC_CONFIG, 'T'), 'broker-a:4;broker-b:4');
  assert.equal(kv.get(ORDER_TOPIC_CONFIG, 'U'), undefined);
  assert.equal(kv.get('unknown', 'T'), undefined);
  assert.equal(
    content(fs),
    '{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:4;broker-b:4"},"other":{"k":"ä\\"\\n"}}}',
  );
  const again = KvConfig.open(PATH, { fs, logger: silentLogger });
  assert.deepEqual(again.namespace('other'), { k: 'ä"\n' });
});

test('deleting the last key leaves the namespace, and an unknown key changes nothing', () => {
  const kv = KvConfig.open(PATH, { fs: disk(), logger: silentLogger });
  kv.delete('n', 'k');
  assert.equal(kv.namespace('n'), undefined);
  kv.put('n', 'k', 'v');
  kv.delete('n', 'other');
  kv.delete(undefined, 'k');
  assert.deepEqual(kv.namespace('n'), { k: 'v' });
  kv.delete('n', 'k');
  assert.deepEqual(kv.namespace('n'), {});
});

test('a value of null makes the namespace and no key', () => {
  const kv = KvConfig.open(PATH, { fs: disk(), logger: silentLogger });
  kv.put('n', 'k', undefined);
  assert.deepEqual(kv.namespace('n'), {});
});

test('the folder is made when it is not there', () => {
  const fs = new MemoryFileSystem();
  KvConfig.open('/new/folder/kv.json', { fs, logger: silentLogger }).put('n', 'k', 'v');
  assert.equal(content(fs, '/new/folder/kv.json'), '{"configTable":{"n":{"k":"v"}}}');
});

test('a put that cannot be saved changes nothing', () => {
  const fs = disk();
  const kv = KvConfig.open(PATH, { fs, logger: silentLogger });
  kv.put('n', 'k', 'old');
  fs.fail({ operation: 'sync', path: `${PATH}.tmp` });
  assert.throws(
    () => kv.put('n', 'k', 'new'),
    (error) => error instanceof GantryError,
  );
  assert.equal(kv.get('n', 'k'), 'old');
});

for (const [name, damage] of [
  ['an empty file', ''],
  ['a file cut short', '{"configTable":{"n":{"k"'],
  ['old bytes behind the end', '{"configTable":{"n":{}}}"old":"tail"}}'],
  ['a file full of zeros', '\0'.repeat(512)],
  ['a file that is a list', '[]'],
] as const) {
  test(`B58 config files after a power cut: ${name}`, () => {
    const fs = disk();
    const kv = KvConfig.open(PATH, { fs, logger: silentLogger });
    kv.put('n', 'k', 'first');
    kv.put('n', 'k', 'second');
    writeWhole(fs, PATH, damage);
    const logger = new CollectingLogger();
    const loaded = KvConfig.open(PATH, { fs, logger });
    assert.equal(loaded.get('n', 'k'), 'first');
    assert.equal(logger.texts('warn').length, 1);
    assert.match(logger.texts('warn')[0]!, /kvConfig\.json.*\.bak is used/);
    loaded.put('n', 'k', 'third');
    assert.equal(KvConfig.open(PATH, { fs, logger: silentLogger }).get('n', 'k'), 'third');

    writeWhole(fs, `${PATH}.bak`, damage);
    writeWhole(fs, PATH, damage);
    assert.throws(
      () => KvConfig.open(PATH, { fs, logger: silentLogger }),
      (error) =>
        error instanceof GantryError &&
        error.code === 'CONFIG_FILE' &&
        error.message.includes(PATH) &&
        error.message.includes(`${PATH}.bak`),
    );
  });
}

test('B58 config files after a power cut: any cut during saves leaves one of the last two states', () => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = new SeededRandom(seed);
    const fs = new MemoryFileSystem({ directories: ['/home/namesrv'], random });
    let saved = -1;
    let attempted = -1;
    fs.powerOffAfter(1 + random.int(120));
    try {
      const kv = KvConfig.open(PATH, { fs, logger: silentLogger });
      for (let i = 0; i < 20; i++) {
        attempted = i;
        kv.put('n', 'k', `${i} ${'x'.repeat(200 - 10 * i)}`);
        saved = i;
      }
    } catch {
      // The power went off.
    }
    fs.powerCut(random);
    const found = KvConfig.open(PATH, { fs, logger: silentLogger }).get('n', 'k');
    const value = found === undefined ? -1 : Number.parseInt(found, 10);
    assert.ok(value >= saved && value <= attempted, `seed ${seed}: found ${value}, saved ${saved}, tried ${attempted}`);
  }
});

test('a deliberately empty table loads as empty', () => {
  const fs = disk();
  writeWhole(fs, PATH, '{"configTable":{}}');
  writeWhole(fs, `${PATH}.bak`, '{"configTable":{"n":{"k":"v"}}}');
  assert.equal(KvConfig.open(PATH, { fs, logger: silentLogger }).namespace('n'), undefined);
});
