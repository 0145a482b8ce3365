import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { CollectingLogger, FakeClock, GantryError, SeededRandom } from '../common/index.ts';
import { MemoryFileSystem, readWhole, writeWhole } from '../io/index.ts';
import type { JsonObject } from '../remoting/index.ts';
import { type ConfigEnvironment, ConfigManager, saveInTurn } from './config-manager.ts';
import { readIntegerMap } from './json-fields.ts';
import { prettyJson } from './pretty-json.ts';

const FOLDER = '/store/config';
const FILE = `${FOLDER}/table.json`;

/** A table of numbers; `pieces` are written one by one. */
class Table extends ConfigManager {
  numbers: Map<number, number> = new Map();

  /** Cannot be written down beyond its first line. */
  broken = false;

  constructor(environment: ConfigEnvironment, fileName = 'table.json') {
    super(environment, fileName);
  }

  /** A table of `size` entries that all hold `value`. */
  set(size: number, value: number): void {
    this.numbers = new Map(Array.from({ length: size }, (_, i) => [i, value]));
    this.markChanged();
  }

  protected override *encode(): Iterable<string> {
    for (const line of prettyJson({ table: this.numbers }).split(/(?<=\n)/)) {
      yield line;
      if (this.broken) throw new Error('no words');
    }
  }

  protected override decode(json: JsonObject): void {
    this.numbers = readIntegerMap(json, 'table');
  }
}

interface World {
  fs: MemoryFileSystem;
  logger: CollectingLogger;
  table: Table;
}

function world(fs: MemoryFileSystem = new MemoryFileSystem({ directories: [FOLDER] })): World {
  const logger = new CollectingLogger();
  return { fs, logger, table: new Table({ fs, clock: new FakeClock(), logger, folder: FOLDER }) };
}

/** A disk on which two states were saved: the file says 2, its backup 1. */
function twoSaves(): MemoryFileSystem {
  const { fs, table } = world();
  table.set(3, 1);
  table.persist();
  table.set(3, 2);
  table.persist();
  return fs;
}

const text = (fs: MemoryFileSystem, path: string): string => Buffer.from(readWhole(fs, path)!).toString();

test('what is saved is loaded, the one before stays beside it', () => {
  const fs = twoSaves();
  const { table, logger } = world(fs);
  assert.equal(table.load(), 'file');
  assert.deepEqual(
    [...table.numbers],
    [
      [0, 2],
      [1, 2],
      [2, 2],
    ],
  );
  assert.equal(text(fs, `${FILE}.bak`), text(fs, FILE).replaceAll(':2', ':1'));
  assert.equal(table.changed, false);
  assert.deepEqual(logger.texts('warn'), []);
});

test('no files are defaults', () => {
  const { table } = world();
  assert.equal(table.load(), 'defaults');
});

test('an empty table is saved, and loads as empty', () => {
  const fs = twoSaves();
  const { table } = world(fs);
  table.load();
  table.set(0, 0);
  table.persist();
  const again = world(fs);
  assert.equal(again.table.load(), 'file');
  assert.equal(again.table.numbers.size, 0);
});

test('a folder that is not there is made, and lasts', () => {
  const fs = new MemoryFileSystem({ directories: ['/store'] });
  const { table } = world(fs);
  table.set(1, 1);
  table.persist();
  fs.powerCut(new SeededRandom(3));
  const again = world(fs);
  assert.equal(again.table.load(), 'file');
});

const DAMAGES: Array<[string, (good: Buffer) => Buffer]> = [
  ['length 0', () => Buffer.alloc(0)],
  ['cut short', (good) => good.subarray(0, good.length - 4)],
  [
    'followed by 20 bytes of a longer version',
    (good) => Buffer.concat([good, Buffer.from('2,\n\t\t2:2,\n\t\t3:2\n\t}\n}')]),
  ],
  ['512 zero bytes', () => Buffer.alloc(512)],
  ['no JSON object', () => Buffer.from('[1,2]')],
  ['a table of another kind', () => Buffer.from('{"table":"x"}')],
  [
    'bytes that are no text',
    (good) => Buffer.concat([good.subarray(0, 10), Buffer.from([0xff, 0xfe]), good.subarray(10)]),
  ],
];

