// POP_LITE_MESSAGE (200070): the next messages of whatever lite topics of a parent have news for a client. RocketMQ: PopLiteMessageProcessor.
//
//   checks ─► events of the client ─► each queue: is it free? ─► offset ─► select and copy ─► what is out (LiteOrder) ─► answer
//                │ nothing there, and the client may wait ─► held until an event or its time (LiteHold)
//
// The offset of a group moves by acknowledgements alone, so what is handed out and not acknowledged is never lost.

import { errorText } from '../../common/index.ts';
import { POP_ORDER_REVIVE_QUEUE } from '../../message/index.ts';
import {
  type Channel,
  type ExtFields,
  FrameWriter,
  type Request,
  RequestCode,
  ResponseCode,
} from '../../remoting/index.ts';
import { GetMessageStatus, type GetResult } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import type { HandlerRegistry } from '../processor/registry.ts';
import { copyLater, isYoungQueue, selectLater } from '../store-reads.ts';
import { isReadable } from '../topic/topic-config.ts';
import { type HeldPop, Polling } from './lite-hold.ts';
import { bindTopicOf, isLiteTopic } from './lite-metadata.ts';

const MOST_MESSAGES = 32;
/** Ms that a request may be behind its time. */
const TOO_LATE_MS = 500;
/** Bytes of one answer. */
const MAX_POP_BYTES = 4 * 1024 * 1024;

/** What a pop asks for. */
interface Wants {
  readonly clientId: string;
  readonly group: string;
  readonly topic: string;
  readonly most: number;
  readonly invisibleTime: number;
  readonly pollTime: number;
  readonly bornTime: number;
  readonly attemptId: string | undefined;
}

/** Messages of one queue. */
interface Taken {
  readonly bytes: Uint8Array;
  readonly counts: readonly number[];
}

export class PopLiteProcessor {
  readonly #context: BrokerContext;
  /** Queues of groups that a pop reads now, and whether another one came by meanwhile. */
  readonly #busy = new Map<string, boolean>();

  constructor(context: BrokerContext) {
    this.#context = context;
  }

  register(registry: HandlerRegistry): void {
    registry.register(RequestCode.POP_LITE_MESSAGE, (request) => this.#handle(request));
  }

  #handle(request: Request): void {
    const { header } = request;
    const now = this.#context.clock.now();
    const bornTime = header.longOr('bornTime', 0);
    const pop = new Pop(this, request, {
      clientId: header.required('clientId'),
      group: header.required('consumerGroup'),
      topic: header.required('topic'),
      most: header.int('maxMsgNum'),
      invisibleTime: header.long('invisibleTime'),
      pollTime: header.long('pollTime'),
      bornTime: bornTime === 0 ? now : bornTime,
      attemptId: header.get('attemptId'),
    });
    request.takeOver();
    pop.resume();
  }

  /** One step of a pop: answers or holds it. */
  async step(pop: Pop): Promise<void> {
    const { clock, config, lite } = this.#context;
    const { wants } = pop;
    const refusal = this.#refusalOf(wants);
    if (refusal !== undefined) {
      pop.answer(refusal.code, refusal.remark, {});
      return;
    }
    const popTime = clock.now();
    const taken = await this.#take(wants, popTime, pop);
    if (!pop.isWanted) {
      pop.forget();
      return;
    }
    const fields = { invisibleTime: wants.invisibleTime, popTime, reviveQid: POP_ORDER_REVIVE_QUEUE };
    if (taken.length > 0) {
      const orderCountInfo = taken.flatMap(({ counts }) => counts).join(';');
      const body = Buffer.concat(taken.map(({ bytes }) => bytes));
      pop.answer(ResponseCode.SUCCESS, 'FOUND', { ...fields, orderCountInfo }, body);
      return;
    }
    let polling: Polling = Polling.TIMEOUT;
    if (wants.pollTime > 0) polling = lite.hold.hold(pop);
    if (polling !== Polling.HELD) {
      const code = polling === Polling.FULL ? ResponseCode.POLLING_FULL : ResponseCode.POLLING_TIMEOUT;
      pop.answer(code, 'NO_MESSAGE_IN_QUEUE', { ...fields, orderCountInfo: '' });
    } else if (lite.events.hasNext(wants.clientId)) lite.hold.wake(wants.clientId);
    if (config.enableLitePopLog)
      this.#context.logger.info(`lite pop of ${wants.clientId} waits: ${polling === Polling.HELD}`);
  }

