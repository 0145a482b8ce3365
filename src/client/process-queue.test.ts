import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FakeClock } from '../common/index.ts';
import { storedMessage } from './client.test.support.ts';
import { ReceivedMessage } from './message-types.ts';
import { ProcessQueue } from './process-queue.ts';

const queue = { topic: 'T', brokerName: 'b', queueId: 0 };

function message(queueOffset: number, body = 'x'): ReceivedMessage {
  return new ReceivedMessage(storedMessage({ queueOffset, body: Buffer.from(body) }), { queue });
}

function filled(...offsets: number[]): { taken: ProcessQueue; messages: ReceivedMessage[] } {
  const taken = new ProcessQueue(queue, offsets[0] ?? 0, new FakeClock());
  const messages = offsets.map((offset) => message(offset));
  taken.put(messages);
  return { taken, messages };
}

test('what may be committed is the lowest offset in hand, whatever the order of consumption', () => {
  const { taken, messages } = filled(10, 11, 12, 13);
  assert.equal(taken.remove([messages[1]!]), 10);
  assert.equal(taken.remove([messages[3]!]), 10);
  assert.equal(taken.remove([messages[0]!]), 12);
  assert.equal(taken.remove([messages[2]!]), 14);
  assert.equal(taken.remove([messages[2]!]), -1);
});

test('gaps of the tag filter do not hold the offset back', () => {
  const { taken, messages } = filled(5, 9, 20);
  assert.equal(taken.remove([messages[0]!]), 9);
  assert.equal(taken.span, 11);
  assert.equal(taken.remove([messages[2]!]), 9);
  assert.equal(taken.remove([messages[1]!]), 21);
});

test('with nothing in hand the offset goes to what was pulled last, past filtered messages', () => {
  const { taken, messages } = filled(5, 6);
  taken.nextOffset = 30;
  assert.equal(taken.remove([messages[1]!]), 5);
  assert.equal(taken.remove([messages[0]!]), 30);
});

test('offsets that were put before are repeats and are left out', () => {
  const { taken } = filled(1, 2);
  assert.deepEqual(
    taken.put([message(2), message(3)]).map((m) => m.queueOffset),
    [3],
  );
  assert.equal(taken.count, 3);
});

test('count and bytes follow what is in hand', () => {
  const taken = new ProcessQueue(queue, 0, new FakeClock());
  const messages = [message(0, 'ab'), message(1, 'cde')];
  taken.put(messages);
  assert.equal(taken.bytes, 5);
  taken.remove([messages[0]!]);
  assert.equal(taken.bytes, 3);
  taken.clear();
  assert.deepEqual([taken.count, taken.bytes, taken.firstOffset, taken.span], [0, 0, -1, 0]);
});

test('expired: only the lowest messages that a listener has had for too long, up to the first that is not', () => {
  const { taken, messages } = filled(0, 1, 2);
  taken.started(messages[0]!, 100);
  taken.started(messages[2]!, 100);
  assert.deepEqual(taken.expired(101, 16), [messages[0]]);
  assert.deepEqual(taken.expired(100, 16), []);
  taken.started(messages[1]!, 50);
  assert.deepEqual(taken.expired(101, 2), [messages[0], messages[1]]);
});

test('in any order of consumption the answer never passes a message in hand', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.nat(1000), { minLength: 1, maxLength: 40 }),
      fc.infiniteStream(fc.nat()),
      (numbers, choices) => {
        const offsets = [...numbers].sort((a, b) => a - b);
        const { taken, messages } = filled(...offsets);
        const left = [...messages];
        while (left.length > 0) {
          const [done] = left.splice(choices.next().value! % left.length, 1);
          const expected = left.length === 0 ? offsets[offsets.length - 1]! + 1 : left[0]!.queueOffset;
          assert.equal(taken.remove([done!]), expected);
        }
      },
    ),
  );
});
