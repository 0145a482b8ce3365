// With enablePopBufferMerge pops and their acknowledgements meet in memory, and what is done within seconds is never stored. The group's offset
// waits for that, so that a killed process loses nothing: what was popped is popped again, even what was acknowledged in memory.
//
//   pop ─► entry ─► acknowledgements set its bits ─► all set: gone, the offset moves
//                   │ it has stayed popCkStayBufferTime, or comes back within popCkStayBufferTimeOut
//                   └─► check point stored, the offset moves ─► acknowledgements stored ─► gone
//
// RocketMQ: PopBufferMergeService. It looks at every entry every 5 ms; here an entry is looked at when something happens to it.

import type { Clock, Logger, Timer } from '../../common/index.ts';
import {
  type AckMsg,
  indexOfAck,
  mergeKey,
  offsetByIndex,
  type PopCheckPoint,
  reviveTimeOf,
} from '../../message/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import type { PoppedRange, PopQueue } from './pop-queue.ts';
import type { PopQueues } from './pop-queues.ts';
import type { RevivePut } from './revive-put.ts';

export interface PopBufferMergeParts {
  readonly config: BrokerConfig;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly queues: PopQueues;
  readonly revive: RevivePut;
  readonly hasGroup: (group: string) => boolean;
}

/** RocketMQ: neither pops nor acknowledgements are taken so shortly before an entry has to leave. */
const MARGIN_MS = 1500;
/** How often entries are looked for that have to leave; nothing runs while there are none. */
const TICK_MS = 100;

/** One pop. */
interface Entry {
  readonly key: string;
  readonly ck: PopCheckPoint;
  readonly reviveQueueId: number;
  readonly queue: PopQueue;
  readonly range: PoppedRange;
  /** A bit for each message: acknowledged, and the acknowledgement stored. */
  acked: number;
  storedAcks: number;
  isStored: boolean;
}

export class PopBufferMerge {
  readonly #parts: PopBufferMergeParts;
  readonly #entries = new Map<string, Entry>();
  /** Entries by the tick in which they have to leave, unless they have left before. */
  readonly #ticks = new Map<number, Entry[]>();
  #timer: Timer | undefined;
  #stopped = false;

  constructor(parts: PopBufferMergeParts) {
    this.#parts = parts;
  }

  /** Pops in memory. */
  get size(): number {
    return this.#entries.size;
  }