for (const [name, damage] of DAMAGES) {
  test(`B58: config files after a power cut: ${name}, the backup is used with one warning`, () => {
    const fs = twoSaves();
    const bad = damage(Buffer.from(readWhole(fs, FILE)!));
    writeWhole(fs, FILE, bad, true);
    const { table, logger } = world(fs);
    assert.equal(table.load(), 'backup');
    assert.deepEqual(
      [...table.numbers],
      [
        [0, 1],
        [1, 1],
        [2, 1],
      ],
    );
    assert.equal(logger.texts('warn').length, 1);
    assert.match(logger.texts('warn')[0]!, /table\.json .*table\.json\.bak is used instead/);
    if (bad.length > 0) assert.deepEqual(Buffer.from(readWhole(fs, `${FILE}.damaged`)!), bad);

    // The next saves must not put the bad file over the good backup.
    fs.powerCut(new SeededRandom(1));
    const second = world(fs);
    assert.equal(second.table.load(), 'file');
    assert.equal(second.table.numbers.get(0), 1);
    assert.deepEqual(second.logger.texts('warn'), []);
  });

  test(`B58: config files after a power cut: ${name} in both files refuses the start and names them`, () => {
    const fs = twoSaves();
    const bad = damage(Buffer.from(readWhole(fs, FILE)!));
    writeWhole(fs, FILE, bad, true);
    writeWhole(fs, `${FILE}.bak`, bad, true);
    const { table } = world(fs);
    assert.throws(
      () => table.load(),
      (error) =>
        error instanceof GantryError &&
        error.code === 'CONFIG_FILE' &&
        error.message.includes(`${FILE} `) &&
        error.message.includes(`${FILE}.bak `),
    );
    assert.deepEqual(Buffer.from(readWhole(fs, FILE)!), bad, 'nothing is changed by a refusal');
    assert.deepEqual(table.numbers, new Map(), 'nothing is half loaded');
  });
}

test('a damaged file without a backup refuses the start', () => {
  const { fs, table } = world();
  writeWhole(fs, FILE, '', true);
  assert.throws(() => table.load(), { code: 'CONFIG_FILE' });
});

test('a missing file with a backup is a warning', () => {
  const fs = twoSaves();
  fs.remove(FILE);
  const { table, logger } = world(fs);
  assert.equal(table.load(), 'backup');
  assert.equal(logger.texts('warn').length, 1);
});

/** Cuts the power in each of 500 places during 200 saves of ever less content; `save` is one of the two ways to save. */
async function cutDuringSaves(save: (table: Table) => Promise<void>): Promise<void> {
  const SAVES = 200;
  const sizeOf = (n: number): number => SAVES - n + 1;
  for (let seed = 1; seed <= 500; seed++) {
    const random = new SeededRandom(seed);
    const disk = new MemoryFileSystem({ directories: [FOLDER], random, schedule: (task) => queueMicrotask(task) });
    const before = world(disk);
    // The cut falls into a few of the 200 saves, so that the content before it has shrunk to any size.
    const first = 2 + random.int(SAVES - 5);
    for (const n of [first - 1, first]) {
      before.table.set(sizeOf(n), n);
      before.table.persist();
    }
    disk.powerOffAfter(random.int(30));
    let saved = first;
    let begun = first;
    for (let n = first + 1; n < first + 4; n++) {
      begun = n;
      before.table.set(sizeOf(n), n);
      try {
        await save(before.table);
      } catch {
        break;
      }
      if (before.table.changed) break;
      saved = n;
    }
    disk.powerCut(random);
    const after = world(disk);
    after.table.load();
    const value = after.table.numbers.get(0)!;
    assert.ok(value === saved || value === begun, `seed ${seed}: ${value} is neither ${saved} nor ${begun}`);
    assert.equal(after.table.numbers.size, sizeOf(value), `seed ${seed}`);
    assert.ok(
      [...after.table.numbers.values()].every((one) => one === value),
      `seed ${seed}`,
    );
  }
}

test('B58: config files after a power cut: one of the last two states is loaded after any of 500 cuts', async () => {
  await cutDuringSaves((table) => Promise.resolve(table.persist()));
});

test('B58: config files after a power cut: the same when saved in slices', async () => {
  await cutDuringSaves((table) => new Promise((resolve) => table.persistInSlices(() => resolve())));
});

test('a save in slices gives the same file as one in whole', async () => {
  const one = world();
  one.table.set(20_000, 7);
  one.table.persist();
  const other = world();
  other.table.set(20_000, 7);
  await new Promise<void>((resolve) => other.table.persistInSlices(() => resolve()));
  assert.equal(text(other.fs, FILE), text(one.fs, FILE));
  assert.equal(other.table.changed, false);
});

