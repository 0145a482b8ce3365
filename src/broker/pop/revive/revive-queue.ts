// One queue of the revive topic: what is read from it, which pops are open, and what becomes of those whose time is over. A round reads to where
// the queue ended when it began, revives what is known to be unacknowledged, and says how far the position may move. Nothing in it stops the
// others: what makes no sense is set aside with a line, what cannot be done now is stored again for later.

import { errorText, viewOf } from '../../../common/index.ts';
import { MATCH_ALL } from '../../../filter/index.ts';
import {
  ACK_TAG,
  type AckMsg,
  BATCH_ACK_TAG,
  CK_TAG,
  decodeAckMsg,
  decodeBatchAckMsg,
  decodeCheckPoint,
  mergeKey,
  nameBytes,
  normalTopicOf,
  type PopCheckPoint,
  PropertyName,
  PropertyTable,
  RecordOutcome,
  RecordView,
  readRecord,
  Verify,
} from '../../../message/index.ts';
import { GetMessageStatus, GetResult, getStatusName, PutMessageStatus } from '../../../store/index.ts';
import { repeated } from '../../store-reads.ts';
import { MessageAt } from './message-at.ts';
import { OpenCheckPoints, type OpenEntry, type OpenPoint } from './open-check-points.ts';
import { LATER, NEVER, type RetryPut } from './retry-put.ts';
import type { ReviveState } from './revive-parts.ts';

/** Records and bytes of one read. */
const READ_RECORDS = 256;
const READ_BYTES = 1024 * 1024;
/** A check point comes one second before its time; one whose time is so far ahead goes back into the timer. */
const FAR_MS = 5000;
/** Bytes of a body that can be a check point or an acknowledgement; the longest of RocketMQ's has a few hundred. */
const MOST_BODY = 64 * 1024;
/** Most messages of a check point. RocketMQ: a Java byte. */
const MOST_MESSAGES = 127;
/** Pops after which other work gets its turn. */
const TURN_POPS = 64;
/** Bytes of the buffer that is kept for the next read. */
const MOST_KEPT = 256 * 1024;
const NO_BYTES = Buffer.alloc(0);
const TAGS = nameBytes(PropertyName.TAGS);
const DELIVER_MS = nameBytes(PropertyName.TIMER_DELIVER_MS);

export class ReviveQueue {
  readonly queueId: number;
  /** Next record to read. */
  scanned: number;
  readonly open: OpenCheckPoints;
  readonly #state: ReviveState;
  readonly #put: RetryPut;
  readonly #at: MessageAt;
  /** All acknowledgements that were due by this time are read; ms since 1970. */
  #knownMs = 0;
  /** What will be known once `end` is reached. */
  #target: { readonly timeMs: number; readonly end: number } | undefined;
  readonly #result = new GetResult();
  /** What was read last, and will be again. */
  #bytes: Buffer = NO_BYTES;
  readonly #record = new RecordView();
  readonly #properties = new PropertyTable();
  #pops = 0;

  /** `position`: the last record that is done, -1 if none is; `mostOpen`: pops that may be open. */
  constructor(state: ReviveState, put: RetryPut, queueId: number, position: number, mostOpen?: number) {
    this.#state = state;
    this.#put = put;
    this.#at = new MessageAt(state.parts.store);
    this.queueId = queueId;
    this.scanned = position + 1;
    this.open = new OpenCheckPoints(mostOpen);
  }

  /** The last record that nobody needs any more, as RocketMQ saves it; -1 if there is none. */
  get position(): number {
    return this.open.neededFrom(this.scanned) - 1;
  }

  /** Next offset of the queue, also of what is not dispatched. */
  get end(): number {
    return this.#state.parts.store.maxOffsetInQueue(this.#state.topic, this.queueId, false);
  }

  /** When the oldest pop whose time is over was to come back, `now` if there is none; ms since 1970. */
  oldestMs(now: number): number {
    let oldest = now;
    for (const { points } of this.open.entries()) {
      for (const { reviveMs } of points) if (reviveMs < oldest) oldest = reviveMs;
    }
    return oldest;
  }

  /** Whether there is nothing to do until something is put. */
  get isIdle(): boolean {
    return this.open.size === 0 && this.open.resumeAt === undefined && this.scanned >= this.end;
  }

