// A start that fails, wherever that is, lets go of all that it has opened: who tries again in the same process finds nothing held.

import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { silentLogger } from '../common/index.ts';
import { Broker } from './index.ts';
import { TimerWorld } from './timer/timer-world.test.support.ts';

/** A stopped store with timer messages. */
async function stopped(): Promise<TimerWorld> {
  const w = await new TimerWorld().start();
  for (let i = 0; i < 30; i++) await w.at(w.clock.now() + 60_000, `m${i}`);
  await w.pass(3000);
  await w.stop();
  assert.equal(w.fs.openHandles, 0, 'an orderly stop leaves none');
  return w;
}

function start({ fs, config }: TimerWorld, listenPort: number): Promise<Broker> {
  return Broker.start({
    storeConfig: {
      storePathRootDir: '/store',
      mappedFileSizeCommitLog: 256 * 1024,
      mappedFileSizeConsumeQueue: 20_000,
      maxHashSlotNum: 100,
      maxIndexNum: 400,
    },
    config: { ...config, listenPort, brokerIP1: '127.0.0.1' },
    host: '127.0.0.1',
    deps: { fs, logger: silentLogger },
  });
}

test('a start that fails at its last step, a port that is taken, leaves no file of store or timer open', async (t) => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  t.after(() => taken.close());
  const address = taken.address();
  assert.ok(typeof address === 'object' && address !== null);
  const w = await stopped();
  await assert.rejects(start(w, address.port));
  assert.equal(w.fs.openHandles, 0);
});

test('a start whose timer cannot be recovered leaves no file of store or timer open', async () => {
  for (const operation of ['write', 'sync'] as const) {
    const w = await stopped();
    // The log ends in front of what the checkpoint says: it is cut, its last unit read again, and what was mended is saved.
    const check = w.fs.open('/store/config/timercheck', 'write');
    check.writeSync(new Uint8Array([0, 0, 0, 0, 0, 0, 0, 60]), 0, 8, 8);
    check.close();
    w.fs.fail({ operation, path: 'timercheck', times: Number.POSITIVE_INFINITY });
    await assert.rejects(start(w, 0), { code: 'IO' });
    for (let n = 0; n < 10; n++) await turn();
    assert.equal(w.fs.openHandles, 0, operation);
  }
});
