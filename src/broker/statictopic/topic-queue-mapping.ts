// A static topic: a fixed number of logic queues, each of which has lived in physical queues of one broker after the other. A broker
// keeps, for each logic queue that is or was its own, the whole list of those places, the oldest first; the last one is the leader's,
// where messages go. Each place covers the logic offsets from its own `logicOffset` up to the next one's.
//
//   logic queue 0:   broker-a, queue 0, logic 0 to 57      broker-b, queue 3, from logic 20,000 (its queue offset 0)
//
// RocketMQ: TopicQueueMappingInfo, TopicQueueMappingDetail, LogicQueueMappingItem, TopicQueueMappingUtils.

import type { JsonObject } from '../../remoting/index.ts';
import {
  readBoolean,
  readInt32,
  readInteger,
  readIntegerMap,
  readList,
  readObject,
  readText,
  toInteger,
} from '../json-fields.ts';
import type { PrettyBean } from '../pretty-json.ts';

/** RocketMQ: MixAll.METADATA_SCOPE_GLOBAL. */
export const GLOBAL_SCOPE = '__global__';
/** RocketMQ: MixAll.LOGICAL_QUEUE_MOCK_BROKER_PREFIX; clients name logic queues by a broker that begins with it. */
export const LOGIC_BROKER_PREFIX = '__syslo__';

/** One place of a logic queue. Never changed in place. RocketMQ: LogicQueueMappingItem. */
export interface LogicQueueMappingItem {
  /** Counts the places of a logic queue. */
  readonly gen: number;
  /** The physical queue. */
  readonly queueId: number;
  readonly bname: string;
  /** Logic offset at which it begins; -1 while that is not decided. */
  readonly logicOffset: number;
  /** Queue offset that stands for `logicOffset`; 0 so far. */
  readonly startOffset: number;
  /** Queue offset behind its last message; -1 while that is not decided. */
  readonly endOffset: number;
  /** Ms since the epoch, reserved. */
  readonly timeOfStart: number;
  readonly timeOfEnd: number;
}

/** What a broker knows of a static topic. Never changed in place. RocketMQ: TopicQueueMappingDetail. */
export interface TopicQueueMappingDetail {
  readonly topic: string;
  readonly scope: string;
  readonly totalQueues: number;
  /** The broker whose this is. */
  readonly bname: string;
  /** Grows with each change of the mapping. */
  readonly epoch: number;
  readonly dirty: boolean;
  readonly currIdMap: ReadonlyMap<number, number>;
  /** By logic queue: its places, the oldest first. */
  readonly hostedQueues: ReadonlyMap<number, readonly LogicQueueMappingItem[]>;
}

// --- Offsets

/** The logic offset of a queue offset, whatever that is; -1 where the place's beginning is not decided. RocketMQ: computeStaticQueueOffsetLoosely. */
export function looseLogicOffset(item: LogicQueueMappingItem, queueOffset: number): number {
  const { logicOffset, startOffset, endOffset } = item;
  if (logicOffset < 0) return -1;
  if (queueOffset < startOffset) return logicOffset;
  if (endOffset >= startOffset && endOffset < queueOffset) return logicOffset + (endOffset - startOffset);
  return logicOffset + (queueOffset - startOffset);
}

/** The logic offset of a queue offset, also behind the place's end. RocketMQ: computeStaticQueueOffsetStrictly. */
export function logicOffsetOf(item: LogicQueueMappingItem, queueOffset: number): number {
  return item.logicOffset + Math.max(0, queueOffset - item.startOffset);
}

/** RocketMQ: computePhysicalQueueOffset. */
export function queueOffsetOf(item: LogicQueueMappingItem, logicOffset: number): number {
  return logicOffset - item.logicOffset + item.startOffset;
}

/** RocketMQ: computeMaxStaticQueueOffset. */
function maxLogicOffset({ logicOffset, startOffset, endOffset }: LogicQueueMappingItem): number {
  return endOffset >= startOffset ? logicOffset + endOffset - startOffset : logicOffset;
}

