import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach, describe, it } from 'node:test';
import { crc32 as zlibCrc32 } from 'node:zlib';
import { crc32, TinyLog } from './tiny-log.ts';

describe('the tiny log', () => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-tiny-log-'));
  const path = join(folder, 'log');
  after(() => rmSync(folder, { recursive: true }));
  beforeEach(() => rmSync(path, { force: true }));

  /** Messages of many lengths; number n begins with n. */
  const message = (n: number): Buffer => Buffer.from(`${n}:${'x'.repeat((n * 7) % 50)}`);

  function filled(count: number): TinyLog {
    const log = new TinyLog(path);
    for (let n = 0; n < count; n++) assert.equal(log.append(message(n)), n);
    return log;
  }

  function expect(log: TinyLog, count: number): void {
    assert.equal(log.count, count);
    for (let n = 0; n < count; n++) assert.deepEqual(log.read(n), message(n), `message ${n}`);
    for (const none of [-1, 0.5, count, count + 1]) assert.equal(log.read(none), undefined);
  }

  it('its CRC is the one of zlib', () => {
    for (const text of ['', 'a', 'The quick brown fox']) assert.equal(crc32(Buffer.from(text)), zlibCrc32(text));
  });

  it('gives every message back, also after it was opened again, and goes on behind the last', () => {
    const log = filled(100);
    expect(log, 100);
    log.sync();
    log.close();
    const again = new TinyLog(path);
    expect(again, 100);
    assert.equal(again.append(message(100)), 100);
    expect(again, 101);
    again.close();
  });

  it('the half record at the end goes, wherever it was cut, and everything before it stays', () => {
    filled(20).close();
    const whole = readFileSync(path);
    const last = 8 + message(19).length;
    for (let cut = 1; cut <= last; cut++) {
      writeFileSync(path, whole);
      truncateSync(path, whole.length - cut);
      const log = new TinyLog(path);
      expect(log, 19);
      assert.equal(statSync(path).size, whole.length - last, 'cut on the disk');
      assert.equal(log.append(message(19)), 19);
      log.close();
      assert.deepEqual(readFileSync(path), whole);
    }
  });

  it('a flipped bit anywhere in the last record ends the log before it', () => {
    filled(3).close();
    const whole = readFileSync(path);
    const last = 8 + message(2).length;
    for (let bit = 0; bit < last * 8; bit++) {
      const bytes = Buffer.from(whole);
      const at = whole.length - last + (bit >> 3);
      bytes[at] = bytes[at]! ^ (1 << (bit & 7));
      writeFileSync(path, bytes);
      const log = new TinyLog(path);
      expect(log, 2);
      log.close();
    }
  });

  it('what stood behind the cut does not come back', () => {
    filled(3).close();
    const whole = readFileSync(path);
    const [first, second] = [8 + message(0).length, 8 + message(1).length];
    // The second record is torn, the third is whole behind it.
    const torn = Buffer.from(whole);
    torn.fill(0, first + second - 2, first + second);
    writeFileSync(path, torn);
    const log = new TinyLog(path);
    expect(log, 1);
    // It ends just where the old third record began.
    log.append(message(1));
    log.close();
    const again = new TinyLog(path);
    expect(again, 2);
    again.close();
  });

  it('pages of zeros at the end are no messages', () => {
    filled(5).close();
    const { size } = statSync(path);
    appendFileSync(path, Buffer.alloc(8192));
    const log = new TinyLog(path);
    expect(log, 5);
    log.close();
    assert.equal(statSync(path).size, size);
  });

  it('refuses what it could not read back', () => {
    const log = filled(1);
    assert.throws(() => log.append(Buffer.alloc(1024 * 1024 + 1)), RangeError);
    assert.throws(() => log.append(Buffer.alloc(0)), RangeError);
    expect(log, 1);
    log.close();
  });
});
