// The rounds in which producers are asked what became of their open transactions.
//
// A round reads all records of ended transactions first and decides then (B47). It goes through the half messages in order: one that has
// ended is passed over; one that cannot be read or does not tell whose it is, is named, counted and set aside; one that is too old or has
// been asked about too often is parked in TRANS_CHECK_MAX_TIME_TOPIC; one that is still young ends the round. All others are due: a copy
// with a raised count is stored at the end of the queue, and once it is in the log a live producer of its group is asked. While nobody of the group
// is there, or the message wishes to be left alone, it keeps its place and its count, and is renewed only when much has been scanned behind it.
//
// Whatever ends a round, the positions move as far as it came (B46), and are handed to the table of offsets when all that they pass over is on
// disk.
//
// RocketMQ: TransactionalMessageServiceImpl#check.

import { errorText } from '../../common/index.ts';
import { createOffsetMessageId, PropertyName, type StoredMessage } from '../../message/index.ts';
import { RequestCode } from '../../remoting/index.ts';
import { GetMessageStatus, PutMessageStatus, PutResult, putStatusName } from '../../store/index.ts';
import type { ProducerManager } from '../client/producer-manager.ts';
import { type InternalMessage, toPutRequest } from '../internal-put.ts';
import { messagesOf, selectLater } from '../store-reads.ts';
import { TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC } from '../topic/topic-names.ts';
import { checkBody } from './check-body.ts';
import { checkTimesOf, immunityOf, nameOf, originOf, parked, renewed } from './half-message.ts';
import type { HalfQueue, Kept } from './half-queue.ts';
import { type OpBatches, type OpParts, offsetsIn, REMOVE_TAG } from './op-batches.ts';
import type { TransactionMetrics } from './transaction-metrics.ts';

const RUN_MESSAGES = 32;
const RUN_BYTES = 1024 * 1024;
/** Half messages that are passed over in one loop turn. */
const RUN_PASSED = 4096;
/** Scanned half messages behind a kept one after which it is renewed, so that the positions move on. */
const KEPT_SPAN = 10_000;
/** Unsent bytes of a producer's connection above which it is not asked. */
const MOST_UNSENT_BYTES = 4 * 1024 * 1024;
const HOUR_MS = 3_600_000;

export interface CheckParts extends OpParts {
  readonly producers: ProducerManager;
  readonly metrics: TransactionMetrics;
  readonly ops: OpBatches;
  /** Makes TRANS_CHECK_MAX_TIME_TOPIC; false if it is not durable. */
  readonly createParkTopic: () => boolean;
  readonly stopped: () => boolean;
}

/** What the rounds have done since the start. */
export interface CheckCounts {
  rounds: number;
  checks: number;
  renewed: number;
  parked: number;
  /** Half messages that could not be read or did not tell whose they are. */
  setAside: number;
}

/** Ends a round: the store takes nothing now. */
class NotNow extends Error {}

export class TransactionCheck {
  readonly #parts: CheckParts;
  readonly counts: CheckCounts = { rounds: 0, checks: 0, renewed: 0, parked: 0, setAside: 0 };

  constructor(parts: CheckParts) {
    this.#parts = parts;
  }

  /** One round over one half queue. */
  async round(queue: HalfQueue): Promise<void> {
    const { store, logger } = this.#parts;
    this.counts.rounds++;
    try {
      const end = store.maxOffsetInQueue(TRANS_HALF_TOPIC, queue.queueId);
      await this.readRecords(queue);
      await this.#lookAtKept(queue);
      await this.#scan(queue, end);
      if (queue.scanned >= end) queue.tidy();
    } catch (error) {
      logger.warn(`open transactions: a round ended at ${queue.scanned}, ${errorText(error)}; the next one goes on`);
    }
  }

  /** Reads the records of ended transactions to their end. Rejects if they cannot be read. */
  async readRecords(queue: HalfQueue): Promise<void> {
    const { store, logger } = this.#parts;
    const { queueId } = queue;
    while (queue.opRead < store.maxOffsetInQueue(TRANS_OP_HALF_TOPIC, queueId) && !this.#parts.stopped()) {
      const from = queue.opRead;
      const result = await selectLater(store, TRANS_OP_HALF_TOPIC, queueId, from, RUN_MESSAGES, RUN_BYTES);
      for (const record of await messagesOf(store, result)) {
        const tagged = record.properties.get(PropertyName.TAGS) === REMOVE_TAG;
        const offsets = tagged ? offsetsIn(record.body) : undefined;
        if (offsets === undefined) {
          logger.error(`the record ${record.queueOffset} of ended transactions names none: it is passed over`);
          this.counts.setAside++;
        }
        queue.read(record.queueOffset, offsets ?? []);
      }
      const next = Math.max(result.nextBeginOffset, queue.opRead);
      if (next > queue.opRead || result.status !== GetMessageStatus.FOUND) {
        if (next <= from) return;
        if (next > queue.opRead) {
          logger.error(`records ${queue.opRead} to ${next - 1} of ended transactions cannot be read: passed over`);
          this.counts.setAside += next - queue.opRead;
        }
        queue.opRead = next;
      }
    }
  }