  /** RocketMQ: preCheck, in its order. */
  #refusalOf({ bornTime, group, most, pollTime, topic }: Wants): { code: number; remark: string } | undefined {
    const { clock, config, groups, topics } = this.#context;
    const broker = `the broker[${config.brokerIP1}]`;
    if (clock.now() - bornTime - pollTime > TOO_LATE_MS) {
      return { code: ResponseCode.POLLING_TIMEOUT, remark: `${broker} pop message is timeout too much` };
    }
    if (!isReadable(config.brokerPermission)) {
      return { code: ResponseCode.NO_PERMISSION, remark: `${broker} pop message is forbidden` };
    }
    if (most > MOST_MESSAGES) {
      return { code: ResponseCode.INVALID_PARAMETER, remark: `${broker} pop message's num is greater than 32` };
    }
    const parent = topics.select(topic);
    if (parent === undefined) {
      const remark = `topic [${topic}] not exist, apply first please!`;
      return { code: ResponseCode.TOPIC_NOT_EXIST, remark };
    }
    if (!isReadable(parent.perm)) {
      return { code: ResponseCode.NO_PERMISSION, remark: `the topic [${topic}] peeking message is forbidden` };
    }
    if (!isLiteTopic(parent)) {
      return { code: ResponseCode.INVALID_PARAMETER, remark: `the topic [${topic}] message type not match` };
    }
    const known = groups.find(group);
    if (known === undefined) {
      const remark = `subscription group [${group}] not exist`;
      return { code: ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark };
    }
    if (!known.consumeEnable) {
      return { code: ResponseCode.NO_PERMISSION, remark: `subscription group no permission, ${group}` };
    }
    if (bindTopicOf(known) !== topic) {
      return { code: ResponseCode.INVALID_PARAMETER, remark: `subscription bind topic not match, ${group}` };
    }
    return undefined;
  }

  /** Takes messages from the queues that have news for a client. RocketMQ: popByClientId. */
  async #take(wants: Wants, popTime: number, pop: Pop): Promise<Taken[]> {
    const { clientId, group, most } = wants;
    const taken: Taken[] = [];
    if (most <= 0) return taken;
    const done = new Set<string>();
    let left = most;
    let room = MAX_POP_BYTES;
    this.#context.lite.events.asked(clientId);
    for (const queue of this.#newsOf(clientId)) {
      // What an attempt has just got it would get again.
      if (done.has(queue)) continue;
      const key = `${queue}@${group}`;
      if (this.#busy.has(key)) {
        this.#busy.set(key, true);
        continue;
      }
      this.#busy.set(key, false);
      let got: Taken | undefined;
      try {
        got = await this.#takeFrom(queue, wants, popTime, left, room, pop);
      } catch (error) {
        this.#context.logger.error(`lite pop of ${key}: ${errorText(error)}`);
        this.#context.lite.events.failed(clientId, group);
      } finally {
        const again = this.#busy.get(key);
        this.#busy.delete(key);
        if (again === true) this.#context.lite.events.dispatch(group, queue);
      }
      if (got !== undefined) {
        done.add(queue);
        taken.push(got);
        left -= got.counts.length;
        room -= got.bytes.length;
      }
      if (left <= 0 || room <= 0 || !pop.isWanted) break;
    }
    return taken;
  }

  /** The queues that a client is to look at: what it was given, or without events all that it subscribes to. */
  *#newsOf(clientId: string): Generator<string> {
    const { config, lite } = this.#context;
    if (!config.enableLiteEventMode) {
      for (const queue of lite.subscriptions.of(clientId)?.queues ?? []) if (lite.endOf(queue) > 0) yield queue;
      return;
    }
    for (;;) {
      const queue = lite.events.next(clientId);
      if (queue === undefined) return;
      yield queue;
    }
  }

  async #takeFrom(
    queue: string,
    { attemptId, group, invisibleTime, topic }: Wants,
    popTime: number,
    most: number,
    room: number,
    pop: Pop,
  ): Promise<Taken | undefined> {
    const { lite, offsets, stats, store, traffic } = this.#context;
    // Deleted since it had news.
    if (lite.endOf(queue) <= 0 || lite.order.isBlocked(attemptId, queue, group, invisibleTime)) return undefined;
    const offset = await this.#offsetOf(queue, group);
    let result = await selectLater(store, queue, 0, offset, most, room);
    if (isElsewhere(result.status)) {
      this.#move(queue, group, offset, result.nextBeginOffset);
      result = await selectLater(store, queue, 0, result.nextBeginOffset, most, room);
    }
    if (result.status !== GetMessageStatus.FOUND) return undefined;
    const bytes = new Uint8Array(result.totalBytes);
    await copyLater(store, result, bytes);
    const body = bytes.subarray(0, result.totalBytes);
    const got = [...result.ordinals.subarray(0, result.count)];
    // Deleted while it was read, and maybe made anew.
    if (lite.endOf(queue) < result.nextBeginOffset) return undefined;
    if (got.length === 0) {
      // Damaged, all of them: what lies behind is looked at next time.
      this.#move(queue, group, offset, result.nextBeginOffset);
      lite.events.dispatch(group, queue);
      return undefined;
    }
    // Whoever has gone does not hold up the queue.
    if (!pop.isWanted || offsets.hasReset(group, queue, 0)) {
      lite.events.dispatch(group, queue);
      return undefined;
    }
    const counts = lite.order.popped(attemptId, queue, group, popTime, invisibleTime, got);
    stats.getFound++;
    stats.getMessages += got.length;
    const traffics = traffic.gets.of(`${topic}@${group}`);
    traffics.messages += got.length;
    traffics.bytes += body.length;
    traffics.requests++;
    await this.#noteLag(queue, group, topic, result, got.length === most);
    return { bytes: body, counts };
  }

  /** Where a group goes on in a queue; one that is new there begins as a pop of the newest messages does. RocketMQ: getPopOffset. */
  async #offsetOf(queue: string, group: string): Promise<number> {
    const { config, lite, offsets, store } = this.#context;
    if (offsets.query(group, queue, 0) < 0) {
      const young =
        store.minOffsetInQueue(queue, 0) <= 0 &&
        config.initPopOffsetByCheckMsgInMem &&
        (await isYoungQueue(store, queue, 0));
      const first = young ? 0 : Math.max(0, lite.endOf(queue) - 1);
      // Somebody may have said meanwhile where it is to begin.
      if (offsets.query(group, queue, 0) < 0 && lite.endOf(queue) > 0)
        offsets.commit('getPopOffset', group, queue, 0, first);
    }
    const reset = offsets.takeReset(group, queue, 0);
    if (reset < 0) return offsets.find(group, queue)?.committed.get(0) ?? 0;
    lite.order.remove(queue, group);
    offsets.commit('ResetOffset', group, queue, 0, reset);
    return reset;
  }

  #move(queue: string, group: string, from: number, to: number): void {
    if (this.#context.lite.endOf(queue) <= 0) return;
    this.#context.logger.warn(`offset of ${queue}@${group} is corrected from ${from} to ${to}`);
    this.#context.offsets.commit('CorrectOffset', group, queue, 0, to);
  }

  async #noteLag(queue: string, group: string, topic: string, result: GetResult, isFull: boolean): Promise<void> {
    const { config, lite, store } = this.#context;
    if (!config.liteLagLatencyCollectEnable) return;
    const time = isFull ? await store.messageStoreTimestamp(queue, 0, result.nextBeginOffset) : -1;
    lite.lags.note(group, topic, queue, time > 0 ? time : undefined);
  }
}

