// Which client may consume which queue of an orderly group. A lock lives for a minute without renewal; clients renew every 20 s.
// RocketMQ: RebalanceLockManager.

import type { Clock, Logger } from '../../common/index.ts';

/** RocketMQ: MessageQueue. */
export interface MessageQueue {
  readonly topic: string;
  readonly brokerName: string;
  readonly queueId: number;
}

interface Lock {
  clientId: string;
  renewedMs: number;
}

/** Below so many locks nobody looks for those that have run out. */
const SWEEP_AT_LEAST = 10_000;

export class RebalanceLockManager {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #config: { readonly gantryRebalanceLockMaxLiveTime: number };
  readonly #groups = new Map<string, Map<string, Lock>>();
  /** Locks, those run out included. */
  #count = 0;
  #sweepAt = SWEEP_AT_LEAST;

  constructor(clock: Clock, logger: Logger, config: { readonly gantryRebalanceLockMaxLiveTime: number }) {
    this.#clock = clock;
    this.#logger = logger;
    this.#config = config;
  }

  /** Takes or renews locks; answers the queues that the client now holds. */
  tryLockBatch(group: string, queues: readonly MessageQueue[], clientId: string): MessageQueue[] {
    if (queues.length === 0) return [];
    if (this.#count > this.#sweepAt) this.#sweep();
    let locks = this.#groups.get(group);
    if (locks === undefined) {
      locks = new Map();
      this.#groups.set(group, locks);
    }
    const held: MessageQueue[] = [];
    const now = this.#clock.now();
    for (const queue of queues) {
      const key = queueKey(queue);
      const lock = locks.get(key);
      if (lock === undefined) {
        locks.set(key, { clientId, renewedMs: now });
        this.#count++;
      } else if (lock.clientId === clientId || this.#hasRunOut(lock, now)) {
        lock.clientId = clientId;
        lock.renewedMs = now;
      } else {
        this.#logger.debug(`queue ${key} of group ${group} is locked by ${lock.clientId}, ${clientId} has to wait`);
        continue;
      }
      held.push(queue);
    }
    return held;
  }

  /** Gives up the locks that the client holds. */
  unlockBatch(group: string, queues: readonly MessageQueue[], clientId: string): void {
    const locks = this.#groups.get(group);
    if (locks === undefined) return;
    for (const queue of queues) {
      const key = queueKey(queue);
      if (locks.get(key)?.clientId === clientId && locks.delete(key)) this.#count--;
    }
    if (locks.size === 0) this.#groups.delete(group);
  }

  #hasRunOut(lock: Lock, now: number): boolean {
    return now - lock.renewedMs > this.#config.gantryRebalanceLockMaxLiveTime;
  }

  /** RocketMQ: keeps locks that have run out for ever. */
  #sweep(): void {
    const now = this.#clock.now();
    for (const [group, locks] of this.#groups) {
      for (const [key, lock] of locks) {
        if (this.#hasRunOut(lock, now) && locks.delete(key)) this.#count--;
      }
      if (locks.size === 0) this.#groups.delete(group);
    }
    this.#sweepAt = Math.max(SWEEP_AT_LEAST, 2 * this.#count);
  }

  /** Whether any queue of the group is locked and the lock has not run out: such a group consumes in order. */
  hasLiveLock(group: string): boolean {
    const now = this.#clock.now();
    for (const lock of this.#groups.get(group)?.values() ?? []) {
      if (!this.#hasRunOut(lock, now)) return true;
    }
    return false;
  }
}

function queueKey(queue: MessageQueue): string {
  return `${queue.topic}@${queue.brokerName}@${queue.queueId}`;
}
