// Where the logic queue lies that a request for a static topic names. RocketMQ: TopicQueueMappingContext, and
// TopicQueueMappingManager#buildTopicQueueMappingContext.

import { GantryError } from '../../common/index.ts';
import { type HeaderView, ResponseCode } from '../../remoting/index.ts';
import {
  findItem,
  isLeader,
  type LogicQueueMappingItem,
  looseLogicOffset,
  type TopicQueueMappingDetail,
} from './topic-queue-mapping.ts';
import type { TopicQueueMappingManager } from './topic-queue-mapping-manager.ts';

/** A logic queue of a static topic. */
export interface LogicQueue {
  readonly detail: TopicQueueMappingDetail;
  /** Its number, as clients have it. */
  readonly globalId: number;
  /** Its places, the oldest first; empty if this broker knows none. */
  readonly items: readonly LogicQueueMappingItem[];
  /** The last place, if it is this broker's; without it nothing is answered but NOT_LEADER_FOR_QUEUE. */
  readonly leader: LogicQueueMappingItem | undefined;
}

/** The static topic that a request means; undefined for any other topic, and where it means physical queues (`lo` is false). */
export function staticTopicOf(
  mappings: TopicQueueMappingManager,
  header: HeaderView,
): TopicQueueMappingDetail | undefined {
  if (mappings.size === 0) return undefined;
  const detail = mappings.find(header.get('topic') ?? '');
  return detail === undefined || !header.bool('lo', true) ? undefined : detail;
}

/** @param selectOne a negative number means any queue */
export function logicQueueOf(detail: TopicQueueMappingDetail, queueId: number, selectOne = false): LogicQueue {
  let globalId = queueId;
  // RocketMQ: the first of its table, whether it is the leader of that one or not.
  if (globalId < 0 && selectOne) globalId = firstLed(detail) ?? globalId;
  const items = detail.hostedQueues.get(globalId) ?? [];
  return { detail, globalId, items, leader: isLeader(items, detail) ? items.at(-1)! : undefined };
}

function firstLed(detail: TopicQueueMappingDetail): number | undefined {
  for (const [id, items] of detail.hostedQueues) if (isLeader(items, detail)) return id;
  return undefined;
}

/** RocketMQ's words for NOT_LEADER_FOR_QUEUE. */
export function notLeaderText({ detail, globalId }: LogicQueue): string {
  return `${detail.topic}-${globalId} does not exit in request process of current broker ${detail.bname}`;
}

/** @throws GantryError RESPONSE (responseCode 1) where no place's beginning is decided; RocketMQ: a NullPointerException, answered so. */
export function itemAt(queue: LogicQueue, logicOffset: number): LogicQueueMappingItem {
  const item = findItem(queue.items, logicOffset);
  if (item !== undefined) return item;
  throw new GantryError('RESPONSE', `${queue.detail.topic}-${queue.globalId} is being mapped: it has no offsets yet`, {
    responseCode: ResponseCode.SYSTEM_ERROR,
  });
}

/** What a physical queue's place is for clients: that of the logic queue, if the topic is a static one. */
export function logicPlaceOf(
  detail: TopicQueueMappingDetail | undefined,
  queueId: number,
  queueOffset: number,
): { queueId: number; queueOffset: number } {
  for (const [globalId, items] of detail?.hostedQueues ?? []) {
    const item = items.find((one) => one.bname === detail!.bname && one.queueId === queueId);
    if (item !== undefined) return { queueId: globalId, queueOffset: looseLogicOffset(item, queueOffset) };
  }
  return { queueId, queueOffset };
}
