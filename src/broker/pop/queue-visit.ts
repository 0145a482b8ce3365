// What one pop takes from one queue. RocketMQ: popMsgFromQueue.
//
//   lock ─► offset (a reset, the group's, or where a new group begins) ─► select ─► copy ─► check point ─► offset moves ─► unlock
//                                                                                     │ it is not stored: nothing is taken
//
// Nothing here waits but for bytes that must come from disk; then the pop goes on when they are there, and the queue is closed meanwhile.

import { errorText, type GantryError } from '../../common/index.ts';
import { MATCH_ALL } from '../../filter/index.ts';
import { addItem, messageOffsetsItem, type PopCheckPoint, retryFlagOf, startOffsetItem } from '../../message/index.ts';
import { GetMessageStatus, type GetRequest, type GetResult } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { INIT_MIN, type Pop, type PopStage } from './pop.ts';
import type { PopQueue } from './pop-queue.ts';
import type { RetryRecords } from './retry-records.ts';

/** A read takes at most this many bytes, whatever is asked for. */
const MAX_BYTES = 128 * 1024 * 1024;
const RETRY_PREFIX = '%RETRY%';

/** What visits need of the processor. */
export interface VisitParts {
  readonly context: BrokerContext;
  readonly retries: RetryRecords;
  takeResult(): GetResult;
  giveResult(result: GetResult): void;
  /** A visit that had to wait is over. */
  goOn(pop: Pop): void;
}

export class QueueVisit {
  readonly #parts: VisitParts;
  readonly #pop: Pop;
  readonly #stage: PopStage;
  readonly #queue: PopQueue;
  readonly #request: GetRequest;
  #result: GetResult | undefined;
  #step: () => boolean;
  #hasMoved = false;
  /** That of the queue when the visit began to read. */
  #life: number | undefined;

  constructor(parts: VisitParts, pop: Pop, stage: PopStage, queue: PopQueue) {
    this.#parts = parts;
    this.#pop = pop;
    this.#stage = stage;
    this.#queue = queue;
    this.#step = this.#begin;
    const { topic, queueId } = queue;
    this.#request = { topic, queueId, offset: 0, maxMessages: 1, maxBytes: MAX_BYTES, filter: pop.wants.filter };
  }

  /** True if the visit is over; otherwise it goes on by itself and tells `goOn`. The queue's lock is the visit's. */
  run(): boolean {
    try {
      // What was deleted or moved while the disk was waited for: this would be of another topic, or of another life of it.
      const isOver = this.#life !== undefined && this.#life !== this.#queue.life;
      if (!isOver && !this.#step()) return false;
    } catch (error) {
      this.#failed(errorText(error));
    }
    this.#end();
    return true;
  }

  readonly #ready = (error?: GantryError): void => {
    if (error !== undefined) {
      // What retention has just removed is looked for no longer.
      if (error.code !== 'REMOVED') this.#failed(error.message);
      this.#end();
    } else if (!this.run()) return;
    this.#parts.goOn(this.#pop);
  };

