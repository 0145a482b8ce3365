// Any single bit of a queue's unit that flips on the medium where no start looks: its message is left out and named, all others are read, and
// nothing ends the process. The log has several files, so that a unit's size may lead over the end of one.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { pull, ROOT } from './engine.ts';
import { SmallStore } from './small-store.ts';

const FIRST = `${ROOT}/consumequeue/T/0/00000000000000000000`;
const COUNT = 40;
const ALL = { all: true, codes: new Set<number>() };
/** A filter that looks at each record, and that all pass. */
const LOOKS = { ...ALL, record: { mayMatch: () => true, matches: () => true } };

/** Ordinals that pulls hand out, each with the ordinal that its record says. */
async function ordinals(small: SmallStore, filter: typeof ALL): Promise<number[]> {
  const got: number[] = [];
  for (let offset = 0; offset < COUNT; ) {
    const answer = await pull(small.world, small.store, 'T', 0, offset, { filter });
    assert.ok(answer.nextBeginOffset > offset, `a pull at ${offset} leads on`);
    got.push(...answer.records.map((record) => record.queueOffset));
    offset = answer.nextBeginOffset;
  }
  return got;
}

/** Unit 3 of a queue of forty messages, one file of the log for each ten, with one bit inverted. */
async function flipped(bit: number): Promise<SmallStore> {
  const small = await SmallStore.create({ mappedFileSizeConsumeQueue: 200 });
  await small.sendMany(COUNT, (n) => ({ body: `m${n}`.padEnd(1450 + n, '.') }));
  await small.stop();
  const at = 60 + (bit >> 3);
  small.overwrite(FIRST, at, Uint8Array.of(small.bytesOf(FIRST)[at]! ^ (1 << (bit & 7))));
  await small.start();
  return small;
}

const EXPECTED = Array.from({ length: COUNT }, (_, n) => n).filter((n) => n !== 3);

for (const [name, filter] of [
  ['a pull', ALL],
  ['a pull with a filter that looks at records', LOOKS],
] as const) {
  it(`any bit of place and size: ${name} leaves that message out, and says so once`, async () => {
    for (let bit = 0; bit < 96; bit++) {
      const small = await flipped(bit);
      assert.deepEqual(await ordinals(small, filter), EXPECTED, `bit ${bit}`);
      assert.deepEqual(small.log.texts('warn').length, 1, `bit ${bit}: ${small.log.texts('warn').join('\n')}`);
    }
  });
}

it('a size beyond what a message may have is looked at before memory is taken for it; one that is true counts', async () => {
  const small = await SmallStore.create({ mappedFileSizeConsumeQueue: 200, mappedFileSizeCommitLog: 1 << 20 });
  const bytes = (n: number): number => (n === 5 ? 300_000 : 12_000);
  await small.sendMany(COUNT, (n) => ({ body: Buffer.alloc(bytes(n), 'x') }));
  await small.stop();
  // 256 KiB more.
  small.overwrite(FIRST, 3 * 20 + 9, Uint8Array.of(small.bytesOf(FIRST)[69]! ^ 4));
  await small.start({ maxMessageSize: 12_000 });
  for (const filter of [ALL, LOOKS]) {
    const answer = await pull(small.world, small.store, 'T', 0, 3, { filter });
    assert.deepEqual(
      answer.records.map((record) => record.queueOffset),
      [4],
    );
    assert.ok(answer.bytes.length < 13_000, `${answer.bytes.length} bytes are taken`);
    assert.deepEqual(await ordinals(small, filter), EXPECTED);
  }
});

it('while the store runs, and the log is still in memory: no other bytes are handed out', async () => {
  for (const bit of [72, 74, 76, 78, 80, 82, 86]) {
    const small = await SmallStore.create({ mappedFileSizeConsumeQueue: 200 });
    // More units than a queue keeps in memory.
    await small.sendMany(400, (n) => ({ body: `m${n}`.padEnd(1450 + n, '.') }));
    await small.world.advance(70_000);
    await small.world.until(() => small.world.waiting === 0, 'the queues are written');
    const at = 60 + (bit >> 3);
    small.overwrite(FIRST, at, Uint8Array.of(small.bytesOf(FIRST)[at]! ^ (1 << (bit & 7))));
    for (const filter of [ALL, LOOKS]) assert.deepEqual(await ordinals(small, filter), EXPECTED, `bit ${bit}`);
  }
});
