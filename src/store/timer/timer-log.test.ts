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
