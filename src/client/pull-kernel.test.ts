import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger } from '../common/index.ts';
import { encodeBatch, SysFlag } from '../message/index.ts';
import { record } from './fake-cluster.test.support.ts';
import { type PullRequest, readPullResult } from './pull-kernel.ts';
import { originalTopic } from './pull-loop.ts';
import { parseSubscription } from './subscription.ts';

function request(fields: Partial<PullRequest> = {}): PullRequest {
  return {
    group: 'G',
    queue: { topic: 'T', brokerName: 'a', queueId: 0 },
    offset: 0,
    subscription: parseSubscription('T', '*', 1),
    withSubscription: false,
    commitOffset: undefined,
    maxMessages: 32,
    maxBytes: 1000,
    suspendMs: 0,
    timeoutMs: 1,
    originalTopic: (stored) => originalTopic(stored, 'G'),
    ...fields,
  };
}

function answer(body: Uint8Array): {
  code: number;
  remark: undefined;
  ext: Record<string, string>;
  body: Buffer;
  version: number;
} {
  const ext = { nextBeginOffset: '100', minOffset: '0', maxOffset: '100', suggestWhichBrokerId: '0' };
  return { code: 0, remark: undefined, ext, body: Buffer.from(body), version: 513 };
}

const read = (body: Uint8Array, fields: Partial<PullRequest> = {}, logger = new CollectingLogger()) =>
  readPullResult('FOUND', answer(body), request(fields), logger);

test('an answer that is cut gives what is whole, says so, and goes on right behind it', () => {
  const records = [0, 1, 2].map((offset) => record('T', 0, offset, `m${offset}`));
  const body = Buffer.concat(records);
  const logger = new CollectingLogger();
  const result = read(body.subarray(0, body.length - 1), {}, logger);
  assert.deepEqual(
    result.messages.map((message) => message.text()),
    ['m0', 'm1'],
  );
  assert.equal(result.nextBeginOffset, 2);
  assert.match(logger.texts('error')[0]!, /cannot be decoded from byte \d+/);
});

test('an answer of which nothing can be read does not stop the queue', () => {
  const result = read(Buffer.from('no record at all'));
  assert.deepEqual(result.messages, []);
  assert.equal(result.nextBeginOffset, 100);
});

/** A record of a BatchCQ topic: the body is a client's batch, the offset its base. */
function batchRecord(base: number): Uint8Array {
  const members = ['x', 'y', 'z'].map((name) => ({
    flag: 7,
    body: Buffer.from(name),
    properties: Buffer.from(`UNIQ_KEY\u0001ID-${name}\u0002TAGS\u0001${name}\u0002`),
  }));
  const bytes = Buffer.from(record('T', 0, base, Buffer.from(encodeBatch(members)).toString('latin1')));
  bytes.writeInt32BE(bytes.readInt32BE(36) | SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP, 36);
  return bytes;
}

test('a record that holds a batch is taken apart, member by member', () => {
  const { messages } = read(batchRecord(40));
  assert.deepEqual(
    messages.map((m) => [m.queueOffset, m.text(), m.msgId, m.tags, m.flag]),
    [
      [40, 'x', 'ID-x', 'x', 7],
      [41, 'y', 'ID-y', 'y', 7],
      [42, 'z', 'ID-z', 'z', 7],
    ],
  );
});

test('members before the offset that was asked for, or with another tag, are left out', () => {
  const later = read(batchRecord(40), { offset: 41, subscription: parseSubscription('T', 'x || z', 1) });
  assert.deepEqual(
    later.messages.map((message) => message.text()),
    ['z'],
  );
});

test('answers without messages carry only where to go on', () => {
  for (const status of ['NO_NEW_MSG', 'NO_MATCHED_MSG', 'OFFSET_ILLEGAL'] as const) {
    const result = readPullResult(status, answer(new Uint8Array(0)), request(), new CollectingLogger());
    assert.deepEqual([result.status, result.nextBeginOffset, result.messages.length], [status, 100, 0]);
  }
});