  #failed(reason: string): void {
    const { topic, group, queueId } = this.#queue;
    // It does not look again at once.
    this.#pop.emptyRuns = Number.POSITIVE_INFINITY;
    this.#parts.context.logger.error(`a pop of ${group} from ${topic} queue ${queueId} failed: ${reason}`);
  }

  #end(): void {
    if (this.#result !== undefined) this.#parts.giveResult(this.#result);
    this.#result = undefined;
    this.#queue.unlock();
  }

  // --- Where to begin

  #begin(): boolean {
    const { context } = this.#parts;
    const queue = this.#queue;
    const { group, topic, queueId } = queue;
    const reset = context.offsets.takeReset(group, topic, queueId);
    if (reset >= 0) {
      context.pop.order.clearBlock(topic, group, queueId);
      queue.clear();
      queue.commit(reset);
      queue.inFlight = 0;
      return this.#beginAt(reset);
    }
    const committed = queue.committed;
    if (committed >= 0) return this.#beginAt(Math.max(committed, queue.latest));
    const min = context.store.minOffsetInQueue(topic, queueId);
    if (this.#pop.wants.initMode === INIT_MIN || topic.startsWith(RETRY_PREFIX)) return this.#beginNew(min);
    if (context.config.initPopOffsetByCheckMsgInMem && min <= 0) {
      this.#life = queue.life;
      this.#step = this.#lookAtFirst;
      return this.#lookAtFirst();
    }
    return this.#beginNew(this.#last());
  }

  /** RocketMQ: pops the last one, so that there is an offset from then on. */
  #last(): number {
    const { topic, queueId } = this.#queue;
    return Math.max(0, this.#parts.context.store.maxOffsetInQueue(topic, queueId) - 1);
  }

  /** A new group begins with the first message if that is recent enough to be in memory. */
  #lookAtFirst(): boolean {
    const request = this.#request;
    request.offset = 0;
    request.maxMessages = 1;
    request.filter = MATCH_ALL;
    const result = this.#resultOf();
    if (!this.#parts.context.store.select(request, result, this.#ready)) return false;
    const isYoung = result.status === GetMessageStatus.FOUND && !result.suggestPullingFromSlave;
    return this.#beginNew(isYoung ? 0 : this.#last());
  }

  #beginNew(offset: number): boolean {
    this.#queue.commit(offset);
    return this.#beginAt(Math.max(offset, this.#queue.latest));
  }

  #beginAt(offset: number): boolean {
    const { context } = this.#parts;
    const pop = this.#pop;
    const queue = this.#queue;
    const { group, topic, queueId } = queue;
    const { attemptId, invisibleTimeMs, isOrder } = pop.wants;
    if (isOrder) {
      // RocketMQ: what waits behind those under way does not count as left over: it would wake pops for nothing.
      if (context.pop.order.isBlocked(attemptId, topic, group, queueId, invisibleTimeMs)) return true;
      queue.inFlight = 0;
    }
    if (pop.isFull) {
      pop.rest += context.store.maxOffsetInQueue(topic, queueId) - offset;
      return true;
    }
    const request = this.#request;
    request.offset = offset;
    request.maxMessages = pop.wants.maxMessages - pop.count;
    request.filter = pop.wants.filter;
    this.#life = queue.life;
    this.#step = this.#select;
    return this.#select();
  }

  // --- Reading

  #resultOf(): GetResult {
    this.#result ??= this.#parts.takeResult();
    return this.#result;
  }

  #select(): boolean {
    const { context } = this.#parts;
    const queue = this.#queue;
    const request = this.#request;
    const result = this.#resultOf();
    if (!context.store.select(request, result, this.#ready)) return false;
    const { status, nextBeginOffset } = result;
    const isLost =
      status === GetMessageStatus.OFFSET_TOO_SMALL ||
      status === GetMessageStatus.OFFSET_OVERFLOW_BADLY ||
      status === GetMessageStatus.OFFSET_FOUND_NULL;
    if (isLost && !this.#hasMoved) {
      // RocketMQ: the check point keeps the offset that was wrong, and with it distances that may be negative.
      this.#hasMoved = true;
      if (nextBeginOffset > request.offset && !this.#pop.wants.isOrder) {
        context.pop.queues.add(queue, request.offset, nextBeginOffset, 0);
      } else {
        queue.clear();
        queue.commit(nextBeginOffset);
        this.#life = queue.life;
      }
      request.offset = nextBeginOffset;
      return this.#select();
    }
    if (result.count === 0) return this.#nothing(result);
    this.#step = this.#copy;
    this.#pop.reserve(result.totalBytes);
    return this.#copy();
  }

  #copy(): boolean {
    const pop = this.#pop;
    const result = this.#result!;
    if (!this.#parts.context.store.copyRecords(result, pop.body, pop.bodyBytes, this.#ready)) return false;
    // Damaged, all of them.
    if (result.count === 0) return this.#nothing(result);
    // Nobody would see them before their invisible time is over.
    if (!pop.isWanted) return true;
    return this.#take(result);
  }

  /** RocketMQ: addCkMock. */
  #nothing(result: GetResult): boolean {
    const { status, nextBeginOffset, maxOffset } = result;
    const isPassed =
      status === GetMessageStatus.NO_MATCHED_MESSAGE ||
      status === GetMessageStatus.OFFSET_FOUND_NULL ||
      status === GetMessageStatus.MESSAGE_WAS_REMOVING;
    if (isPassed && nextBeginOffset > this.#request.offset) {
      if (this.#pop.wants.isOrder) this.#queue.commit(nextBeginOffset);
      else this.#parts.context.pop.queues.add(this.#queue, this.#request.offset, nextBeginOffset, 0);
    }
    this.#pop.rest += maxOffset - nextBeginOffset;
    if (isPassed && maxOffset > nextBeginOffset) this.#pop.hasMore = true;
    return true;
  }

  // --- Taking

  #take(result: GetResult): boolean {
    const { context, retries } = this.#parts;
    const pop = this.#pop;
    const { isRetry } = this.#stage;
    const { group, topic, queueId } = this.#queue;
    const { offset } = this.#request;
    const { count, nextBeginOffset, maxOffset } = result;
    const taken = pop.wants.isOrder ? this.#takeInOrder(result) : this.#takeWithCheckPoint(result);
    if (!taken) {
      pop.rest += count;
      return true;
    }
    pop.starts = addItem(pop.starts, startOffsetItem(topic, queueId, offset));
    pop.offsets = addItem(pop.offsets, messageOffsetsItem(topic, queueId, result.ordinals, count));
    pop.rest += maxOffset - nextBeginOffset;
    pop.count += count;
    const start = pop.bodyBytes;
    pop.bodyBytes += result.totalBytes;
    if (isRetry && !context.config.popResponseReturnActualRetryTopic) {
      const { invisibleTimeMs, topic: asked } = pop.wants;
      const handle = `${offset} ${pop.popTime} ${invisibleTimeMs} ${pop.reviveQueueId} ${retryFlagOf(topic)} ${context.config.brokerName}`;
      const records = retries.recode(pop.body, start, pop.bodyBytes, asked, handle);
      pop.bodyBytes = start;
      const at = pop.reserve(records.length);
      pop.body.set(records, at);
      pop.bodyBytes += records.length;
    }
    // A batch is acknowledged, and comes back, as one. RocketMQ: counts its messages here, and closes the queue in the end.
    this.#queue.inFlight += count;
    const messages = count + result.batched;
    this.#queue.usedMs = pop.popTime;
    const entry = context.offsets.of(group, topic);
    entry.got ??= context.traffic.gets.of(context.traffic.groupKey(entry.topic, entry.group));
    entry.got.messages += messages;
    entry.got.bytes += result.totalBytes;
    entry.got.requests++;
    context.stats.getMessages += messages;
    return true;
  }

  #takeInOrder(result: GetResult): boolean {
    const pop = this.#pop;
    const queue = this.#queue;
    const { attemptId, invisibleTimeMs } = pop.wants;
    const { group, topic, queueId } = queue;
    const counts = this.#parts.context.pop.order.popped(
      attemptId,
      this.#stage.isRetry,
      topic,
      group,
      queueId,
      pop.popTime,
      invisibleTimeMs,
      offsetsOf(result, 0),
    );
    if (counts !== '') pop.orderCounts = addItem(pop.orderCounts, counts);
    queue.commit(this.#request.offset);
    return true;
  }

  /** False: the check point is not stored. */
  #takeWithCheckPoint(result: GetResult): boolean {
    const { config, pop: pops } = this.#parts.context;
    const pop = this.#pop;
    const queue = this.#queue;
    const { offset } = this.#request;
    const { count, nextBeginOffset } = result;
    // After a reset within a millisecond: both would be taken for one. RocketMQ: mergeKey conflict.
    if (queue.lastStart === offset && queue.lastPopTime === pop.popTime) return false;
    const ck: PopCheckPoint = {
      startOffset: offset,
      popTime: pop.popTime,
      invisibleTimeMs: pop.wants.invisibleTimeMs,
      bitMap: 0,
      num: count,
      queueId: queue.queueId,
      topic: queue.topic,
      group: queue.group,
      reviveOffset: 0,
      offsetDiffs: offsetsOf(result, offset),
      brokerName: config.brokerName,
      rePutTimes: undefined,
      suspend: false,
    };
    if (!pops.buffer.add(ck, pop.reviveQueueId, queue, nextBeginOffset)) {
      if (!pops.revive.checkPoint(ck, pop.reviveQueueId)) {
        pop.refused = pops.revive.reason;
        return false;
      }
      pop.logEnd = pops.revive.logEnd;
      pops.queues.add(queue, offset, nextBeginOffset, pop.logEnd);
    }
    queue.lastStart = offset;
    queue.lastPopTime = pop.popTime;
    this.#parts.context.traffic.checkPointed(pop.topic, queue.group, 1);
    return true;
  }
}

/** Queue offsets of what was found, less `base`. */
function offsetsOf({ count, ordinals }: GetResult, base: number): number[] {
  const offsets = new Array<number>(count);
  for (let i = 0; i < count; i++) offsets[i] = ordinals[i]! - base;
  return offsets;
}
