import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, SeededRandom } from '../../common/index.ts';
import { readWhole } from '../../io/index.ts';
import { MemoryFileSystem } from '../../io/memory-file-system.ts';
import { DurableMark, StoreCheckpoint } from './index.ts';

const ROOT = '/store';
const PATH = `${ROOT}/checkpoint`;
const clock = new FakeClock(1000);

function disk(): MemoryFileSystem {
  return new MemoryFileSystem({ directories: [ROOT] });
}

/** A checkpoint with its mark, as a start loads them. */
function load(fs: MemoryFileSystem): { checkpoint: StoreCheckpoint; found: number | undefined } {
  const checkpoint = StoreCheckpoint.load(fs, PATH);
  const { mark, found } = DurableMark.load(fs, clock, ROOT, checkpoint.isAbsent ? undefined : checkpoint.values);
  checkpoint.mark = mark;
  return { checkpoint, found: found?.flushed };
}

function write(checkpoint: StoreCheckpoint, flushed: number): void {
  checkpoint.mark!.follow(() => ({ flushed, newest: 1 }));
  checkpoint.physicMsgTimestamp = flushed;
  checkpoint.flush(true);
}

test('the mark of the last checkpoint is found, and none without one', () => {
  const fs = disk();
  assert.equal(load(fs).found, undefined);
  const { checkpoint } = load(fs);
  for (const flushed of [100, 200, 300]) {
    write(checkpoint, flushed);
    assert.equal(load(fs).found, flushed);
  }
  fs.remove(PATH);
  assert.equal(load(fs).found, 300, 'a checkpoint that was deleted says nothing against it');
});

test('a slot as the format page has it', () => {
  const fs = disk();
  write(load(fs).checkpoint, 100);
  const text = Buffer.from(readWhole(fs, `${ROOT}/gantry/durable`)!.subarray(512)).toString('latin1');
  assert.equal(text.length, 512);
  assert.match(
    text,
    /^[0-9a-f]{8} \{"version":1,"sequence":1,"flushed":100,"newest":1000,"checkpoint":\[100,0,0,0,0,0\]\} *\n$/,
  );
});

test('a checkpoint that another broker has written makes it count for nothing', () => {
  const fs = disk();
  write(load(fs).checkpoint, 100);
  const java = StoreCheckpoint.load(fs, PATH);
  java.physicMsgTimestamp = 7;
  java.flush(true);
  assert.equal(load(fs).found, undefined);
});

test('a mark that was lowered stays so', () => {
  const fs = disk();
  const { checkpoint } = load(fs);
  write(checkpoint, 300);
  checkpoint.mark!.lower(120);
  checkpoint.flush(true);
  assert.equal(load(fs).found, 120);
  checkpoint.mark!.release();
  write(checkpoint, 150);
  assert.equal(load(fs).found, 150);
});

test('after a power cut at any moment the old mark or the new one is found, with its checkpoint', async () => {
  for (let seed = 0; seed < 100; seed++) {
    const fs = disk();
    const { checkpoint } = load(fs);
    write(checkpoint, 10_000);
    write(checkpoint, 20_000);
    fs.powerOffAfter(seed % 6);
    try {
      write(checkpoint, 30_000);
    } catch {
      // The power is off.
    }
    fs.powerCut(new SeededRandom(seed));
    const again = load(fs);
    // The disk in memory tears within a sector, too: then the checkpoint is neither, and no mark fits it.
    const { physicMsgTimestamp } = again.checkpoint;
    if (physicMsgTimestamp === 20_000 || physicMsgTimestamp === 30_000)
      assert.equal(again.found, physicMsgTimestamp, `seed ${seed}`);
    else assert.equal(again.found, undefined, `seed ${seed}`);
  }
});

test('a bit of the checkpoint that flipped does not make it another broker’s', () => {
  const fs = disk();
  write(load(fs).checkpoint, 100);
  const file = fs.open(PATH, 'write');
  file.writeSync(Uint8Array.of(0x10), 0, 1, 2);
  file.close();
  assert.equal(load(fs).found, 100);
});

test('a log that was cut to nothing has a mark: that none of it is durable', () => {
  const fs = disk();
  const { checkpoint } = load(fs);
  checkpoint.flush(true);
  assert.equal(load(fs).found, undefined, 'nothing was known');
  write(checkpoint, 100);
  checkpoint.mark!.lower(0);
  checkpoint.flush(true);
  assert.equal(load(fs).found, 0);
});
