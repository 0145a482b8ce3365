// Some thousand frames of hostile.ts against a broker in this process, and what they leave behind.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger } from '../../src/common/index.ts';
import { type MemoryFileSystem, readWhole } from '../../src/io/index.ts';
import { FakeClock, startBroker } from '../../src/testing/index.ts';
import { readBack, runHostile } from './hostile.ts';

const FRAMES = 20_000;
const OTHERS = 8;

test(`${FRAMES} hostile frames: all answered or their connections closed with a line, and nobody else notices`, async () => {
  const clock = new FakeClock();
  const logger = new CollectingLogger();
  // What is derived is made durable again and again meanwhile.
  const storeConfig = { flushIntervalConsumeQueue: 100, flushConsumeQueueThoroughInterval: 500 };
  const server = await startBroker({ clock, logger, storeConfig });
  // Time goes on with the work, so that pulls that wait come to their end.
  let pumping = true;
  const pump = (): void => {
    clock.advance(1);
    if (pumping) setImmediate(pump);
  };
  pump();
  const { broker, namesrv } = { broker: server.address, namesrv: server.namesrvAddress };
  const report = await runHostile({ broker, namesrv, frames: FRAMES, seed: 20_261_130, others: OTHERS });
  assert.deepEqual(report.faults, []);
  assert.ok(report.frames >= FRAMES && report.answers > FRAMES / 2 && report.closed > 100);
  await server.stop();
  const lines = closingLines(logger.texts('warn'));
  assert.ok(
    lines >= report.closed && lines <= report.closed + report.left,
    `${lines} lines, ${JSON.stringify(report)}`,
  );
  assert.deepEqual(
    logger.texts('error').filter((text) => text.startsWith('the handler of request')),
    [],
  );
  assertReadableByJava(server.disk!);

  const again = await startBroker({ clock, disk: server.disk! });
  assert.deepEqual(await readBack(again.address, OTHERS), report.messages);
  await again.stop();
  pumping = false;
});

/** Connections that the log says were closed for bad input, those counted included. */
function closingLines(texts: readonly string[]): number {
  let lines = 0;
  for (const text of texts) {
    if (text.startsWith('closed the connection of')) lines++;
    lines += Number(/^closed (\d+) more connections/.exec(text)?.[1] ?? 0);
  }
  return lines;
}

/** Java's parser refuses a file in which a number is no long, and its broker does not start then. */
function assertReadableByJava(disk: MemoryFileSystem): void {
  for (const name of ['topics', 'subscriptionGroup', 'consumerOffset']) {
    const text = Buffer.from(readWhole(disk, `/gantry/store/config/${name}.json`)!).toString('utf8');
    for (const [, number] of text.replace(/"(?:[^"\\]|\\.)*"/g, '""').matchAll(/[:[,]\s*(-?[\d.eE+]+)/g)) {
      assert.match(number!, /^-?\d{1,19}$/, name);
      assert.ok(BigInt(number!) < 2n ** 63n && BigInt(number!) >= -(2n ** 63n), `${name}: ${number}`);
    }
  }
}