test('a whole save overtakes one in slices', async () => {
  const { fs, table } = world();
  table.set(20_000, 1);
  const sliced = new Promise<void>((resolve) => table.persistInSlices(() => resolve()));
  table.set(2, 2);
  table.persist();
  await sliced;
  assert.equal(table.changed, false);
  const again = world(fs);
  again.table.load();
  assert.deepEqual(
    [...again.table.numbers],
    [
      [0, 2],
      [1, 2],
    ],
  );
});

test('a save that fails is reported and tried again with the next', async () => {
  const { fs, logger, table } = world();
  table.set(1, 1);
  const fault = fs.fail({ operation: 'sync', times: Number.POSITIVE_INFINITY, code: 'DISK_FULL' });
  table.persistIfChanged();
  await new Promise<void>((resolve) => table.persistInSlices(() => resolve()));
  assert.equal(table.changed, true);
  assert.equal(logger.texts('error').length, 2);
  fault.clear();
  table.persistIfChanged();
  assert.equal(table.changed, false);
});

test('config saves stall the loop: what is saved now and then is synced off it, its names too', async () => {
  const { fs, table } = world();
  table.set(3, 1);
  for (const operation of ['sync', 'syncDirectory'] as const) {
    const held = fs.hold(operation);
    let ended = false;
    table.persistInSlices(() => {
      ended = true;
    });
    while (held.waiting === 0) await setImmediate();
    assert.equal(ended, false);
    assert.equal(table.changed, true);
    held.end();
    while (!ended) await setImmediate();
    assert.equal(table.changed, false);
    table.set(3, 2);
  }
});

test('a save between other work whose names cannot be synced is told, and tried again', async () => {
  const { fs, logger, table } = world();
  table.set(1, 1);
  fs.fail({ operation: 'syncDirectory' });
  await assert.rejects(table.saved(), { code: 'IO' });
  assert.equal(table.changed, true);
  assert.equal(logger.texts('error').length, 1);
  await table.saved();
  assert.equal(table.changed, false);
});

test('who waits for a change waits for the save behind the one that is under way', async () => {
  const { fs, table } = world();
  table.set(1, 1);
  const held = fs.hold('sync');
  table.persistInSlices();
  while (held.waiting === 0) await setImmediate();
  table.set(1, 2);
  const saved = table.saved();
  held.end();
  await saved;
  fs.powerCut(new SeededRandom(5));
  const after = world(fs);
  after.table.load();
  assert.equal(after.table.numbers.get(0), 2);
});

test('the last save has the newest, and a save that was under way touches no file behind it', async () => {
  const { fs, table } = world();
  table.set(20_000, 1);
  const held = fs.hold('write', `${FILE}.next`);
  table.persistInSlices();
  while (held.waiting === 0) await setImmediate();
  table.set(2, 2);
  const last = table.persistLast();
  held.end();
  await last;
  assert.equal(fs.openHandles, 0);
  assert.equal(table.changed, false);
  table.set(2, 3);
  table.persistInSlices();
  assert.equal(fs.openHandles, 0, 'no save begins behind the last one');
  const after = world(fs);
  after.table.load();
  assert.equal(after.table.numbers.get(0), 2);
});

test('a table that cannot be put into words fails its save and nothing else', async () => {
  const { table, logger } = world();
  table.set(1, 1);
  table.broken = true;
  await assert.rejects(table.saved(), { code: 'IO' });
  assert.match(logger.texts('error')[0]!, /no words/);
  table.broken = false;
  await table.saved();
});

test('tables are saved one after the other', async () => {
  const { fs, logger, table } = world();
  const other = new Table({ fs, clock: new FakeClock(), logger, folder: FOLDER }, 'other.json');
  for (const one of [table, other]) one.set(1, 1);
  const held = fs.hold('sync');
  const all = saveInTurn([table, other]);
  while (held.waiting === 0) await setImmediate();
  assert.equal(fs.openHandles, 1);
  held.end();
  await all;
  assert.deepEqual([table.changed, other.changed], [false, false]);
});

test('a save that fails at its first step leaves no open file', async () => {
  const { fs, table } = world();
  table.set(1, 1);
  fs.fail({ operation: 'truncate' });
  await assert.rejects(table.saved(), { code: 'IO' });
  assert.equal(fs.openHandles, 0);
});
