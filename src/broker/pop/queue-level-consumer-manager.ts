// Pops in order (config/consumerOrderInfo.json): what they have handed out, by topic, group and queue, and who is told when a queue is free
// again. Saved now and then; after a crash the groups' committed offsets decide, and what was handed out may be handed out again.
//
// RocketMQ: QueueLevelConsumerManager, QueueLevelConsumerOrderInfoLockManager. It keeps the state of a deleted topic until the next
// save, so that a topic of the same name begins blocked.

import type { Timer } from '../../common/index.ts';
import { addItem, offsetOrderCountItem, queueOrderCountItem } from '../../message/index.ts';
import type { JsonObject } from '../../remoting/index.ts';
import { type ConfigEnvironment, ConfigManager } from '../config-manager.ts';
import { readObject, toInteger } from '../json-fields.ts';
import { prettyPieces } from '../pretty-json.ts';
import { Acknowledged, OrderInfo } from './order-info.ts';
import type { PopOrder } from './pop-parts.ts';

/** RocketMQ: CLEAN_SPAN_FROM_LAST. */
const KEPT_MS = 24 * 3600 * 1000;
const NOTHING_CONSUMED: ReadonlyMap<number, number> = new Map();

/** What the table goes by. */
export interface OrderTables {
  readonly enableNotifyAfterPopOrderLockRelease: () => boolean;
  /** Readable queues of a topic; undefined if there is none of that name. */
  readonly queuesOf: (topic: string) => number | undefined;
  readonly hasGroup: (group: string) => boolean;
}

/** For a table that is only read. */
export const NO_ORDER_TABLES: OrderTables = {
  enableNotifyAfterPopOrderLockRelease: () => false,
  queuesOf: () => undefined,
  hasGroup: () => false,
};

/** Told when a queue that was blocked is free; see `whenFree`. */
export type QueueFree = (topic: string, group: string, queueId: number) => void;

interface QueueOrder {
  info: OrderInfo;
  timer: Timer | undefined;
}

interface GroupOrder {
  readonly topic: string;
  readonly group: string;
  readonly queues: Map<number, QueueOrder>;
}

export class QueueLevelConsumerManager extends ConfigManager implements PopOrder {
  readonly #tables: OrderTables;
  /** By `topic@group`. */
  readonly #table = new Map<string, GroupOrder>();
  #free: QueueFree = () => {};
  #running = false;

  constructor(environment: ConfigEnvironment, tables: OrderTables) {
    super(environment, 'consumerOrderInfo.json');
    this.#tables = tables;
  }

  /** Sets who is told of queues that are free again. */
  whenFree(free: QueueFree): void {
    this.#free = free;
  }

  /** Begins to tell of queues that become free, those that were blocked before the start included. */
  start(): void {
    this.#running = true;
    for (const { topic, group, queues } of this.#table.values()) {
      for (const [queueId, order] of queues) this.#retime(topic, group, queueId, order);
    }
  }

