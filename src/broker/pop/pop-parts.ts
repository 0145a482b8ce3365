// What pops ask of the parts that have a subject of their own: waiting for a message, and the order of those that are popped in order.

import type { TagFilter } from '../../store/index.ts';

/** RocketMQ: PollingResult. */
export const Polling = { HELD: 0, FULL: 1, TIMEOUT: 2, NOT_POLLING: 3 } as const;
export type Polling = (typeof Polling)[keyof typeof Polling];

/** A pop that found nothing. */
export interface WaitingPop {
  /** The topic that the client asked for; its retry topics count for it as well. */
  readonly topic: string;
  readonly group: string;
  /** -1: any queue. */
  readonly queueId: number;
  readonly filter: TagFilter;
  /** Wall-clock ms at which it is answered even with nothing. */
  readonly deadline: number;
  /** False once nobody waits for the answer. */
  readonly isWanted: boolean;
  /** Runs the pop again, which may end in another wait. Either this or `forget` is called, once for each wait. */
  resume(): void;
  /** There will be no answer. */
  forget(): void;
}

/** Where pops wait. RocketMQ: PopLongPollingService. */
export interface PopWaiting {
  /** Takes a pop if it may wait for `pollTime` ms, its deadline being known; of all but HELD the caller keeps it. */
  polling(pop: WaitingPop, pollTime: number): Polling;
  /** A look is worth it: wakes one pop that waits for just that queue (-1: any). True if there was one. */
  notify(topic: string, group: string, queueId: number): boolean;
}

/** Nobody may wait. */
export const NO_WAITING: PopWaiting = {
  polling: () => Polling.NOT_POLLING,
  notify: () => false,
};

/** What has been popped in order and is not acknowledged yet. RocketMQ: QueueLevelConsumerManager. */
export interface PopOrder {
  /** Whether a queue is closed to its group, since messages that come first are under way. RocketMQ: checkBlock. */
  isBlocked(
    attemptId: string | undefined,
    topic: string,
    group: string,
    queueId: number,
    invisibleTimeMs: number,
  ): boolean;
  /** Notes a pop; answers the items for `orderCountInfo` (joined by ";", '' for none). RocketMQ: update. */
  popped(
    attemptId: string | undefined,
    isRetry: boolean,
    topic: string,
    group: string,
    queueId: number,
    popTime: number,
    invisibleTimeMs: number,
    offsets: readonly number[],
  ): string;
  /** Forgets what is under way in a queue: its offset was reset. */
  clearBlock(topic: string, group: string, queueId: number): void;
  /** Notes an acknowledgement; answers the offset that the group has come to, or one of `Acknowledged`. */
  commitAndNext(topic: string, group: string, queueId: number, offset: number, popTime: number): number;
  /** A message becomes visible at another time. */
  updateNextVisibleTime(
    topic: string,
    group: string,
    queueId: number,
    offset: number,
    popTime: number,
    nextVisibleTime: number,
  ): void;
}

/** Nothing is popped in order. */
export const NO_ORDER: PopOrder = {
  isBlocked: () => false,
  popped: () => '',
  clearBlock: () => {},
  commitAndNext: (_topic, _group, _queueId, offset) => offset + 1,
  updateNextVisibleTime: () => {},
};
