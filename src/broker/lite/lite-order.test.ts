import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../common/index.ts';
import { Acked, LiteOrder } from './lite-order.ts';

function setup(): { clock: FakeClock; freed: string[]; order: LiteOrder } {
  const clock = new FakeClock();
  const freed: string[] = [];
  clock.advance(1000);
  return { clock, freed, order: new LiteOrder(clock, (queue, group) => freed.push(`${queue} ${group}`)) };
}

test('a queue is closed to its group until all that is out is acknowledged, and the offset moves behind the first run of them', () => {
  const { clock, order } = setup();
  const now = clock.now();
  assert.deepEqual(order.popped(undefined, 'q', 'g', now, 5000, [5, 6, 7]), [0, 0, 0]);
  assert.ok(order.isBlocked(undefined, 'q', 'g', 5000));
  assert.ok(!order.isBlocked(undefined, 'q', 'other', 5000) && !order.isBlocked(undefined, 'r', 'g', 5000));
  assert.equal(order.ack('q', 'g', 6, now, 5), 5);
  assert.equal(order.ack('q', 'g', 5, now, 5), 7);
  assert.ok(order.isBlocked(undefined, 'q', 'g', 5000));
  assert.equal(order.ack('q', 'g', 7, now, 7), 8);
  assert.ok(!order.isBlocked(undefined, 'q', 'g', 5000));
  assert.equal(order.size, 0);
});

test('what was not acknowledged in time comes back, counted, and the old handles count no longer', () => {
  const { clock, freed, order } = setup();
  const first = clock.now();
  order.popped(undefined, 'q', 'g', first, 5000, [0, 1]);
  clock.advance(4999);
  assert.deepEqual(freed, []);
  clock.advance(1);
  assert.deepEqual(freed, ['q g']);
  assert.ok(!order.isBlocked(undefined, 'q', 'g', 5000));
  const second = clock.now();
  assert.deepEqual(order.popped(undefined, 'q', 'g', second, 5000, [0, 1, 2]), [1, 1, 0]);
  assert.equal(order.ack('q', 'g', 0, first, 0), Acked.STALE);
  assert.equal(order.ack('q', 'g', 9, second, 0), Acked.ILLEGAL);
  assert.equal(order.ack('q', 'g', 0, second, 0), 1);
});

test('the same attempt gets the same again, uncounted', () => {
  const { clock, order } = setup();
  const now = clock.now();
  order.popped('a1', 'q', 'g', now, 5000, [0]);
  assert.ok(!order.isBlocked('a1', 'q', 'g', 5000));
  assert.ok(order.isBlocked('a2', 'q', 'g', 5000));
  assert.deepEqual(order.popped('a1', 'q', 'g', now, 5000, [0]), [0]);
});

test('one message may come back at another time, or the whole queue, which does not count', () => {
  const { clock, freed, order } = setup();
  const now = clock.now();
  order.popped(undefined, 'q', 'g', now, 5000, [0, 1]);
  order.changeVisible('q', 'g', 0, now, now + 20_000);
  clock.advance(19_999);
  assert.ok(order.isBlocked(undefined, 'q', 'g', 5000));
  assert.deepEqual(freed, []);
  clock.advance(1);
  assert.deepEqual(freed, ['q g']);
  const again = clock.now();
  assert.deepEqual(order.popped(undefined, 'q', 'g', again, 5000, [0, 1]), [1, 1]);
  order.suspend('q', 'g', again - 1, again + 60_000);
  clock.advance(5000);
  assert.equal(freed.length, 2, 'another pop suspends nothing');
  const third = clock.now();
  order.popped(undefined, 'q', 'g', third, 5000, [0, 1]);
  order.suspend('q', 'g', third, third + 60_000);
  clock.advance(59_999);
  assert.equal(freed.length, 2);
  clock.advance(1);
  assert.equal(freed.length, 3);
  assert.deepEqual(order.popped(undefined, 'q', 'g', clock.now(), 5000, [0, 1]), [2, 2], 'as often as before it');
});

test('after a restart an acknowledgement counts for the first message that is not acknowledged alone', () => {
  const { clock, order } = setup();
  const before = clock.now() - 500;
  // RocketMQ: any of them moves the offset behind itself.
  assert.equal(order.ack('q', 'g', 7, before, 5), Acked.ILLEGAL);
  assert.equal(order.ack('q', 'g', 5, before, 5), 6);
  assert.equal(order.ack('q', 'g', 6, clock.now(), 6), Acked.ILLEGAL, 'a pop of this life that nobody knows is forged');
});

test('an invisible time that no timer takes is waited for, and what is out for a day is forgotten', () => {
  const { clock, freed, order } = setup();
  order.popped(undefined, 'q', 'g', clock.now(), 40 * 24 * 3600 * 1000, [0]);
  clock.advance(3 * 3600 * 1000);
  assert.deepEqual(freed, []);
  assert.ok(order.isBlocked(undefined, 'q', 'g', 1));
  clock.advance(22 * 3600 * 1000);
  order.clean();
  assert.equal(order.size, 0);
});
