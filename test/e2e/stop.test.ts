// What the clients of a broker see when it stops under load: every answer is a true one, and no client is left waiting for one.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RequestCode } from '../../src/remoting/index.ts';
import { startBroker } from '../../src/testing/index.ts';
import { readBack } from './hostile.ts';
import { type Frame, jsonRequest, sendFields, until, WirePeer } from './wire-peer.ts';

const PRODUCERS = 8;

test('a stop under load: what was answered is stored, each connection ends behind its last answer, no one is told to go away', async () => {
  const server = await startBroker();
  const answers: Frame[][] = [];
  const sent: number[] = [];
  const peers = await Promise.all(Array.from({ length: PRODUCERS }, () => WirePeer.open(server.address)));
  const producers = peers.map(async (peer, i) => {
    const topic = `Behaved-${i}`;
    answers[i] = [];
    sent[i] = 0;
    peer.onFrame = (frame) => answers[i]!.push(frame);
    while (!peer.closed) {
      const body = Buffer.from(`${topic} ${sent[i]} ${'abcdefghijklmnopqrstuvwxyz'.repeat(sent[i]! % 7)}`);
      peer.write(jsonRequest(RequestCode.SEND_MESSAGE_V2, ++sent[i]!, sendFields(topic), body));
      await until(() => peer.closed || answers[i]!.length === sent[i]!);
    }
  });
  const waiting = await WirePeer.open(server.address);
  await until(() => answers.every((list) => list.length > 50));
  const hold = { sysFlag: '6', suspendTimeoutMillis: '60000', subVersion: '0', subscription: '*', commitOffset: '0' };
  const pull = { ...hold, consumerGroup: 'G', topic: 'Behaved-0', queueId: '1', queueOffset: '0', maxMsgNums: '32' };
  waiting.write(jsonRequest(RequestCode.PULL_MESSAGE, 1, pull));
  await waiting.call(RequestCode.GET_MAX_OFFSET, 2, { topic: 'Behaved-0', queueId: '1' });
  await server.stop();
  await Promise.all(producers);
  await until(() => waiting.closed);
  for (const [i, list] of answers.entries()) {
    assert.ok(list.every((frame) => frame.code === 0));
    // At most the one that was on its way when the connection ended.
    assert.ok(sent[i]! - list.length <= 1);
  }
  assert.deepEqual(
    waiting.frames.map((frame) => frame.opaque),
    [2],
  );
  const again = await startBroker({ disk: server.disk! });
  const stored = await readBack(again.address, PRODUCERS);
  for (const [i, count] of stored.entries()) assert.ok(count >= answers[i]!.length && count <= sent[i]!);
  await again.stop();
});
