// The table of docs/reliability.md, a test for each cell: what a message that was answered with success survives, and what is not promised.
// The columns are what fails, the rows how sends are answered. A single broker is all there is yet: where a replica would promise more, the
// settings that ask for it refuse the start, and the row says what one broker holds.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readBrokerSettings } from '../../src/common/config/index.ts';
import { GantryError } from '../../src/common/index.ts';
import { PutMessageStatus, type PutResult } from '../../src/store/index.ts';
import { removeTree } from './damage.ts';
import { query, ROOT } from './engine.ts';
import { LOG, SmallStore } from './small-store.ts';

const ROWS = [
  { row: 'async', settings: { flushDiskType: 'ASYNC_FLUSH' } },
  { row: 'sync', settings: { flushDiskType: 'SYNC_FLUSH' } },
  { row: 'replicated', settings: { flushDiskType: 'SYNC_FLUSH', brokerRole: 'SYNC_MASTER' } },
] as const;

/** Different ends of the power, each with its own choice of what unsynced bytes are kept. */
const CUTS = 25;
const ANSWERED = 20;

const body = (n: number): string => `message ${n} ${'.'.repeat((n * 37) % 300)}`;

/** Hands messages [from, to) to the store, without waiting for anything. */
function put(small: SmallStore, from: number, to: number): PutResult[] {
  return Array.from({ length: to - from }, (_, i) => {
    const result = small.put({ body: body(from + i), uniqueKey: `U${from + i}` });
    assert.equal(result.status, PutMessageStatus.PUT_OK, result.reason);
    return result;
  });
}

/** Sends messages [from, to) and waits until the last of them is answered with success. */
async function send(small: SmallStore, from: number, to: number): Promise<PutResult[]> {
  const results = put(small, from, to);
  await small.acknowledged(results.at(-1)!);
  return results;
}

/** The queue holds messages 0, 1, 2, … unchanged, each once, and at least so many; answers how many. */
async function expectBeginning(small: SmallStore, atLeast: number): Promise<number> {
  const count = small.store.maxOffsetInQueue('T', 0);
  assert.ok(count >= atLeast, `${count} messages are there, ${atLeast} were promised`);
  const records = await small.expectQueue(0, count);
  for (const [n, record] of records.entries()) assert.equal(record.body.toString(), body(n));
  return count;
}

for (const { row, settings } of ROWS) {
  describe(`what is promised: ${row}`, () => {
    it(`${row}, process dies: every message that was answered is there, and nothing else is lost than what was not`, async () => {
      const small = await SmallStore.create(settings);
      await send(small, 0, ANSWERED);
      // Not answered: in the memory of the process alone.
      put(small, ANSWERED, ANSWERED + 3);
      small.kill();
      await small.start();
      assert.equal(await expectBeginning(small, ANSWERED), ANSWERED);
      await send(small, ANSWERED, ANSWERED + 1);
      await small.stop();
    });

    if (row === 'async') {
      it('async, machine dies: what a sync had covered is there; what was answered after it may be gone, from the end alone', async () => {
        let lost = 0;
        for (let seed = 0; seed < CUTS; seed++) {
          const small = await SmallStore.create(settings, seed);
          await send(small, 0, 8);
          // Half a second later, or with four pages, the log is synced by itself.
          await small.world.until(
            () => small.store.watermarks.flushed === small.store.watermarks.wrote,
            'a sync by time',
          );
          const results = await send(small, 8, ANSWERED);
          assert.ok(small.store.watermarks.flushed < results[0]!.wroteOffset + results[0]!.wroteBytes);
          small.powerCut(seed === 0 ? undefined : seed);
          await small.start();
          lost += ANSWERED - (await expectBeginning(small, 8));
          await small.stop();
        }
        assert.ok(lost > 0, 'a power cut loses answered sends of ASYNC_FLUSH: that is its price');
      });
    } else {
      it(`${row}, machine dies: every message that was answered is there`, async () => {
        for (let seed = 0; seed < CUTS; seed++) {
          const small = await SmallStore.create(settings, seed);
          await send(small, 0, ANSWERED);
          put(small, ANSWERED, ANSWERED + 5);
          small.store.endTurn();
          small.powerCut(seed === 0 ? undefined : seed);
          await small.start();
          await expectBeginning(small, ANSWERED);
          await small.stop();
        }
      });
    }

    it(`${row}, medium damaged: a flipped bit is found and named, no altered message is handed out; its message is not promised`, async () => {
      const small = await SmallStore.create(settings);
      const results = await send(small, 0, ANSWERED);
      await small.world.until(() => small.store.watermarks.flushed === small.store.watermarks.wrote, 'all is synced');
      small.kill();
      const { wroteOffset } = results[11]!;
      const path = `${LOG}/${'0'.repeat(20)}`;
      const [byte] = small.bytesOf(path).subarray(wroteOffset + 95);
      small.overwrite(path, wroteOffset + 95, Buffer.from([byte! ^ 0x10]));
      try {
        await small.start();
      } catch (error) {
        assert.ok(error instanceof GantryError && error.code === 'STORE_DAMAGED', String(error));
        for (const word of [path, String(wroteOffset)]) assert.ok(error.message.includes(word), error.message);
        return;
      }
      const told = small.log.texts('warn').filter((text) => text.includes(String(wroteOffset)));
      assert.ok(told.length > 0, 'the start names the place');
      await expectBeginning(small, 11);
      await small.stop();
    });

    it(`${row}, derived file damaged: it is built again from the log, and costs no message`, async () => {
      const derived = ['consumequeue', 'index', 'checkpoint', 'gantry/queue-bounds.json'];
      for (const damaged of [...derived.map((one) => [one]), derived]) {
        for (const ending of ['stop', 'kill', 'power'] as const) {
          const small = await SmallStore.create(settings);
          await send(small, 0, ANSWERED);
          await small.world.until(
            () => small.store.watermarks.flushed === small.store.watermarks.wrote,
            'all is synced',
          );
          if (ending === 'stop') await small.stop();
          else if (ending === 'kill') small.kill();
          else small.powerCut(1);
          for (const path of damaged) removeTree(small.fs, `${ROOT}/${path}`);
          await small.start();
          const what = `${damaged.join()} after ${ending}`;
          assert.equal(await expectBeginning(small, ANSWERED), ANSWERED, what);
          for (const n of [0, 13, ANSWERED - 1]) {
            const found = await query(small.world, small.store, 'T', `U${n}`);
            assert.deepEqual(
              found.map((record) => record.queueOffset),
              [n],
              `${what}: the key of message ${n}`,
            );
          }
          await small.stop();
        }
      }
    });
  });
}

describe('what is promised: replicated', () => {
  it('no setting claims a replica that is not there', () => {
    for (const text of ['brokerRole=SYNC_MASTER\ninSyncReplicas=2', 'brokerRole=SLAVE', 'enableControllerMode=true']) {
      const file = { path: 'broker.conf', text };
      const read = (): unknown => readBrokerSettings({ file, overrides: [], strict: false });
      assert.throws(read, { code: 'CONFIG_UNSUPPORTED' }, text);
    }
  });
});
