// A pull from a logic queue: which place it reads, and what the answer about that place means for the whole queue. At the end of an older
// place the client is sent on to the next one at once. RocketMQ: the rewriteRequestForStaticTopic and rewriteResponseForStaticTopic of
// PullMessageProcessor.

import { type ExtFields, ResponseCode } from '../../remoting/index.ts';
import { itemAt, type LogicQueue } from './mapping-context.ts';
import {
  findItem,
  findNext,
  hasEnd,
  type LogicQueueMappingItem,
  logicOffsetOf,
  maxOffsetFromMapping,
  queueOffsetOf,
} from './topic-queue-mapping.ts';

/** Where an answer says that a queue stands. */
export interface QueuePlace {
  nextBeginOffset: number;
  minOffset: number;
  maxOffset: number;
}

/** The same of a logic queue, with what the answer is to be. */
export interface LogicPlace extends QueuePlace {
  code: number;
}

export class MappedPull {
  readonly queue: LogicQueue;
  /** The place that is read. */
  readonly item: LogicQueueMappingItem;
  /** What the client asked for, and what that is in the place's queue. */
  readonly logicOffset: number;
  readonly queueOffset: number;

  /** @throws GantryError RESPONSE (responseCode 1) where no place's beginning is decided */
  constructor(queue: LogicQueue, logicOffset: number) {
    this.queue = queue;
    this.logicOffset = logicOffset;
    this.item = itemAt(queue, logicOffset);
    this.queueOffset = queueOffsetOf(this.item, logicOffset);
  }

  get isHere(): boolean {
    return this.item.bname === this.queue.detail.bname;
  }

  /** What clients add to the offsets of the messages. RocketMQ: computeOffsetDelta. */
  get offsetDelta(): number {
    return this.item.logicOffset - this.item.startOffset;
  }

  /** The fields of an answer that has a client ask for the same again. */
  samePlace(): ExtFields {
    const { logicOffset } = this;
    return {
      maxOffset: logicOffset,
      minOffset: logicOffset,
      nextBeginOffset: logicOffset,
      offsetDelta: 0,
      suggestWhichBrokerId: 0,
    };
  }

  /** How many messages may be asked for at most. */
  limit(maxMessages: number): number {
    const { item } = this;
    return hasEnd(item) ? Math.min(item.endOffset - item.startOffset, maxMessages) : maxMessages;
  }

  /** An offset to commit, as this broker keeps it: the place's queue, if it lies here. */
  committed(logicOffset: number): { queueId: number; offset: number } | undefined {
    const item = findItem(this.queue.items, logicOffset);
    if (item === undefined || item.bname !== this.queue.detail.bname) return undefined;
    return { queueId: item.queueId, offset: queueOffsetOf(item, logicOffset) };
  }

  /** What an answer about the place's queue means for the logic queue; `answered`: the code, or that of an earlier call. */
  placeOf(answered: number, place: QueuePlace): LogicPlace {
    const { items, leader } = this.queue;
    let { item } = this;
    let code = answered;
    let { nextBeginOffset, minOffset, maxOffset } = place;
    const { queueOffset } = this;
    if (code !== ResponseCode.SUCCESS) {
      let isSentOn = false;
      const earliest = findItem(items, 0)!;
      const moveOn = (): void => {
        const next = findNext(items, item);
        // Without one, the next place's beginning is not decided yet.
        code = next === undefined ? ResponseCode.PULL_NOT_FOUND : ResponseCode.PULL_RETRY_IMMEDIATELY;
        if (next === undefined) return;
        isSentOn = true;
        item = next;
        nextBeginOffset = next.startOffset;
        minOffset = next.startOffset;
        maxOffset = next.startOffset;
      };
      const isLeader = leader!.gen === item.gen;
      if (isLeader) {
        if (queueOffset > maxOffset) {
          if (code === ResponseCode.PULL_OFFSET_MOVED) nextBeginOffset = maxOffset;
        } else if (queueOffset < minOffset) {
          nextBeginOffset = minOffset;
          code = ResponseCode.PULL_RETRY_IMMEDIATELY;
        }
      }
      if (earliest.gen === item.gen) {
        if (queueOffset < minOffset) {
          code = ResponseCode.PULL_OFFSET_MOVED;
          nextBeginOffset = minOffset;
        } else if (queueOffset >= maxOffset && !isLeader) {
          // RocketMQ: also at the leader's, so that a client beyond its end waits there instead of being sent back.
          moveOn();
        }
      }
      if (!isSentOn && !isLeader && earliest.gen !== item.gen) {
        if (queueOffset < minOffset) {
          nextBeginOffset = minOffset;
          code = ResponseCode.PULL_RETRY_IMMEDIATELY;
        } else if (queueOffset >= maxOffset) moveOn();
      }
    }
    if (hasEnd(item)) nextBeginOffset = Math.min(nextBeginOffset, roomOf(items, item));
    return {
      code,
      nextBeginOffset: logicOffsetOf(item, nextBeginOffset),
      minOffset: logicOffsetOf(item, Math.max(item.startOffset, minOffset)),
      maxOffset: Math.max(logicOffsetOf(item, maxOffset), maxOffsetFromMapping(items)),
    };
  }
}

/**
 * The queue offset up to which a place with an end is read: messages may have come while that was decided. RocketMQ: goes back to the end, and
 * hands them out again and again.
 */
function roomOf(items: readonly LogicQueueMappingItem[], item: LogicQueueMappingItem): number {
  const next = findNext(items, item);
  if (next === undefined) return item.endOffset;
  // A place behind it may use its queue again.
  const again = items.find((one) => one.gen > item.gen && one.bname === item.bname && one.queueId === item.queueId);
  const room = queueOffsetOf(item, next.logicOffset);
  return again === undefined ? room : Math.max(item.endOffset, Math.min(room, again.startOffset));
}
