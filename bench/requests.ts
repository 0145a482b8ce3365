// Single requests around a run: how long a person waits from the start of the broker's process to the first message that it has
// accepted; topics; how much a topic holds, and when.

import { setTimeout as delay } from 'node:timers/promises';
import { call, storedMessages } from '../test/interop/probe.ts';
import type { RunningBroker, System } from '../test/interop/system.ts';
import { Code } from './wire.ts';

const LIMIT_MS = 60_000;

/** Sends to `addr` until a message is accepted; the ms since the call. */
async function firstAcceptedSend(addr: string): Promise<number> {
  const start = performance.now();
  for (;;) {
    const accepted = await call(
      addr,
      Code.SEND_MESSAGE_V2,
      {
        a: 'PID_bench',
        b: 'FirstSend',
        c: 'TBW102',
        d: '4',
        e: '0',
        f: '0',
        g: String(Date.now()),
        h: '0',
        i: '',
        j: '0',
        k: 'false',
        m: 'false',
      },
      Buffer.from('first'),
    ).then(
      (answer) => answer.code === 0,
      () => false,
    );
    const elapsed = performance.now() - start;
    if (accepted) return elapsed;
    if (elapsed > LIMIT_MS) throw new Error(`${addr} accepted nothing within ${LIMIT_MS / 1000} s`);
    await delay(2);
  }
}

/** Starts a broker on a store as it comes, with no settings; and the ms from exec to the first message that it has accepted. */
export async function startTimed(
  system: System,
  storeDir: string,
): Promise<{ broker: RunningBroker; firstSendMs: number }> {
  let first: Promise<number> | undefined;
  const spawned = (addr: string): void => {
    first = firstAcceptedSend(addr);
    first.catch(() => {});
  };
  const broker = await system.startBroker({ storeDir, plain: true, spawned });
  return { broker, firstSendMs: await first! };
}

/** Creates a topic with so many queues, and waits until the broker has it. */
export async function createTopic(addr: string, topic: string, queues: number): Promise<void> {
  const answer = await call(
    addr,
    Code.UPDATE_AND_CREATE_TOPIC,
    {
      topic,
      defaultTopic: 'TBW102',
      readQueueNums: String(queues),
      writeQueueNums: String(queues),
      perm: '6',
      topicFilterType: 'SINGLE_TAG',
      topicSysFlag: '0',
      order: 'false',
      attributes: '',
      force: 'false',
    },
    undefined,
    30_000,
  );
  if (answer.code !== 0) throw new Error(`topic ${topic} was not created: code ${answer.code} ${answer.remark ?? ''}`);
}

/** Waits until a topic holds `expected` messages; the ms that took. @throws if it holds more, or less for a minute. */
export async function untilDispatched(addr: string, topic: string, queues: number, expected: number): Promise<number> {
  const start = performance.now();
  for (;;) {
    const found = await storedMessages(addr, topic, queues);
    const elapsed = performance.now() - start;
    if (found === expected) return elapsed;
    if (found > expected || elapsed > LIMIT_MS) {
      throw new Error(`${topic} holds ${found} messages, and ${expected} were accepted`);
    }
    await delay(2);
  }
}
