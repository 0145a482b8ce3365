// Whether a put is taken at all, before anything of it is looked at (RocketMQ: checkBeforePutMessage, in its order), and whether who has much
// to put should wait.

import type { Clock } from '../../common/index.ts';
import type { CommitLog } from '../commit-log/commit-log.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import type { DiskGuard } from '../flush/disk-guard.ts';
import type { PoolCommit } from '../flush/pool-commit.ts';
import type { MessageStoreConfig } from '../store-config.ts';
import { PutMessageStatus, type PutRequest, type PutResult } from './put.ts';

const MAX_TOPIC_BYTES = 127;
/** Bytes that wait to be written, and bytes held in memory for writing and dispatch, from which the store is pressed. */
const PRESSED_UNCOMMITTED_BYTES = 2 * 1024 * 1024;
const PRESSED_HELD_BYTES = 32 * 1024 * 1024;

/** Why puts are refused. */
export type RefusalCause =
  | 'closing'
  | 'syncFailed'
  | 'writeFailed'
  | 'diskFull'
  | 'dispatchBehind'
  | 'topicDeleted'
  | 'poolExhausted'
  | 'diskStalls';

export interface PutGuardOptions {
  clock: Clock;
  config: MessageStoreConfig;
  log: CommitLog;
  disk: DiskGuard;
  dispatcher: Dispatcher;
  pool: PoolCommit | undefined;
}

export class PutGuard {
  /** The store is being closed: nothing is taken any more. */
  closing = false;
  /** Topics whose deletion is under way. */
  readonly deleting: Set<string> = new Set();
  /** Puts that were refused since the start, by cause. */
  readonly refusals: Map<RefusalCause, number> = new Map();
  readonly #clock: Clock;
  readonly #config: MessageStoreConfig;
  readonly #log: CommitLog;
  readonly #disk: DiskGuard;
  readonly #dispatcher: Dispatcher;
  readonly #pool: PoolCommit | undefined;

  constructor({ clock, config, log, disk, dispatcher, pool }: PutGuardOptions) {
    this.#clock = clock;
    this.#config = config;
    this.#log = log;
    this.#disk = disk;
    this.#dispatcher = dispatcher;
    this.#pool = pool;
  }

  /** Why puts are refused now, in words; undefined while they are taken. */
  get unwritableReason(): string | undefined {
    const cause = this.#unwritable();
    return cause === undefined ? undefined : this.#inWords(cause);
  }

  #unwritable(): RefusalCause | undefined {
    if (this.closing) return 'closing';
    if (this.#log.syncFailure !== undefined) return 'syncFailed';
    const { fault } = this.#disk;
    if (fault !== undefined) return fault;
    return this.#behind > this.#config.gantryMaxDispatchBehindBytes ? 'dispatchBehind' : undefined;
  }

  get #behind(): number {
    return this.#log.committed - this.#dispatcher.doneOffset;
  }

  #inWords(cause: RefusalCause): string {
    switch (cause) {
      case 'closing':
        return 'the store is being closed';
      case 'syncFailed':
        return `a sync of the CommitLog failed: ${this.#log.syncFailure?.message}`;
      case 'dispatchBehind':
        return `dispatch is ${this.#behind} bytes behind, the limit gantryMaxDispatchBehindBytes is ${this.#config.gantryMaxDispatchBehindBytes}`;
      default:
        return this.#disk.reason ?? cause;
    }
  }

  #refuse(cause: RefusalCause, result: PutResult, reason: string, status: PutMessageStatus): PutMessageStatus {
    this.refusals.set(cause, (this.refusals.get(cause) ?? 0) + 1);
    result.reason = reason;
    return status;
  }

  /** As `MessageStore.pressed`. */
  get pressed(): boolean {
    const { wrote, committed } = this.#log;
    if (wrote - committed <= PRESSED_UNCOMMITTED_BYTES && wrote - this.#dispatcher.dispatched <= PRESSED_HELD_BYTES)
      return false;
    return this.unwritableReason === undefined;
  }

  /** As `MessageStore.pressedBy`. */
  get pressedBy(): string {
    const { wrote, committed } = this.#log;
    const unwritten = wrote - committed;
    if (unwritten > PRESSED_UNCOMMITTED_BYTES) {
      return `${unwritten} bytes wait to be written to the log, the limit is ${PRESSED_UNCOMMITTED_BYTES}`;
    }
    const behind = wrote - this.#dispatcher.dispatched;
    return `the queues are ${behind} bytes behind the log, the limit is ${PRESSED_HELD_BYTES}`;
  }

  /** PUT_OK, or the status of a refusal, with its reason in `result`. `inTurn`: this loop turn has appended something already. */
  check(request: PutRequest, result: PutResult, inTurn: boolean): PutMessageStatus {
    const unwritable = this.#unwritable();
    if (unwritable !== undefined) {
      return this.#refuse(unwritable, result, this.#inWords(unwritable), PutMessageStatus.SERVICE_NOT_AVAILABLE);
    }
    const topicBytes = request.topicBytes.length;
    if (topicBytes === 0 || (topicBytes > MAX_TOPIC_BYTES && topicBytes > topicLimit(request.topic))) {
      result.reason = `the topic has ${topicBytes} bytes, the limit is ${topicLimit(request.topic)}`;
      return PutMessageStatus.MESSAGE_ILLEGAL;
    }
    if (this.deleting.size > 0 && this.deleting.has(request.topic)) {
      const reason = `the topic ${request.topic} is being deleted`;
      return this.#refuse('topicDeleted', result, reason, PutMessageStatus.SERVICE_NOT_AVAILABLE);
    }
    if (this.#pool !== undefined) {
      if (this.#pool.free > 0) return PutMessageStatus.PUT_OK;
      const reason = `the transient store pool has no buffer left: ${this.#log.wrote - this.#log.committed} bytes wait to be written, transientStorePoolSize is ${this.#config.transientStorePoolSize}`;
      const status = this.#config.fastFailIfNoBufferInStorePool
        ? PutMessageStatus.CREATE_MAPPED_FILE_FAILED
        : PutMessageStatus.OS_PAGE_CACHE_BUSY;
      return this.#refuse('poolExhausted', result, reason, status);
    }
    // Once a turn is enough: what the turn has appended itself is not what stalls.
    if (this.#log.uncommittedSince !== 0 && !inTurn) {
      const age = this.#clock.monotonic() - this.#log.uncommittedSince;
      if (age > this.#config.osPageCacheBusyTimeOutMills) {
        const reason = `the disk stalls: the oldest append has waited ${Math.round(age)} ms to be written, the limit is ${this.#config.osPageCacheBusyTimeOutMills} ms`;
        return this.#refuse('diskStalls', result, reason, PutMessageStatus.OS_PAGE_CACHE_BUSY);
      }
    }
    return PutMessageStatus.PUT_OK;
  }
}

function topicLimit(topic: string): number {
  return topic.startsWith('%RETRY%') ? 255 : MAX_TOPIC_BYTES;
}
