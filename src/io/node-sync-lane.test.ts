import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { CollectingLogger, type GantryError, silentLogger } from '../common/index.ts';
import type { FileHandle } from './file-system.ts';
import { nodeFileSystem } from './node-file-system.ts';
import { NodeSyncLane } from './node-sync-lane.ts';

/** A thread's program that answers the first request with `text`, JavaScript over `words` and `port`. */
function script(text: string): URL {
  const source = `import { parentPort as port, workerData as words } from 'node:worker_threads';
    Atomics.wait(words, 0, 0); ${text}`;
  return new URL(`data:text/javascript,${encodeURIComponent(source)}`);
}

/** A handle whose syncs in the pool are counted. */
function handle(fd: number): FileHandle & { pooled: number } {
  const sync = (done: () => void): void => {
    file.pooled++;
    done();
  };
  const file = { path: `/d/${fd}`, fd, pooled: 0, sync } as unknown as FileHandle & { pooled: number };
  return file;
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await turn();
}

function sync(lane: NodeSyncLane, file: FileHandle): Promise<GantryError | undefined> {
  return new Promise((resolve) => lane.sync(file, resolve));
}

test('files are synced in the thread, in the order in which they were asked for', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-lane-'));
  const lane = new NodeSyncLane(silentLogger);
  await until(() => lane.hasThread);
  const done: string[] = [];
  const files = ['a', 'b', 'c'].map((name) => nodeFileSystem.open(`${folder}/${name}`, 'create'));
  for (const file of files) {
    file.writeSync(Buffer.from('x'), 0, 1, 0);
    file.sync = () => assert.fail('the pool was asked');
    lane.sync(file, (error) => done.push(`${file.path.at(-1)} ${error?.code ?? 'synced'}`));
  }
  await until(() => done.length === 3);
  assert.deepEqual(done, ['a synced', 'b synced', 'c synced']);
  await lane.close();
  for (const file of files) file.close();
  rmSync(folder, { recursive: true });
});

test('a failed sync is told as such, and the lane goes on', async () => {
  const lane = new NodeSyncLane(silentLogger);
  await until(() => lane.hasThread);
  const error = await sync(lane, handle(99_999));
  assert.equal(error?.code, 'IO');
  assert.match(error.message, /cannot sync \/d\/99999: EBADF/);
  assert.equal((await sync(lane, handle(99_998)))?.code, 'IO');
  await lane.close();
});

test('until the thread runs, and where there is none, the pool syncs; that is said once', async () => {
  const logger = new CollectingLogger();
  const lane = new NodeSyncLane(logger, new URL('file:///no/such/program.js'));
  const file = handle(5);
  assert.equal(await sync(lane, file), undefined);
  await until(() => logger.lines.length > 0);
  assert.equal(await sync(lane, file), undefined);
  assert.equal(file.pooled, 2);
  assert.equal(logger.lines.length, 1);
  assert.match(logger.texts('warn')[0]!, /the thread that syncs the CommitLog is not there/);
  await lane.close();
});

test('a thread that dies before it began leaves its sync, and those behind it, to the pool', async () => {
  const logger = new CollectingLogger();
  const lane = new NodeSyncLane(logger, script('process.exit(1);'));
  await until(() => lane.hasThread);
  const [first, second] = [handle(5), handle(6)];
  const outcomes = await Promise.all([sync(lane, first), sync(lane, second)]);
  assert.deepEqual(outcomes, [undefined, undefined]);
  assert.deepEqual([first.pooled, second.pooled], [1, 1]);
  assert.equal(logger.lines.length, 1);
});

test('a sync whose thread died with it is never called a success, and not asked for again', async () => {
  for (const [state, code] of [
    [1, 'IO'],
    [2, undefined],
    [3, 'IO'],
  ] as const) {
    const lane = new NodeSyncLane(silentLogger, script(`Atomics.store(words, 2, ${state}); process.exit(1);`));
    await until(() => lane.hasThread);
    const file = handle(5);
    assert.equal((await sync(lane, file))?.code, code, `state ${state}`);
    assert.equal(file.pooled, 0);
  }
});

test('closing waits for what is under way, and ends a thread that has not begun yet', async () => {
  const early = new NodeSyncLane(silentLogger);
  await early.close();
  assert.equal(early.hasThread, false);
  const lane = new NodeSyncLane(silentLogger);
  await until(() => lane.hasThread);
  const outcome = sync(lane, handle(99_999));
  await lane.close();
  assert.equal((await outcome)?.code, 'IO');
  assert.equal(lane.hasThread, false);
});
