import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryFileSystem } from '../../io/index.ts';
import { FILLER_BYTES, TimerUnit, UNIT_BYTES } from './timer-format.ts';
import { TimerLog } from './timer-log.ts';

const PER_FILE = 10;
const FILE_BYTES = PER_FILE * UNIT_BYTES + FILLER_BYTES;

test('a damaged last unit of a file keeps neither that file nor those behind it from being removed', async () => {
  const fs = new MemoryFileSystem({ directories: ['/store'] });
  const log = new TimerLog(fs, '/store', FILE_BYTES);
  log.load(0);
  const unit = new TimerUnit();
  unit.size = 100;
  for (let i = 0; i < 4 * PER_FILE; i++) {
    unit.offset = i * 100;
    log.append(unit);
  }
  await log.flush();
  const file = fs.open(`${log.folder}/${'0'.repeat(20)}`, 'write');
  file.writeSync(new Uint8Array(UNIT_BYTES), 0, UNIT_BYTES, log.lastUnitOf(0));
  file.close();
  assert.equal(
    log.removeBelow(PER_FILE * 100, unit),
    0,
    'the next file begins with a unit whose record is still there',
  );
  assert.equal(log.removeBelow(2 * PER_FILE * 100 + 1, unit), 2);
  assert.equal(log.first, 2 * FILE_BYTES);
  log.close();
});

test('a scan in turns looks at 4,096 units in each, and sees what is appended meanwhile', async () => {
  const fs = new MemoryFileSystem({ directories: ['/store'] });
  const log = new TimerLog(fs, '/store', 1000 * UNIT_BYTES + FILLER_BYTES);
  log.load(0);
  const unit = new TimerUnit();
  unit.size = 100;
  let appended = 0;
  const append = (count: number): void => {
    for (let i = 0; i < count; i++) {
      unit.offset = appended++;
      log.append(unit);
    }
  };
  append(10_000);
  await log.flush();
  const seen: number[] = [];
  const turns: number[] = [];
  const visit = (_position: number, { offset }: TimerUnit): boolean => seen.push(offset) > 0;
  const stop = await log.scanInTurns(0, visit, async () => {
    turns.push(seen.length);
    if (turns.length === 1) append(500);
    return true;
  });
  assert.deepEqual(turns, [4096, 8192]);
  assert.deepEqual(
    seen,
    Array.from({ length: 10_500 }, (_, i) => i),
  );
  append(3);
  assert.equal(log.scanOn(stop, visit, unit), log.end);
  assert.deepEqual(seen.slice(10_500), [10_500, 10_501, 10_502]);
  log.close();
});

test('a scan in turns goes on behind files that are removed meanwhile', async () => {
  const fs = new MemoryFileSystem({ directories: ['/store'] });
  const log = new TimerLog(fs, '/store', 3000 * UNIT_BYTES + FILLER_BYTES);
  log.load(0);
  const unit = new TimerUnit();
  unit.size = 100;
  for (unit.offset = 0; unit.offset < 12_000; unit.offset++) log.append(unit);
  await log.flush();
  const seen: number[] = [];
  const visit = (_position: number, { offset }: TimerUnit): boolean => seen.push(offset) > 0;
  await log.scanInTurns(0, visit, async () => {
    log.removeBelow(9_000, new TimerUnit());
    return true;
  });
  assert.deepEqual([seen[4095], seen[4096], seen.at(-1)], [4095, 9_000, 11_999]);
  log.close();
});
