// What a connection sees that no client library shows: every request is answered once, whatever else is in flight, and also
// where the messages lie behind the tail of the log, in files that must be read first.

import assert from 'node:assert/strict';
import { RawConnection } from '../probe.ts';
import type { Suite } from '../runner.ts';
import { until } from '../wait.ts';

const SEND_MESSAGE_V2 = 310;
const PULL_MESSAGE = 11;
const GET_MAX_OFFSET = 30;
const PULL_NOT_FOUND = 19;
const QUEUES = 2;
/** So many that a queue's units are not all in memory. */
const MESSAGES = 60_000;
const IN_FLIGHT = 256;
/** A record's queue offset lies here. */
const QUEUE_OFFSET_AT = 20;

const pullFields = {
  commitOffset: '0',
  subscription: '*',
  suspendTimeoutMillis: '0',
  // The subscription comes with the request, and it does not wait.
  sysFlag: '4',
  expressionType: 'TAG',
  consumerGroup: 'G-Wire',
  maxMsgNums: '32',
  subVersion: '0',
};

async function send(connection: RawConnection, topic: string, index: number): Promise<void> {
  const fields = {
    ...{
      a: 'P-Wire',
      b: topic,
      c: 'TBW102',
      d: String(QUEUES),
      e: String(index % QUEUES),
      f: '0',
      g: String(index + 1),
    },
    ...{ h: '0', i: 'TAGS\u0001TagA\u0002', j: '0', k: 'false', m: 'false' },
  };
  // A busy broker may say so (2); the message is then sent again.
  const BUSY = 2;
  for (;;) {
    const answer = await connection.request(SEND_MESSAGE_V2, fields, Buffer.from(`message ${index} `.repeat(12)));
    if (answer.code === BUSY) continue;
    assert.equal(answer.code, 0, `send ${index}: ${answer.remark}`);
    return;
  }
}

/** Pulls a queue from its start to its end; the offsets that came. */
async function pullAll(connection: RawConnection, topic: string, queueId: number): Promise<number[]> {
  const offsets: number[] = [];
  let next = 0;
  for (;;) {
    const fields = { ...pullFields, topic, queueId: String(queueId), queueOffset: String(next) };
    const answer = await connection.request(PULL_MESSAGE, fields);
    if (answer.code === PULL_NOT_FOUND) return offsets;
    assert.equal(answer.code, 0, `pull of queue ${queueId} at ${next}: ${answer.remark}`);
    for (let at = 0; at < answer.body.length; at += answer.body.readInt32BE(at)) {
      offsets.push(Number(answer.body.readBigInt64BE(at + QUEUE_OFFSET_AT)));
    }
    assert.ok(Number(answer.fields['nextBeginOffset']) > next, 'the pull does not get on');
    next = Number(answer.fields['nextBeginOffset']);
  }
}

export const wire: Suite = {
  name: 'wire',
  needs: [],
  // Large ConsumeQueue files: a pull ends with its file.
  shared: 'default files',
  scenarios: [
    {
      name: 'every request is answered once, near the tail of the log and far behind it',
      async run(env) {
        const topic = 'WireOnce';
        const connection = new RawConnection(env.broker.brokerAddr);
        for (let i = 0; i < MESSAGES; i += IN_FLIGHT) {
          const wave = Array.from({ length: Math.min(IN_FLIGHT, MESSAGES - i) }, (_, k) =>
            send(connection, topic, i + k),
          );
          await Promise.all(wave);
        }
        const perQueue = MESSAGES / QUEUES;
        const last = { topic, queueId: String(QUEUES - 1) };
        await until('everything is dispatched', async () => {
          return (await connection.request(GET_MAX_OFFSET, last)).fields['offset'] === String(perQueue);
        });
        for (let round = 0; round < 3; round++) {
          const pulled = await Promise.all(
            Array.from({ length: QUEUES }, (_, queueId) => pullAll(connection, topic, queueId)),
          );
          for (const [queueId, offsets] of pulled.entries()) {
            assert.equal(offsets.length, perQueue, `queue ${queueId}`);
            assert.ok(
              offsets.every((offset, i) => offset === i),
              `queue ${queueId} is out of order`,
            );
          }
        }
        // Whatever was still to come comes before the answer to this.
        await connection.request(GET_MAX_OFFSET, last);
        assert.equal(connection.unexpected, 0, 'requests were answered twice');
        connection.close();
      },
    },
    {
      name: 'a peer that goes with requests in flight harms nobody',
      async run(env) {
        const topic = 'WireGone';
        const stays = new RawConnection(env.broker.brokerAddr);
        await send(stays, topic, 0);
        for (let i = 0; i < 20; i++) {
          const goes = new RawConnection(env.broker.brokerAddr);
          const fields = { ...pullFields, topic, queueId: '0', queueOffset: '0' };
          const first = goes.request(PULL_MESSAGE, fields);
          const others = Array.from({ length: 50 }, () => goes.request(PULL_MESSAGE, fields).catch(() => undefined));
          await first;
          goes.close();
          void others;
        }
        await send(stays, topic, QUEUES);
        await until('both messages are there', async () => (await pullAll(stays, topic, 0)).length === 2);
        assert.equal(stays.unexpected, 0);
        stays.close();
      },
    },
  ],
};