/** RocketMQ: checkIfEndOffsetDecided. */
export function hasEnd(item: LogicQueueMappingItem): boolean {
  return item.endOffset > item.startOffset;
}

/** RocketMQ: computeMaxOffsetFromMapping, of the places of one logic queue. */
export function maxOffsetFromMapping(items: readonly LogicQueueMappingItem[]): number {
  const last = items.at(-1);
  return last === undefined ? -1 : maxLogicOffset(last);
}

// --- Finding a place

/** The place that holds a logic offset, or the first one; those whose beginning is not decided do not count. RocketMQ: findLogicQueueMappingItem. */
export function findItem(
  items: readonly LogicQueueMappingItem[],
  logicOffset: number,
): LogicQueueMappingItem | undefined {
  return (
    items.findLast((item) => item.logicOffset >= 0 && logicOffset >= item.logicOffset) ??
    items.find((item) => item.logicOffset >= 0)
  );
}

/** The place behind another one, if its beginning is decided. RocketMQ: findNext. */
export function findNext(
  items: readonly LogicQueueMappingItem[],
  current: LogicQueueMappingItem,
): LogicQueueMappingItem | undefined {
  const next = items[items.findIndex((item) => item.logicOffset >= 0 && item.gen === current.gen) + 1];
  return next === undefined || next.gen === current.gen || next.logicOffset < 0 ? undefined : next;
}

/** Whether the last place is this broker's. RocketMQ: checkIfLeader. */
export function isLeader(items: readonly LogicQueueMappingItem[], detail: TopicQueueMappingDetail): boolean {
  return items.length > 0 && items.at(-1)!.bname === detail.bname;
}

/** Logic queues that have their leader here, with their physical queues: what name servers are told. RocketMQ: buildIdMap. */
export function leaderQueues(detail: TopicQueueMappingDetail): Map<number, number> {
  const queues = new Map<number, number>();
  for (const [id, items] of detail.hostedQueues) if (isLeader(items, detail)) queues.set(id, items.at(-1)!.queueId);
  return queues;
}

// --- Checks of what a peer wants

/** What is wrong with the places of one logic queue, in RocketMQ's words; undefined if nothing is. RocketMQ: checkLogicQueueMappingItemOffset. */
export function itemsFault(items: readonly LogicQueueMappingItem[]): string | undefined {
  let lastGen = -1;
  let lastOffset = -1;
  for (let i = items.length - 1; i >= 0; i--) {
    const item = items[i]!;
    if (item.startOffset < 0 || item.gen < 0 || item.queueId < 0) return 'The field is illegal, should not be negative';
    if (i < items.length - 1 && item.logicOffset < 0) return 'The non-latest item has negative logic offset';
    if (lastGen !== -1 && item.gen >= lastGen) return 'The gen does not increase monotonically';
    if (item.endOffset !== -1 && item.endOffset < item.startOffset) {
      return 'The endOffset is smaller than the start offset';
    }
    if (lastOffset !== -1 && item.logicOffset !== -1) {
      if (item.logicOffset >= lastOffset) return 'The base logic offset does not increase monotonically';
      if (maxLogicOffset(item) >= lastOffset) return 'The max logic offset does not increase monotonically';
    }
    lastGen = item.gen;
    lastOffset = item.logicOffset;
  }
  return undefined;
}

/**
 * Why places may not take over from others; undefined if they may. What is fixed of a place stays. RocketMQ: makeSureLogicQueueMappingItemImmutable,
 * whose look at the fixed fields is an assertion, which is off where it runs.
 */
