import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../common/index.ts';
import { PutMessageStatus, putStatusName } from '../put/index.ts';
import { AckQueue } from './ack-queue.ts';

/** A queue whose settled targets are noted as `name: STATUS`. */
function queue(): {
  clock: FakeClock;
  acks: AckQueue;
  told: string[];
  park: (name: string, offset: number, flush?: boolean) => void;
} {
  const clock = new FakeClock();
  const acks = new AckQueue(clock, 2500);
  const told: string[] = [];
  const park = (name: string, offset: number, flush = false): void =>
    acks.park(offset, flush, { settle: (status) => told.push(`${name}: ${putStatusName(status)}`) });
  return { clock, acks, told, park };
}

test('a step of the watermark releases what it covers and nothing else', () => {
  const { acks, told, park } = queue();
  park('a', 100);
  park('b', 200);
  park('c', 150, true);
  acks.progress(100, 0);
  assert.deepEqual(told, ['a: PUT_OK']);
  acks.progress(200, 149);
  assert.deepEqual(told, ['a: PUT_OK', 'b: PUT_OK']);
  acks.progress(200, 150);
  assert.deepEqual(told.at(-1), 'c: PUT_OK');
  park('late', 120);
  assert.deepEqual(told.at(-1), 'late: PUT_OK', 'what is covered already is settled at once');
  assert.equal(acks.size, 0);
});

test('offsets that were parked out of order are abandoned by their own place', () => {
  const { acks, told, park } = queue();
  park('late', 300);
  park('early', 100);
  park('middle', 200);
  acks.abandon(150, 'no space');
  assert.deepEqual(told, ['middle: SERVICE_NOT_AVAILABLE', 'late: SERVICE_NOT_AVAILABLE']);
  acks.progress(1000, 1000);
  assert.deepEqual(told.at(-1), 'early: PUT_OK');
});

test('a wait for a sync ends at its deadline, as stored and not known to be durable', () => {
  const { clock, acks, told, park } = queue();
  park('first', 100, true);
  clock.advance(1000);
  park('second', 200, true);
  clock.advance(1500);
  acks.expire();
  assert.deepEqual(told, ['first: FLUSH_DISK_TIMEOUT']);
  acks.syncFailed(300, 'no more');
  assert.deepEqual(told.at(-1), 'second: FLUSH_DISK_TIMEOUT');
  assert.equal(PutMessageStatus.FLUSH_DISK_TIMEOUT, 1);
});