  stop(): void {
    this.#running = false;
    for (const { queues } of this.#table.values()) for (const order of queues.values()) order.timer?.cancel();
  }

  /**
   * Notes what a pop hands out of a queue; `offsets` are ascending. What an answer says of it: how often each message has been handed out
   * before, and the least of these numbers. RocketMQ: update.
   */
  popped(
    attemptId: string | undefined,
    _isRetry: boolean,
    topic: string,
    group: string,
    queueId: number,
    popTime: number,
    invisibleTime: number,
    offsets: readonly number[],
  ): string {
    const { queues } = this.#of(topic, group);
    const info = new OrderInfo(attemptId, popTime, invisibleTime, offsets, this.environment.clock.now());
    let order = queues.get(queueId);
    if (order === undefined) {
      order = { info, timer: undefined };
      queues.set(queueId, order);
    } else {
      info.follow(order.info);
      order.info = info;
    }
    this.#changed(topic, group, queueId, order);
    const consumed = info.consumed ?? NOTHING_CONSUMED;
    let least = consumed.size === offsets.length ? Number.MAX_SAFE_INTEGER : 0;
    let items = '';
    for (const [offset, count] of consumed) {
      items = addItem(items, offsetOrderCountItem(topic, queueId, offset, count));
      least = Math.min(least, count);
    }
    return addItem(items, queueOrderCountItem(topic, queueId, least));
  }

  /** Whether a pop must leave a queue alone. RocketMQ: checkBlock. */
  isBlocked(
    attemptId: string | undefined,
    topic: string,
    group: string,
    queueId: number,
    invisibleTime: number,
  ): boolean {
    const info = this.#find(topic, group, queueId)?.info;
    return info?.blocks(attemptId, invisibleTime, this.environment.clock.now()) ?? false;
  }

  /** Whether a pop comes again whose answer was lost. */
  isAttempt(attemptId: string | undefined, topic: string, group: string, queueId: number): boolean {
    const known = this.#find(topic, group, queueId)?.info.attemptId;
    return known !== undefined && known === attemptId;
  }

  /** Frees a queue, whose offset has been set. */
  clearBlock(topic: string, group: string, queueId: number): void {
    const queues = this.#table.get(keyOf(topic, group))?.queues;
    queues?.get(queueId)?.timer?.cancel();
    if (queues?.delete(queueId)) this.markChanged();
  }

  /** Notes an acknowledgement: the offset to commit, or one of `Acknowledged`. */
  commitAndNext(topic: string, group: string, queueId: number, offset: number, popTime: number): number {
    const order = this.#find(topic, group, queueId);
    if (order === undefined) return Acknowledged.UNKNOWN;
    const next = order.info.acknowledge(offset, popTime);
    // Who acknowledges wakes those that wait, if this was the last.
    if (next >= 0) this.#changed(topic, group, queueId, order, true);
    return next;
  }

  /** Sets when a message that was handed out is visible again. */
  updateNextVisibleTime(
    topic: string,
    group: string,
    queueId: number,
    offset: number,
    popTime: number,
    nextVisibleTime: number,
  ): void {
    const order = this.#find(topic, group, queueId);
    // RocketMQ: notes an offset that was not handed out, too.
    if (order === undefined || popTime !== order.info.popTime || !order.info.offsets.includes(offset)) return;
    order.info.nextVisible.set(offset, nextVisibleTime);
    this.#changed(topic, group, queueId, order);
  }

  removeTopic(topic: string): void {
    this.#removeIf((one) => one.topic === topic);
  }

  removeGroup(group: string): void {
    this.#removeIf((one) => one.group === group);
  }

  /** Forgets what concerns topics, groups and queues that are gone, or that nobody has popped for a day. RocketMQ: autoClean. */
  clean(): void {
    const { queuesOf, hasGroup } = this.#tables;
    const now = this.environment.clock.now();
    for (const [key, { topic, group, queues }] of this.#table) {
      const count = hasGroup(group) ? (queuesOf(topic) ?? 0) : 0;
      for (const [queueId, order] of queues) {
        if (queueId < count && now - order.info.lastConsumeMs <= KEPT_MS) continue;
        order.timer?.cancel();
        queues.delete(queueId);
        this.markChanged();
      }
      if (queues.size === 0) this.#table.delete(key);
    }
  }

  protected override *encode(): Iterable<string> {
    const kept = [...this.#table].filter(([, { queues }]) => queues.size > 0);
    yield `{\n\t"orderInfoCount":${kept.length},\n\t"orderedConsumptionLevel":"QUEUE",\n\t"table":{`;
    yield* prettyPieces(
      kept,
      ({ queues }) => new Map([...queues].map(([queueId, { info }]) => [queueId, info.toBean()])),
    );
    yield '\n}';
  }

  protected override decode(json: JsonObject): void {
    const table = readObject(json, 'table') ?? {};
    const loaded: Array<[string, Map<number, QueueOrder>]> = [];
    for (const key of Object.keys(table)) {
      const queues = readObject(table, key) ?? {};
      const orders = new Map<number, QueueOrder>();
      for (const queueId of Object.keys(queues)) {
        const info = readObject(queues, queueId);
        if (info !== undefined) orders.set(toInteger(queueId, key), { info: OrderInfo.of(info), timer: undefined });
      }
      loaded.push([key, orders]);
    }
    for (const [key, queues] of loaded) {
      const at = key.indexOf('@');
      // RocketMQ: passes over keys that do not give two parts; no valid name holds one.
      if (at > 0) this.#table.set(key, { topic: key.slice(0, at), group: key.slice(at + 1), queues });
    }
  }

  #of(topic: string, group: string): GroupOrder {
    const key = keyOf(topic, group);
    let orders = this.#table.get(key);
    if (orders === undefined) {
      orders = { topic, group, queues: new Map() };
      this.#table.set(key, orders);
    }
    return orders;
  }

  #find(topic: string, group: string, queueId: number): QueueOrder | undefined {
    return this.#table.get(keyOf(topic, group))?.queues.get(queueId);
  }

  #removeIf(doomed: (order: GroupOrder) => boolean): void {
    for (const [key, order] of this.#table) {
      if (!doomed(order)) continue;
      for (const { timer } of order.queues.values()) timer?.cancel();
      this.#table.delete(key);
      this.markChanged();
    }
  }

  #changed(topic: string, group: string, queueId: number, order: QueueOrder, isTold = false): void {
    this.markChanged();
    this.#retime(topic, group, queueId, order, isTold);
  }

  /** `isTold`: nobody need be told of a queue that is free now. */
  #retime(topic: string, group: string, queueId: number, order: QueueOrder, isTold = false): void {
    if (!this.#running || !this.#tables.enableNotifyAfterPopOrderLockRelease()) return;
    const { clock } = this.environment;
    const now = clock.now();
    const freeAt = order.info.freeAt(now);
    if (freeAt === undefined) return;
    order.timer?.cancel();
    order.timer = undefined;
    if (isTold && freeAt <= now) return;
    order.timer = clock.after(freeAt - now, () => {
      order.timer = undefined;
      this.#free(topic, group, queueId);
    });
  }
}

function keyOf(topic: string, group: string): string {
  return `${topic}@${group}`;
}