/** The group's offset is no place in the queue; the result says which is. */
function isElsewhere(status: GetMessageStatus): boolean {
  switch (status) {
    case GetMessageStatus.OFFSET_TOO_SMALL:
    case GetMessageStatus.OFFSET_OVERFLOW_BADLY:
    case GetMessageStatus.OFFSET_FOUND_NULL:
    case GetMessageStatus.NO_MATCHED_MESSAGE:
    case GetMessageStatus.MESSAGE_WAS_REMOVING:
    case GetMessageStatus.NO_MATCHED_LOGIC_QUEUE:
      return true;
    default:
      return false;
  }
}

/** A pop under way. */
class Pop implements HeldPop {
  readonly wants: Wants;
  readonly channel: Channel;
  readonly #processor: PopLiteProcessor;
  readonly #opaque: number;
  readonly #oneway: boolean;

  constructor(processor: PopLiteProcessor, request: Request, wants: Wants) {
    this.#processor = processor;
    this.channel = request.channel;
    this.#opaque = request.opaque;
    this.#oneway = request.oneway;
    this.wants = wants;
  }

  get clientId(): string {
    return this.wants.clientId;
  }

  get deadline(): number {
    return this.wants.bornTime + this.wants.pollTime;
  }

  get isWanted(): boolean {
    return this.channel.isOpen;
  }

  resume(): void {
    if (!this.isWanted) {
      this.forget();
      return;
    }
    this.#processor.step(this).catch((error: unknown) => this.answer(ResponseCode.SYSTEM_ERROR, errorText(error), {}));
  }

  forget(): void {
    this.channel.drop(1);
  }

  answer(code: number, remark: string, fields: ExtFields, body?: Uint8Array): void {
    if (this.#oneway) {
      this.channel.drop(1);
      return;
    }
    const writer = new FrameWriter();
    writer.response(code, this.#opaque, remark, fields, body);
    this.channel.send(writer.take().bytes, 1);
  }
}
