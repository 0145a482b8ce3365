import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../common/index.ts';
import { AckQueue } from './ack-queue.ts';
import { GroupCommit } from './group-commit.ts';

/** A log whose syncs last until `end`, and senders that append 10 bytes each. */
class Rig {
  readonly clock = new FakeClock(0, { manual: true });
  readonly acks = new AckQueue(this.clock, 2500);
  /** How many messages each sync covered. */
  readonly syncs: number[] = [];
  readonly log = {
    committed: 0,
    flushed: 0,
    syncing: false,
    lastSyncMs: 2,
    lastSyncBytes: 0,
    get unflushed(): number {
      return this.committed - this.flushed;
    },
    flush: (): void => {
      this.syncs.push(this.log.unflushed / 10);
      this.log.syncing = true;
      this.#target = this.log.committed;
    },
  };
  readonly group = new GroupCommit(this.clock, this.log, this.acks);
  answered = 0;
  #target = 0;

  send(count = 1): void {
    for (let i = 0; i < count; i++) {
      this.log.committed += 10;
      this.acks.park(this.log.committed, true, { settle: () => this.answered++ });
    }
    this.group.committed();
  }

  end(): void {
    this.log.syncing = false;
    this.log.lastSyncBytes = this.#target - this.log.flushed;
    this.log.flushed = this.#target;
    this.group.ended();
  }
}

test('a sender alone is never held back', () => {
  const rig = new Rig();
  for (let i = 0; i < 5; i++) {
    rig.send();
    rig.end();
  }
  assert.deepEqual(rig.syncs, [1, 1, 1, 1, 1]);
  assert.equal(rig.answered, 5);
});

test('senders that are answered join those that still wait: one group, not two that alternate', () => {
  const rig = new Rig();
  rig.send();
  rig.send(7);
  rig.end();
  assert.deepEqual(rig.syncs, [1], 'the one that was answered is waited for');
  rig.send();
  assert.deepEqual(rig.syncs, [1, 8]);
  for (let i = 0; i < 3; i++) {
    rig.end();
    rig.send(3);
    rig.send(5);
  }
  assert.deepEqual(rig.syncs, [1, 8, 8, 8, 8]);
});

test('who does not come back is waited for no longer than a sync takes, or 0.5 ms', () => {
  const rig = new Rig();
  rig.send();
  rig.send(3);
  rig.end();
  assert.equal(rig.syncs.length, 1);
  rig.clock.runSoon();
  assert.equal(rig.syncs.length, 1, 'the time is not over');
  rig.clock.advance(1);
  rig.clock.runSoon();
  assert.deepEqual(rig.syncs, [1, 3]);
});

test('a clock that stands still does not hold a sync back for ever', () => {
  const rig = new Rig();
  rig.send();
  rig.send(3);
  rig.end();
  while (rig.clock.runSoon());
  assert.deepEqual(rig.syncs, [1, 3]);
});

test('holds that bring nothing are made less often', () => {
  const rig = new Rig();
  let held = 0;
  rig.send();
  for (let i = 0; i < 200; i++) {
    // Nobody who was answered comes back: others come while the sync runs.
    rig.send(2);
    rig.end();
    if (rig.syncs.length < i + 2) held++;
    rig.clock.advance(1);
    rig.clock.runSoon();
  }
  assert.equal(rig.syncs.length, 201);
  assert.ok(held >= 5 && held < 20, `${held} of 200`);
});

test('where a sync covers much already, the next one starts at once', () => {
  const rig = new Rig();
  rig.send();
  rig.send(2000);
  rig.end();
  rig.clock.runSoon();
  while (rig.clock.runSoon());
  assert.deepEqual(rig.syncs, [1, 2000]);
  rig.send(5);
  rig.end();
  assert.deepEqual(rig.syncs, [1, 2000, 5]);
});