  /** Takes a pop, whose messages may be handed out then. False: its check point must be stored. */
  add(ck: PopCheckPoint, reviveQueueId: number, queue: PopQueue, next: number): boolean {
    const { clock, config, queues } = this.#parts;
    if (!config.enablePopBufferMerge || this.#stopped) return false;
    const now = clock.now();
    if (reviveTimeOf(ck) - now < config.popCkStayBufferTimeOut + MARGIN_MS) return false;
    if (this.#entries.size > config.popCkMaxBufferSize || queue.uncommitted >= config.popCkOffsetMaxQueueSize)
      return false;
    const key = mergeKey(ck);
    if (this.#entries.has(key)) return false;
    const range = queues.add(queue, ck.startOffset, next, -1);
    const entry: Entry = { key, ck, reviveQueueId, queue, range, acked: 0, storedAcks: 0, isStored: false };
    this.#entries.set(key, entry);
    const stay = ck.popTime + config.popCkStayBufferTime;
    this.#leaveAt(Math.min(stay, reviveTimeOf(ck) - config.popCkStayBufferTimeOut), entry);
    if (config.enablePopLog) this.#log(key, `${ck.num} messages from ${ck.startOffset} on, in memory`);
    return true;
  }

  /** Takes acknowledgements of one check point. False: they must be stored. */
  ack(ack: AckMsg, offsets: readonly number[]): boolean {
    const { clock, config, logger } = this.#parts;
    if (!config.enablePopBufferMerge || this.#stopped) return false;
    const key = mergeKey(ack);
    const entry = this.#entries.get(key);
    const now = clock.now();
    const refusal = entry === undefined || entry.isStored ? 'it is not in memory' : refusalAt(entry.ck, config, now);
    if (config.enablePopLog)
      this.#log(key, `acknowledged ${offsets.join()}${refusal === '' ? '' : `, stored: ${refusal}`}`);
    if (entry === undefined || refusal !== '') return false;
    const { ck } = entry;
    for (const offset of offsets) {
      const index = indexOfAck(ck, offset);
      if (index >= 0) entry.acked |= 1 << index;
      else logger.warn(`${entry.key}: offset ${offset} was acknowledged and is not of this pop`);
    }
    if (isAll(entry)) this.#done(entry);
    return true;
  }

  /** Stores all that is in memory, and takes nothing more. */
  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#ticks.clear();
    for (const entry of this.#entries.values()) {
      if (this.#leave(entry)) continue;
      this.#parts.logger.warn(`${entry.key} could not be stored; its messages are popped again`);
    }
    this.#entries.clear();
  }

  #log(key: string, what: string): void {
    this.#parts.logger.info(`pop ${key}: ${what}`);
  }

  #done(entry: Entry): void {
    if (this.#parts.config.enablePopLog) this.#log(entry.key, 'over, and never stored');
    this.#entries.delete(entry.key);
    entry.range.logEnd = 0;
    entry.queue.advance();
  }

  #leaveAt(timeMs: number, entry: Entry): void {
    const tick = Math.floor(timeMs / TICK_MS);
    const entries = this.#ticks.get(tick);
    if (entries === undefined) this.#ticks.set(tick, [entry]);
    else entries.push(entry);
    this.#timer ??= this.#parts.clock.every(TICK_MS, () => this.#tick());
  }

  #tick(): void {
    const now = this.#parts.clock.now();
    const tick = Math.floor(now / TICK_MS);
    for (const [due, entries] of this.#ticks) {
      if (due > tick) continue;
      this.#ticks.delete(due);
      for (const entry of entries) {
        const isHere = this.#entries.get(entry.key) === entry;
        if (isHere && !this.#leave(entry)) this.#leaveAt(now + TICK_MS, entry);
      }
    }
    if (this.#ticks.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** False: not all of it could be stored. */
  #leave(entry: Entry): boolean {
    const { config, logger, revive } = this.#parts;
    const { ck, queue, range, reviveQueueId } = entry;
    if (!this.#parts.hasGroup(ck.group)) {
      logger.warn(`${entry.key} is dropped, since the group is not there`);
      this.#done(entry);
      return true;
    }
    if (!entry.isStored) {
      if (!revive.checkPoint(ck, reviveQueueId)) return false;
      entry.isStored = true;
      range.logEnd = revive.logEnd;
      queue.advance();
      if (config.enablePopLog) this.#log(entry.key, 'its check point is stored');
    }
    if (!this.#storeAcks(entry)) return false;
    if (config.enablePopLog && entry.storedAcks !== 0) this.#log(entry.key, 'its acknowledgements are stored');
    this.#entries.delete(entry.key);
    return true;
  }

  #storeAcks(entry: Entry): boolean {
    const { config, revive } = this.#parts;
    const { ck, reviveQueueId } = entry;
    const { brokerName, group, popTime, queueId, startOffset, topic } = ck;
    const ack: AckMsg = { ackOffset: 0, startOffset, group, topic, queueId, popTime, brokerName };
    const left = entry.acked & ~entry.storedAcks;
    const ackOffsets: number[] = [];
    for (let i = 0; i < ck.num; i++) {
      if (((left >>> i) & 1) === 0) continue;
      const offset = offsetByIndex(ck, i);
      if (config.enablePopBatchAck) ackOffsets.push(offset);
      else if (revive.ack({ ...ack, ackOffset: offset }, reviveQueueId, reviveTimeOf(ck))) entry.storedAcks |= 1 << i;
      else return false;
    }
    if (ackOffsets.length === 0) return true;
    // RocketMQ: leaves the name of the broker out, and its reader puts its own in.
    if (!revive.bufferedAck({ ...ack, ackOffsets }, reviveQueueId, reviveTimeOf(ck))) return false;
    entry.storedAcks = entry.acked;
    return true;
  }
}

/** Why acknowledgements are stored; '' if they need not be. RocketMQ: addAk. */
function refusalAt(ck: PopCheckPoint, config: BrokerConfig, now: number): string {
  if (reviveTimeOf(ck) - now < config.popCkStayBufferTimeOut + MARGIN_MS) return 'its time is nearly over';
  if (now - ck.popTime > config.popCkStayBufferTime - MARGIN_MS) return 'it is about to leave the memory';
  return '';
}

function isAll({ acked, ck }: Entry): boolean {
  const all = ck.num >= 32 ? -1 : (1 << ck.num) - 1;
  return (acked & all) === all;
}
