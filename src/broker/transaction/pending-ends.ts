// Ends whose messages are appended and not yet committed: those of one loop turn wait together. A record tells of them when their messages cannot
// be lost without it; if those cannot be written, the transactions are open again, and their producers are asked.
//
// RocketMQ: has no such state, since its appends are in the files at once.

import type { Clock, Logger } from '../../common/index.ts';
import { type AckTarget, isStored, type MessageStore, PutMessageStatus, putStatusName } from '../../store/index.ts';
import type { TransactionService } from './transaction-service.ts';

/** Groups that are kept for the next turns. */
const KEPT_GROUPS = 16;

export interface PendingParts {
  readonly store: MessageStore;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly transactions: TransactionService;
}

/** The ends of one turn. */
class Group implements AckTarget {
  /** Queue, offset and offset of the newest copy, one behind the other. */
  readonly places: number[] = [];
  /** Where the messages belong. */
  readonly topics: string[] = [];
  readonly #settled: (group: Group, status: PutMessageStatus, reason: string) => void;

  constructor(settled: (group: Group, status: PutMessageStatus, reason: string) => void) {
    this.#settled = settled;
  }

  settle(status: PutMessageStatus, reason: string): void {
    this.#settled(this, status, reason);
  }
}

export class PendingEnds {
  readonly #parts: PendingParts;
  readonly #free: Group[] = [];
  /** Those that a record may tell of now. */
  readonly #stored: Group[] = [];
  #group: Group | undefined;
  #end = 0;

  constructor(parts: PendingParts) {
    this.#parts = parts;
    parts.store.watchLog({ cut: (offset, reason) => this.#cut(offset, reason) });
  }

  /** Adds an end whose message lies in the log before `logEnd`. Offsets must not fall. */
  add(queueId: number, queueOffset: number, topic: string, logEnd: number): void {
    this.#group ??= this.#free.pop() ?? new Group((...settled) => this.#settled(...settled));
    const newest = this.#parts.transactions.ending(queueId, queueOffset);
    this.#group.places.push(queueId, queueOffset, newest);
    this.#group.topics.push(topic);
    this.#end = logEnd;
  }

  /** As `add`, for an end that waits by itself. */
  addAlone(queueId: number, queueOffset: number, topic: string, logEnd: number): void {
    const group = new Group((...settled) => this.#settled(...settled));
    group.places.push(queueId, queueOffset, this.#parts.transactions.ending(queueId, queueOffset));
    group.topics.push(topic);
    this.#parts.store.park(logEnd, false, group);
  }

  /** Has the turn's ends wait. */
  endTurn(): void {
    const group = this.#group;
    if (group === undefined) return;
    this.#group = undefined;
    this.#parts.store.park(this.#end, false, group);
  }

  #cut(offset: number, reason: string): void {
    const group = this.#group;
    if (group === undefined || this.#end <= offset) return;
    this.#group = undefined;
    this.#reopen(group, PutMessageStatus.SERVICE_NOT_AVAILABLE, reason);
  }

  #settled(group: Group, status: PutMessageStatus, reason: string): void {
    if (!isStored(status)) {
      this.#reopen(group, status, reason);
      return;
    }
    // A record that is full is put, which is not for now: the store is in the middle of its turn.
    if (this.#stored.push(group) === 1) this.#parts.clock.soon(() => this.note());
  }

  /** Has records tell of the ends whose messages are committed; by itself this comes a loop turn later. */
  note(): void {
    const { transactions } = this.#parts;
    for (let group = this.#stored.pop(); group !== undefined; group = this.#stored.pop()) {
      const { places, topics } = group;
      for (let i = 0; i < topics.length; i++) {
        transactions.noteEnd(places[3 * i]!, places[3 * i + 1]!, places[3 * i + 2]!, topics[i]!);
      }
      this.#give(group);
    }
  }

  #reopen(group: Group, status: PutMessageStatus, reason: string): void {
    const { transactions, logger } = this.#parts;
    const { places, topics } = group;
    for (let i = 0; i < topics.length; i++) transactions.reopen(places[3 * i]!, places[3 * i + 2]!);
    logger.warn(`${topics.length} commits could not be written: ${putStatusName(status)} ${reason}`);
    this.#give(group);
  }

  #give(group: Group): void {
    group.places.length = 0;
    group.topics.length = 0;
    if (this.#free.length < KEPT_GROUPS) this.#free.push(group);
  }
}
