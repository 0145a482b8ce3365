// Some thousand frames of hostile.ts against a broker in this process.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger } from '../../src/common/index.ts';
import { FakeClock, startBroker } from '../../src/testing/index.ts';
import { runHostile } from './hostile.ts';

const FRAMES = 20_000;

test(`${FRAMES} hostile frames: all answered or their connections closed with a line, and nobody else notices`, async () => {
  const clock = new FakeClock();
  const logger = new CollectingLogger();
  const server = await startBroker({ clock, logger });
  // Time goes on with the work, so that pulls that wait come to their end.
  let pumping = true;
  const pump = (): void => {
    clock.advance(1);
    if (pumping) setImmediate(pump);
  };
  pump();
  const report = await runHostile({ broker: server.address, namesrv: server.namesrvAddress, frames: FRAMES, seed: 20_261_130 });
  console.log(report.kinds, report.frames, report.answers, report.closed, report.messages, report.waits.at(Math.floor(report.waits.length*0.99)));
  const errs = new Map<string, number>();
  for (const t of [...logger.texts('error')]) { const k = t.replace(/[0-9]+/g,'#').slice(0,150); errs.set(k, (errs.get(k)??0)+1); }
  console.log(errs);
  assert.deepEqual(report.faults, []);
  await server.stop();
  pumping = false;
});
