import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { after, test } from 'node:test';
import { GantryError } from '../common/index.ts';
import { loadRecordLocks, lockHolderInProc } from './record-lock.ts';
import { lockStore } from './store-lock.ts';

const base = fs.mkdtempSync(`${tmpdir()}/gantry-lock-`);
after(() => fs.rmSync(base, { recursive: true }));

let count = 0;
function freshRoot(): string {
  const root = `${base}/${count++}`;
  fs.mkdirSync(root);
  return root;
}

function refusal(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    assert.ok(error instanceof GantryError, String(error));
    assert.equal(error.code, 'STORE_LOCKED');
    return error.message;
  }
  assert.fail('the store was taken');
}

/** Another process that takes the store with the given options and keeps it until it is told to end. */
async function holdElsewhere(
  root: string,
  options: string,
): Promise<{ pid: number; end(signal?: NodeJS.Signals): Promise<void> }> {
  const module = new URL('./store-lock.js', import.meta.url).href;
  const program = `import(${JSON.stringify(module)}).then(({ lockStore }) => {
    const lock = lockStore(${JSON.stringify(root)}, ${options});
    process.stdin.on('end', () => { lock.release(); process.exit(0); }).resume();
    console.log(lock.kind);
  });`;
  const child = spawn(process.execPath, ['-e', program], { stdio: ['pipe', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  return {
    pid: child.pid!,
    end: async (signal) => {
      if (signal === undefined) child.stdin.end();
      else child.kill(signal);
      await once(child, 'exit');
    },
  };
}

const withFfi = { skip: loadRecordLocks() === undefined ? 'koffi is not installed here' : false };

test('a free store is taken, marked and given back', () => {
  const root = freshRoot();
  const lock = lockStore(root, { recordLocks: null });
  assert.equal(lock.kind, 'pid');
  assert.equal(fs.readFileSync(`${root}/gantry/pid`, 'utf8').split('\n')[0], String(process.pid));
  lock.release();
  lock.release();
  assert.ok(!fs.existsSync(`${root}/gantry/pid`));
  lockStore(root, { recordLocks: null }).release();
});

test('a failed start leaves a directory as it was', () => {
  const root = freshRoot();
  lockStore(root).release(true);
  assert.deepEqual(fs.readdirSync(root), []);
  fs.writeFileSync(`${root}/lock`, 'lock');
  lockStore(root).release(true);
  assert.deepEqual(fs.readdirSync(root), ['lock']);
});

test('the same process does not get a store twice, and its record lock survives the try', withFfi, async () => {
  const root = freshRoot();
  const lock = lockStore(root);
  assert.equal(lock.kind, 'fcntl');
  assert.equal(fs.statSync(`${root}/lock`).size, 4);
  assert.match(
    refusal(() => lockStore(root)),
    /in use by this process/,
  );
  assert.equal(lockHolderInProc(`${root}/lock`), process.pid);
  lock.release();
  assert.equal(lockHolderInProc(`${root}/lock`), undefined);
});

for (const [holding, holdOptions] of [
  ['fcntl', '{}'],
  ['pid file', '{ recordLocks: null }'],
]) {
  for (const [asking, options] of [
    ['fcntl', {}],
    ['pid file', { recordLocks: null }],
  ] as const) {
    test(`a store held by another process with ${holding} is refused with ${asking}`, withFfi, async () => {
      const root = freshRoot();
      const other = await holdElsewhere(root, holdOptions!);
      const before = fs.readdirSync(root, { recursive: true }).sort();
      assert.match(
        refusal(() => lockStore(root, options)),
        new RegExp(`in use by process ${other.pid}`),
      );
      assert.deepEqual(fs.readdirSync(root, { recursive: true }).sort(), before);
      await other.end();
      lockStore(root, options).release();
    });
  }
}

test('what a killed process left does not keep the store', withFfi, async () => {
  const root = freshRoot();
  const other = await holdElsewhere(root, '{}');
  await other.end('SIGKILL');
  assert.ok(fs.existsSync(`${root}/gantry/pid`));
  lockStore(root).release();
});

test('a pid file of an earlier process with the id of this one is stale', () => {
  const root = freshRoot();
  fs.mkdirSync(`${root}/gantry`);
  fs.writeFileSync(`${root}/gantry/pid`, `${process.pid}\n1\n`);
  lockStore(root, { recordLocks: null }).release();
});

test('without FFI a record lock of any process, such as a Java broker, is seen in /proc/locks', () => {
  const root = freshRoot();
  fs.writeFileSync(`${root}/lock`, 'lock');
  const { ino, dev } = fs.statSync(`${root}/lock`);
  const device = `${((dev >>> 8) & 0xfff).toString(16)}:${((dev & 0xff) | ((dev >>> 12) & 0xfff00)).toString(16).padStart(2, '0')}`;
  const lines = (inode: number): string =>
    `1: FLOCK  ADVISORY  WRITE 7 ${device}:${ino} 0 EOF\n2: POSIX  ADVISORY  WRITE 4711 ${device}:${inode} 0 0\n`;
  const take = (procLocks: string): void => lockStore(root, { recordLocks: null, procLocks }).release();
  assert.match(
    refusal(() => take(lines(ino))),
    /in use by process 4711/,
  );
  take(lines(ino + 1));
});

test('a directory that cannot be written names itself', {
  skip: process.getuid?.() === 0 ? 'root may write anywhere' : false,
}, () => {
  const root = freshRoot();
  fs.chmodSync(root, 0o555);
  assert.throws(
    () => lockStore(root),
    (error) => error instanceof GantryError && error.code === 'STORE_UNWRITABLE' && error.message.includes(root),
  );
});