  /** `storedMs`: what was due by then stands in the revive topic. Answers whether anything was there to do. */
  async round(storedMs: number): Promise<boolean> {
    const end = this.end;
    if (this.#target === undefined && storedMs > this.#knownMs) this.#target = { timeMs: storedMs, end };
    if (this.isIdle) {
      this.#reachTarget();
      return false;
    }
    await this.#read(end);
    this.#reachTarget();
    await this.#revive();
    this.#rewind();
    return true;
  }

  #reachTarget(): void {
    if (this.#target === undefined || this.scanned < Math.min(this.#target.end, this.end)) return;
    this.#knownMs = this.#target.timeMs;
    this.#target = undefined;
  }

  // --- Reading

  async #read(end: number): Promise<void> {
    const { clock, config } = this.#state.parts;
    const until = clock.monotonic() + config.reviveScanTime;
    while (this.#state.running && this.scanned < end && clock.monotonic() < until) {
      if (!(await this.#readSome())) return;
      if (this.scanned < end) await new Promise<void>((resolve) => clock.soon(resolve));
    }
  }

  /** False if there is nothing to be read now. */
  async #readSome(): Promise<boolean> {
    const { topic, counts } = this.#state;
    const { store } = this.#state.parts;
    const result = this.#result;
    const request = {
      topic,
      queueId: this.queueId,
      offset: this.scanned,
      maxMessages: READ_RECORDS,
      maxBytes: READ_BYTES,
      filter: MATCH_ALL,
    };
    await repeated((ready) => store.select(request, result, ready));
    const next = result.nextBeginOffset;
    if (result.status !== GetMessageStatus.FOUND) return this.#skip(next);
    if (result.totalBytes > this.#bytes.length) this.#bytes = Buffer.allocUnsafe(result.totalBytes);
    const bytes = this.#bytes;
    await repeated((ready) => store.copyRecords(result, bytes, 0, ready));
    const view = viewOf(bytes);
    const record = this.#record;
    let read = 0;
    for (let at = 0; at < result.totalBytes; at += record.totalSize) {
      if (readRecord(bytes, view, at, result.totalBytes, Verify.STRUCTURE, record) !== RecordOutcome.RECORD) break;
      read++;
      this.#take(bytes, record);
    }
    const missing = next - this.scanned - read;
    if (missing > 0) {
      counts.setAside += missing;
      this.#state.tell(`${missing} records of queue ${this.queueId} from ${this.scanned} on cannot be read`);
    }
    if (bytes.length > MOST_KEPT) this.#bytes = NO_BYTES;
    this.scanned = next;
    return true;
  }

  /** What cannot be read is gone or damaged; what comes behind it counts. */
  #skip(next: number): boolean {
    if (next <= this.scanned) return false;
    const { status } = this.#result;
    if (status !== GetMessageStatus.OFFSET_TOO_SMALL) this.#state.counts.setAside += next - this.scanned;
    this.#state.tell(
      `queue ${this.queueId} cannot be read at ${this.scanned} (${getStatusName(status)}); it goes on at ${next}`,
    );
    this.scanned = next;
    return true;
  }

  #take(bytes: Buffer, record: RecordView): void {
    const { counts } = this.#state;
    const properties = this.#properties;
    const offset = record.queueOffset;
    properties.read(bytes, record.propertiesStart, record.propertiesEnd);
    const tag = properties.get(TAGS);
    const size = record.bodyEnd - record.bodyStart;
    const body = size > MOST_BODY ? '' : bytes.toString('utf8', record.bodyStart, record.bodyEnd);
    const { config, logger } = this.#state.parts;
    if (config.enablePopLog) logger.info(`revive: queue ${this.queueId} offset ${offset} is ${tag}: ${body}`);
    if (tag === CK_TAG) {
      const ck = decodeCheckPoint(body);
      if (ck === undefined || !makesSense(ck)) return this.#setAside(offset, `it is no check point: ${body}`);
      counts.checkPoints++;
      this.open.add(this.#keyOf(ck), ck, offset, record.physicalOffset);
    } else if (tag === ACK_TAG || tag === BATCH_ACK_TAG) {
      const batch = tag === BATCH_ACK_TAG ? decodeBatchAckMsg(body) : undefined;
      const ack = tag === BATCH_ACK_TAG ? batch : decodeAckMsg(body);
      if (ack === undefined) return this.#setAside(offset, `it is no acknowledgement: ${body}`);
      counts.acks++;
      const key = this.#keyOf(ack);
      const messages = batch === undefined ? [ack.ackOffset] : batch.ackOffsets;
      const dueMs = this.open.has(key) ? 0 : Number(properties.get(DELIVER_MS) ?? record.storeTimestamp);
      this.open.ack(key, messages, offset, Number.isSafeInteger(dueMs) ? dueMs : record.storeTimestamp);
    } else this.#setAside(offset, `its tag is ${tag}`);
  }