  async #lookAtKept(queue: HalfQueue): Promise<void> {
    const { clock } = this.#parts;
    for (const kept of [...queue.kept.values()]) {
      if (this.#parts.stopped()) return;
      if (queue.take(kept.offset)) continue;
      const now = clock.now();
      const away = queue.scanned - kept.offset > KEPT_SPAN;
      const due = now >= kept.dueMs && (now >= kept.endMs || this.#channelOf(kept.group) !== undefined);
      if (!due && !away) continue;
      const [half] = await this.#read(queue, kept.offset, 1);
      if (half?.queueOffset !== kept.offset) this.#lost(queue, kept.offset, kept.offset + 1);
      else if (!queue.take(kept.offset)) this.#decide(queue, half, away);
    }
  }

  async #scan(queue: HalfQueue, end: number): Promise<void> {
    const { clock, store } = this.#parts;
    const min = store.minOffsetInQueue(TRANS_HALF_TOPIC, queue.queueId);
    if (queue.scanned < min) this.#lost(queue, queue.scanned, min);
    while (queue.scanned < end && !this.#parts.stopped()) {
      for (let passed = 0; queue.scanned < end && passed < RUN_PASSED && queue.take(queue.scanned); passed++) {
        queue.scanned++;
      }
      if (queue.scanned >= end) return;
      if (!queue.ended.has(queue.scanned)) {
        const from = queue.scanned;
        const halves = await this.#read(queue, from, RUN_MESSAGES);
        if (!this.#scanRun(queue, halves, end)) return;
        // Nothing at all could be read: what the store says comes next is where it goes on.
        if (queue.scanned === from) return;
      }
      await new Promise<void>((resolve) => clock.soon(resolve));
    }
  }

  /** False: the rest is too young. */
  #scanRun(queue: HalfQueue, halves: readonly StoredMessage[], end: number): boolean {
    for (const half of halves) {
      const offset = half.queueOffset;
      if (offset < queue.scanned) continue;
      if (offset > queue.scanned) this.#lost(queue, queue.scanned, Math.min(offset, end));
      if (offset >= end) return false;
      if (!queue.take(offset) && !this.#decide(queue, half, false)) return false;
      queue.scanned = offset + 1;
    }
    return true;
  }

  /** What is to be done with an open half message, done; false: nothing, it is too young, and so is what follows it. */
  #decide(queue: HalfQueue, half: StoredMessage, away: boolean): boolean {
    const { clock, config, store } = this.#parts;
    const now = clock.now();
    if (this.#endedBefore(queue, half)) return true;
    const origin = originOf(half);
    if (origin === undefined) {
      this.counts.setAside++;
      this.#park(queue, half, 'it does not tell whose it is');
      return true;
    }
    const reservedMs = store.config.fileReservedTime * HOUR_MS;
    const endMs = half.bornTimestamp + reservedMs + 1;
    if (checkTimesOf(half) >= config.transactionCheckMax) {
      this.#park(queue, half, `it was asked about ${config.transactionCheckMax} times`);
      return true;
    }
    if (now >= endMs) {
      this.#park(queue, half, `it is older than ${store.config.fileReservedTime} hours`);
      return true;
    }
    // A producer's clock may be ahead of ours.
    const since = Math.min(half.bornTimestamp, half.storeTimestamp);
    const immunity = immunityOf(half, config.transactionTimeOut);
    const { group } = origin;
    const immune = immunity !== undefined && now - since <= immunity;
    if (immunity === undefined && now - since <= config.transactionTimeOut) return false;
    if (!immune && this.#channelOf(group) !== undefined) this.#check(queue, half, group);
    else if (away) this.#renew(queue, half, immune ? preparedOffset(half) : {});
    else {
      const dueMs = immune ? since + immunity + 1 : now;
      queue.kept.set(half.queueOffset, { offset: half.queueOffset, dueMs, endMs, group } satisfies Kept);
    }
    return true;
  }

  /** Whether a copy was ended under the offset by which its producer knows it. */
  #endedBefore(queue: HalfQueue, half: StoredMessage): boolean {
    const text = half.properties.get(PropertyName.TRAN_PREPARED_QUEUE_OFFSET) ?? '';
    const prepared = /^\d{1,15}$/.test(text) ? Number(text) : half.queueOffset;
    if (prepared >= half.queueOffset) return false;
    queue.renew(prepared, half.queueOffset);
    if (!queue.ended.delete(prepared)) return false;
    queue.forget(half.queueOffset);
    this.#parts.ops.add(queue.queueId, half.queueOffset);
    return true;
  }

  #check(queue: HalfQueue, half: StoredMessage, group: string): void {
    const times = checkTimesOf(half) + 1;
    const { result, message } = this.#renew(queue, half, { [PropertyName.TRANSACTION_CHECK_TIMES]: String(times) });
    const { store } = this.#parts;
    const { wroteOffset, wroteBytes, queueOffset, storeTimestamp } = result;
    this.counts.checks++;
    store.whenDurable(wroteOffset + wroteBytes, false, (status) => {
      if (status === PutMessageStatus.PUT_OK) {
        this.#ask(half, message, group, { wroteOffset, queueOffset, storeTimestamp });
      }
    });
  }