export function changeFault(
  before: readonly LogicQueueMappingItem[],
  after: readonly LogicQueueMappingItem[],
  sameEpoch: boolean,
): string | undefined {
  if (before.length === 0) return undefined;
  if (after.length === 0) return 'The new item list is null or empty';
  const byGen = new Map(after.map((item) => [item.gen, item]));
  for (const item of before) {
    const same = byGen.get(item.gen);
    if (same === undefined) continue;
    const moved = item.bname !== same.bname || item.queueId !== same.queueId || item.startOffset !== same.startOffset;
    if (moved || (item.logicOffset !== -1 && item.logicOffset !== same.logicOffset)) {
      return `The item of gen ${item.gen} is another one than before, its broker, queue and beginning are fixed`;
    }
  }
  const oldLeader = before.at(-1)!;
  const newLeader = after.at(-1)!;
  const differs =
    newLeader.gen !== oldLeader.gen ||
    newLeader.bname !== oldLeader.bname ||
    newLeader.queueId !== oldLeader.queueId ||
    newLeader.startOffset !== oldLeader.startOffset;
  return sameEpoch && differs ? 'The new leader is different but epoch equal' : undefined;
}

// --- JSON

/** TopicQueueMappingInfo: what is registered with name servers. RocketMQ: cloneAsMappingInfo. */
export function infoFields(detail: TopicQueueMappingDetail): PrettyBean {
  const { bname, epoch, topic, totalQueues } = detail;
  // RocketMQ: the copy has the default scope, and is never dirty.
  return { bname, currIdMap: leaderQueues(detail), dirty: false, epoch, scope: GLOBAL_SCOPE, topic, totalQueues };
}

export function detailFields(detail: TopicQueueMappingDetail): PrettyBean {
  const hostedQueues = new Map([...detail.hostedQueues].map(([id, items]) => [id, items.map(itemFields)]));
  const { bname, currIdMap, dirty, epoch, scope, topic, totalQueues } = detail;
  return { bname, currIdMap, dirty, epoch, hostedQueues, scope, topic, totalQueues };
}

function itemFields(item: LogicQueueMappingItem): PrettyBean {
  const { bname, endOffset, gen, logicOffset, queueId, startOffset, timeOfEnd, timeOfStart } = item;
  return { bname, endOffset, gen, logicOffset, queueId, startOffset, timeOfEnd, timeOfStart };
}

/**
 * A mapping from a JSON object, with RocketMQ's defaults for what is missing.
 * @throws GantryError CONFIG_FILE if a field has the wrong kind
 */
export function readDetail(json: JsonObject): TopicQueueMappingDetail {
  const hostedQueues = new Map<number, readonly LogicQueueMappingItem[]>();
  const hosted = readObject(json, 'hostedQueues') ?? {};
  for (const key of Object.keys(hosted)) {
    const items = readList(hosted, key) ?? [];
    hostedQueues.set(
      toInteger(key, `hostedQueues.${key}`),
      items.map((item) => readItem(readObject({ [key]: item } as JsonObject, key) ?? {})),
    );
  }
  return {
    topic: readText(json, 'topic') ?? '',
    scope: readText(json, 'scope') ?? GLOBAL_SCOPE,
    totalQueues: readInt32(json, 'totalQueues') ?? 0,
    bname: readText(json, 'bname') ?? '',
    epoch: readInteger(json, 'epoch') ?? 0,
    dirty: readBoolean(json, 'dirty') ?? false,
    currIdMap: readIntegerMap(json, 'currIdMap'),
    hostedQueues,
  };
}

function readItem(json: JsonObject): LogicQueueMappingItem {
  return {
    gen: readInt32(json, 'gen') ?? 0,
    queueId: readInt32(json, 'queueId') ?? 0,
    bname: readText(json, 'bname') ?? '',
    logicOffset: readInteger(json, 'logicOffset') ?? 0,
    startOffset: readInteger(json, 'startOffset') ?? 0,
    endOffset: readInteger(json, 'endOffset') ?? -1,
    timeOfStart: readInteger(json, 'timeOfStart') ?? -1,
    timeOfEnd: readInteger(json, 'timeOfEnd') ?? -1,
  };
}