  /** RocketMQ: an acknowledgement without the broker's name is of this one. */
  #keyOf(of: PopCheckPoint | AckMsg): string {
    if (of.brokerName === undefined || of.brokerName === '') of.brokerName = this.#state.parts.config.brokerName;
    return mergeKey(of);
  }

  #setAside(offset: number, reason: string): void {
    this.#state.counts.setAside++;
    this.#state.tell(`record ${offset} of queue ${this.queueId} is set aside, ${reason.slice(0, 300)}`);
  }

  // --- Reviving

  /** In the order of the queue, up to the first that is not over: what is behind the position never counts twice after a start. */
  async #revive(): Promise<void> {
    const puts: Put[] = [];
    const done: OpenEntry[] = [];
    try {
      for (const entry of [...this.open.entries()]) {
        if (!this.#state.running) break;
        if (entry.early !== undefined) {
          if (!this.#forgetStray(entry)) break;
          continue;
        }
        done.push(entry);
        if (!(await this.#reviveEntry(entry, puts))) break;
      }
    } finally {
      await this.#settle(puts);
      for (const entry of done) this.open.settle(entry);
    }
  }

  /** An acknowledgement whose check point did not come until it was due: that one was over before, or never there. False if it may come. */
  #forgetStray(entry: OpenEntry): boolean {
    if (entry.earlyMs > this.#knownMs) return false;
    this.#state.counts.strays++;
    this.open.delete(entry);
    return true;
  }

  /** False if something is left to do. */
  async #reviveEntry(entry: OpenEntry, puts: Put[]): Promise<boolean> {
    const { clock } = this.#state.parts;
    const farMs = Math.max(clock.now(), this.#knownMs) + FAR_MS;
    for (const point of entry.points) {
      if (point.pending.length === 0) continue;
      if (point.reviveMs > this.#knownMs) {
        // Nobody waits for one that is far ahead, by whatever made it so.
        if (point.reviveMs <= farMs || !this.#putLater(point, [...point.pending], false, puts)) return false;
        continue;
      }
      const dropped = this.#isDropped(point);
      if (dropped !== undefined) this.#drop(point, dropped);
      else if (!(await this.#revivePoint(point, puts))) return false;
      if (++this.#pops % TURN_POPS === 0) await new Promise<void>((resolve) => clock.soon(resolve));
    }
    return true;
  }

  /** Why a check point is of no use any more. */
  #isDropped({ ck, physicalOffset }: OpenPoint): string | undefined {
    const { config, groups, store, topics } = this.#state.parts;
    const normal = normalTopicOf(ck.topic, ck.group);
    if (!topics.has(normal)) return `topic ${normal} is deleted`;
    if (config.popReviveSkipIfGroupAbsent && !groups.has(ck.group)) return 'the group is deleted';
    if (physicalOffset < store.deletedBelow(ck.topic)) return 'its topic was deleted and made again since';
    return undefined;
  }

  #drop(point: OpenPoint, reason: string): void {
    this.#state.counts.dropped++;
    this.#state.tell(`${nameOf(point.ck, point.pending)} come back no more: ${reason}`);
    // Those of a topic that was made anew are not the ones that are in flight.
    if (point.physicalOffset >= this.#state.parts.store.deletedBelow(point.ck.topic))
      this.#landed(point.ck, point.pending.length);
    point.pending.length = 0;
  }

  /** RocketMQ: what comes back no more stays in flight for ever, and closes its queue in the end. */
  #landed(ck: PopCheckPoint, count: number): void {
    for (let i = 0; i < count; i++) this.#state.onLanded(ck);
  }

  /** False if the store takes nothing now. */
  async #revivePoint(point: OpenPoint, puts: Put[]): Promise<boolean> {
    const { ck } = point;
    const gone: number[] = [];
    const failed: number[] = [];
    let taken = true;
    for (const offset of [...point.pending]) {
      const end = await this.#reviveMessage(ck, offset);
      if (end === LATER) {
        taken = false;
        break;
      }
      if (end === NEVER) failed.push(offset);
      else remove(point.pending, offset);
      if (end === GONE) gone.push(offset);
      else if (end > 0) puts.push({ point, messages: [offset], end, revived: true });
    }
    if (gone.length > 0) {
      this.#state.counts.gone += gone.length;
      this.#landed(ck, gone.length);
      this.#state.tell(`${nameOf(ck, gone)} come back no more: they are gone`);
    }
    if (failed.length > 0 && taken) taken = this.#putLater(point, failed, true, puts);
    return taken;
  }

  /** Where the copy ends in the log; GONE, LATER or NEVER. */
  async #reviveMessage(ck: PopCheckPoint, offset: number): Promise<number> {
    const { seldom, parts } = this.#state;
    let message: Awaited<ReturnType<MessageAt['read']>>;
    let isDone = false;
    try {
      message = await this.#at.read(ck.topic, ck.queueId, offset);
      isDone = message !== undefined && (await this.#put.isDone(ck, message));
    } catch (error) {
      seldom.warn('read', `revive: ${nameOf(ck, [offset])} cannot be read (${errorText(error)}); it is tried again`);
      return NEVER;
    }
    if (message === undefined) return GONE;
    if (!isDone && !this.#put.isReady(ck) && !(await this.#put.makeReady(ck))) return LATER;
    // After a deletion the numbers begin anew: one that was stored after the pop is another message.
    if (parts.store.deletedBelow(ck.topic) > 0 && message.storeTimestamp > ck.popTime) return GONE;
    if (isDone) {
      this.#state.counts.done++;
      return DONE;
    }
    const end = this.#put.revive(ck, message);
    if (end > 0 && parts.config.enablePopLog) parts.logger.info(`revive: ${nameOf(ck, [offset])} comes back`);
    return end;
  }

  /** Stores a check point again for messages that are not done. False if the store takes nothing now. */
  #putLater(point: OpenPoint, messages: number[], failed: boolean, puts: Put[]): boolean {
    const { counts } = this.#state;
    const isExhausted = failed && this.#put.isExhausted(point.ck);
    const end = isExhausted ? NEVER : this.#put.putAgain(point.ck, messages, this.queueId, failed);
    if (end === LATER) return false;
    for (const offset of messages) remove(point.pending, offset);
    if (end === NEVER) {
      counts.dropped++;
      this.#landed(point.ck, messages.length);
      const reason = isExhausted ? 'no try has succeeded' : 'their time is further ahead than the timer can see';
      this.#state.tell(`${nameOf(point.ck, messages)} come back no more: ${reason}`);
      return true;
    }
    counts.rePut++;
    puts.push({ point, messages, end, revived: false });
    return true;
  }

  /** When what was put is written its pops are over; what was lost is to be done again. */
  async #settle(puts: readonly Put[]): Promise<void> {
    const { store } = this.#state.parts;
    const { counts, seldom } = this.#state;
    const end = puts.reduce((most, put) => Math.max(most, put.end), 0);
    let written = end;
    if (end > 0) {
      const [status, reason] = await new Promise<[PutMessageStatus, string]>((resolve) =>
        store.whenDurable(end, false, (...outcome) => resolve(outcome)),
      );
      if (status !== PutMessageStatus.PUT_OK) {
        seldom.warn('lost', `revived messages are not written and are put again: ${reason}`);
        written = store.watermarks.committed;
      }
    }
    for (const { point, messages, end: at, revived } of puts) {
      if (at > written) point.pending.push(...messages);
      else if (revived) counts.revived += messages.length;
    }
  }

  /** What was passed over for want of room is read now. */
  #rewind(): void {
    const { resumeAt } = this.open;
    if (resumeAt === undefined || !this.open.hasRoom) return;
    this.open.resumeAt = undefined;
    this.scanned = resumeAt;
    this.#knownMs = 0;
    this.#target = undefined;
  }
}

/** Instead of the end of a record: there is no such message; it was stored before. */
const GONE = 0;
const DONE = -3;

interface Put {
  readonly point: OpenPoint;
  readonly messages: number[];
  readonly end: number;
  readonly revived: boolean;
}

function remove(list: number[], value: number): void {
  const at = list.indexOf(value);
  if (at >= 0) list.splice(at, 1);
}

function makesSense(ck: PopCheckPoint): boolean {
  if (ck.num > MOST_MESSAGES || ck.queueId < 0 || ck.startOffset < 0) return false;
  return ck.offsetDiffs.every((diff) => diff >= 0 && Number.isSafeInteger(ck.startOffset + diff));
}

function nameOf(ck: PopCheckPoint, offsets: readonly number[]): string {
  return `${offsets.length} messages of ${ck.topic} queue ${ck.queueId} (${offsets.slice(0, 4).join()}${offsets.length > 4 ? ',...' : ''}) popped by ${ck.group}`;
}