  #ask(
    half: StoredMessage,
    copy: InternalMessage,
    group: string,
    place: { wroteOffset: number; queueOffset: number; storeTimestamp: number },
  ): void {
    const { config, storeHost, logger } = this.#parts;
    const channel = this.#channelOf(group);
    const uniqKey = copy.properties.get(PropertyName.UNIQ_KEY);
    const header = {
      bname: config.brokerName,
      commitLogOffset: place.wroteOffset,
      msgId: uniqKey,
      offsetMsgId: createOffsetMessageId(storeHost, place.wroteOffset),
      topic: TRANS_HALF_TOPIC,
      tranStateTableOffset: place.queueOffset,
      transactionId: uniqKey,
    };
    try {
      if (channel === undefined) throw new Error('nobody of the group is there any more');
      channel.sendOneway(RequestCode.CHECK_TRANSACTION_STATE, header, checkBody(copy, storeHost, place));
    } catch (error) {
      logger.warn(`${nameOf(half)}: its producer could not be asked (${errorText(error)})`);
    }
  }

  /** Stores a copy at the end of the queue. @throws NotNow */
  #renew(
    queue: HalfQueue,
    half: StoredMessage,
    properties: Record<string, string>,
  ): { result: PutResult; message: InternalMessage } {
    const message = renewed(half, properties);
    const result = this.#put(message, half);
    queue.renew(half.queueOffset, result.queueOffset);
    // A copy that names its elder counts as ended where a record names that one.
    if (!(PropertyName.TRAN_PREPARED_QUEUE_OFFSET in properties)) this.#parts.ops.add(queue.queueId, half.queueOffset);
    this.counts.renewed++;
    return { result, message };
  }

  /** Stores a half message where nobody asks about it. @throws NotNow */
  #park(queue: HalfQueue, half: StoredMessage, why: string): void {
    const { logger, metrics, ops, createParkTopic } = this.#parts;
    if (!createParkTopic()) throw new NotNow(`${TRANS_CHECK_MAX_TIME_TOPIC} cannot be saved`);
    this.#put(parked(half), half);
    logger.error(`${nameOf(half)} is given up: ${why}. It lies in ${TRANS_CHECK_MAX_TIME_TOPIC} now`);
    this.counts.parked++;
    const topic = half.properties.get(PropertyName.REAL_TOPIC);
    if (topic !== undefined) metrics.add(topic, -1);
    queue.forget(half.queueOffset);
    ops.add(queue.queueId, half.queueOffset);
  }

  #put(message: InternalMessage, half: StoredMessage): PutResult {
    const { store, storeHost, logger } = this.#parts;
    const result = new PutResult();
    store.put(toPutRequest(message, storeHost), result);
    if (result.status === PutMessageStatus.PUT_OK) return result;
    const why = `${putStatusName(result.status)} ${result.reason}`;
    logger.warn(`${nameOf(half)} cannot be moved: ${why}`);
    throw new NotNow(why);
  }

  async #read(queue: HalfQueue, offset: number, count: number): Promise<StoredMessage[]> {
    const { store } = this.#parts;
    const result = await selectLater(store, TRANS_HALF_TOPIC, queue.queueId, offset, count, RUN_BYTES);
    const halves = await messagesOf(store, result);
    if (halves.length === 0 && count > 1 && result.nextBeginOffset > queue.scanned) {
      this.#lost(queue, queue.scanned, result.nextBeginOffset);
    }
    return halves;
  }

  /** Names what cannot be read and goes on behind it; [from, to) of the queue. */
  #lost(queue: HalfQueue, from: number, to: number): void {
    let count = 0;
    for (let offset = from; offset < to; offset++) {
      if (!queue.take(offset)) count++;
      queue.forget(offset);
    }
    queue.scanned = Math.max(queue.scanned, to);
    if (count === 0) return;
    this.counts.setAside += count;
    const which = to - from === 1 ? `half message ${from}` : `half messages ${from} to ${to - 1}`;
    this.#parts.logger.error(`${which} of queue ${queue.queueId} cannot be read (${count} open): set aside`);
  }

  #channelOf(group: string): ReturnType<ProducerManager['availableChannel']> {
    const channel = this.#parts.producers.availableChannel(group);
    return channel !== undefined && channel.unsentBytes <= MOST_UNSENT_BYTES ? channel : undefined;
  }
}

/** RocketMQ: renewImmunityHalfMessageInner: the queue offset by which its producer knows a half message. */
function preparedOffset(half: StoredMessage): Record<string, string> {
  const name = PropertyName.TRAN_PREPARED_QUEUE_OFFSET;
  return { [name]: half.properties.get(name) ?? String(half.queueOffset) };
}
