// PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361). RocketMQ: PullMessageProcessor.
//
//   checks ─► select (positions) ─► answer's header ─► copyRecords, straight into the answer
//                │ nothing there, and the client may wait ─► held until an arrival or its time (longpolling/)
//                └ bytes must come from disk first ─► the same pull again when they are there
//
// One object per pull, none per message.

import type { GantryError } from '../../common/index.ts';
import {
  type Channel,
  type ExtFields,
  FrameWriter,
  type Request,
  RequestCode,
  ResponseCode,
} from '../../remoting/index.ts';
import { GetMessageStatus, type GetRequest, GetResult, getStatusName, type TagFilter } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import type { ColdPull } from '../colddata/cold-data-control.ts';
import { restAfter } from '../filter/heavy-expressions.ts';
import type { HeldPull, PullRequestHold } from '../longpolling/pull-request-hold.ts';
import { InitialOffset } from '../offset/broadcast-offset-manager.ts';
import type { GroupOffsets } from '../offset/consumer-offset-manager.ts';
import { forwardPull } from '../statictopic/forwarded-pull.ts';
import { MappedPull } from '../statictopic/mapped-pull.ts';
import { logicQueueOf, staticTopicOf } from '../statictopic/mapping-context.ts';
import type { TopicQueueMappingDetail } from '../statictopic/topic-queue-mapping.ts';
import { isYoungQueue } from '../store-reads.ts';
import { lightQueueOf } from '../topic/topic-names.ts';
import { PullChecks, type PullRefusal } from './pull-checks.ts';
import { PullFilters } from './pull-filters.ts';
import type { HandlerRegistry } from './registry.ts';

/** RocketMQ: PullSysFlag. */
const COMMIT_OFFSET = 1;
const SUSPEND = 2;
const SUBSCRIPTION = 4;

/** A pull takes at most this many bytes, whatever it asks for. */
const MAX_PULL_BYTES = 128 * 1024 * 1024;
const SPARE_RESULTS = 64;
const MASTER_ID = 0;
/** RocketMQ: RequestSource. */
const PROXY_FOR_BROADCAST = 1;

/** More than the header of an answer takes, and the room that its writer looks for on the way. */
const HEADER_ROOM = 1024;

const GROUP_SYS_FLAG = Buffer.from('"groupSysFlag":"');
const MAX_OFFSET = Buffer.from('"maxOffset":"');
const MIN_OFFSET = Buffer.from('"minOffset":"');
const NEXT_BEGIN_OFFSET = Buffer.from('"nextBeginOffset":"');
const OFFSET_DELTA = Buffer.from('"offsetDelta":"');
const SUGGESTED_BROKER = Buffer.from('"suggestWhichBrokerId":"');
const TOPIC_SYS_FLAG = Buffer.from('"topicSysFlag":"');

export class PullMessageProcessor {
  readonly #context: BrokerContext;
  readonly #checks: PullChecks;
  readonly #filters: PullFilters;
  readonly #hold: PullRequestHold;
  #result = new GetResult();
  /** Results of pulls that had to wait for the disk, to be used again. */
  readonly #spareResults: GetResult[] = [];

  constructor(context: BrokerContext, hold: PullRequestHold) {
    this.#context = context;
    this.#checks = new PullChecks(context);
    this.#filters = new PullFilters(context);
    this.#hold = hold;
  }

  register(registry: HandlerRegistry): void {
    registry.register(RequestCode.PULL_MESSAGE, (request) => this.#handle(request));
    registry.register(RequestCode.LITE_PULL_MESSAGE, (request) => this.#handle(request));
  }

  #handle(request: Request): void {
    const { header } = request;
    const detail = staticTopicOf(this.#context.mappings, header);
    if (detail === undefined) this.#pull(request, undefined);
    else this.#pullStatic(request, detail);
  }

  /** A pull from a logic queue: from the place of its that lies here, or from another broker. */
  #pullStatic(request: Request, detail: TopicQueueMappingDetail): void {
    const { header } = request;
    const logic = logicQueueOf(detail, header.int('queueId'));
    if (logic.leader === undefined) {
      const remark = `${detail.topic}-${logic.globalId} cannot find mapping item in request process of current broker ${detail.bname}`;
      request.respond(ResponseCode.NOT_LEADER_FOR_QUEUE, remark);
      return;
    }
    const mapped = new MappedPull(logic, header.long('queueOffset'));
    if (mapped.isHere) {
      this.#pull(request, mapped);
      return;
    }
    const group = header.required('consumerGroup');
    const { queueId } = logic.leader;
    const refusal = this.#checks.refusalOf(request.code, group, detail.topic, queueId, request.channel.remoteAddress);
    if (refusal !== undefined) {
      const { code, remark, forbiddenType } = refusal;
      request.respond(code, remark, { forbiddenType });
      return;
    }
    if ((header.int('sysFlag') & COMMIT_OFFSET) !== 0) {
      this.#commitLogic(request, mapped, group, header.longOr('commitOffset', 0));
    }
    forwardPull(this.#context, request, mapped);
  }

  /** RocketMQ: takes the logic offset for one of the queue. */
  #commitLogic(request: Request, mapped: MappedPull, group: string, logicOffset: number): void {
    const { offsets } = this.#context;
    const place = mapped.committed(logicOffset);
    const { topic } = mapped.queue.detail;
    if (place === undefined || offsets.hasReset(group, topic, place.queueId)) return;
    offsets.commit(request.channel.remoteAddress, group, topic, place.queueId, place.offset);
  }

  /** `mapped`: the place of a logic queue that is read. */
  #pull(request: Request, mapped: MappedPull | undefined): void {
    const { header } = request;
    const { config } = this.#context;
    const checks = this.#checks;
    const filters = this.#filters;
    const group = header.required('consumerGroup');
    const topic = header.required('topic');
    const queueId = mapped === undefined ? header.int('queueId') : mapped.item.queueId;
    const offset = mapped === undefined ? header.long('queueOffset') : mapped.queueOffset;
    const most = header.int('maxMsgNums');
    const maxMessages = mapped === undefined ? most : mapped.limit(most);
    const sysFlag = header.int('sysFlag');
    // RocketMQ: those three are 0 in a request without them.
    const commitOffset = header.longOr('commitOffset', 0);
    const suspendMs = header.longOr('suspendTimeoutMillis', 0);
    const subVersion = header.longOr('subVersion', 0);
    const ofGroup = (sysFlag & SUBSCRIPTION) === 0;
    const refusal =
      checks.refusalOf(request.code, group, topic, queueId, request.channel.remoteAddress) ??
      (ofGroup
        ? this.#refusalOfGroup(group, topic, subVersion)
        : filters.refusalOfSent(topic, header.get('subscription'), header.get('expressionType')));
    if (!ofGroup) restAfter(request.channel, this.#context.clock, filters.compiledChars);
    if (refusal !== undefined) {
      const { code, remark, forbiddenType } = refusal;
      request.respond(code, remark, { forbiddenType });
      return;
    }

    const commits = (sysFlag & COMMIT_OFFSET) !== 0;
    if (commits && mapped !== undefined) this.#commitLogic(request, mapped, group, commitOffset);
    const maxBytes = Math.min(MAX_PULL_BYTES, Math.max(100, header.intOr('maxMsgBytes', MAX_PULL_BYTES)));
    const now = this.#context.clock.now();
    const canSuspend = (sysFlag & SUSPEND) !== 0;
    const waitMs = config.longPollingEnable ? suspendMs : config.shortPollingTimeMills;
    const pull = new Pull(this, request, {
      group,
      topic,
      queueId,
      offset,
      maxMessages,
      maxBytes,
      filter: filters.filter,
      ofGroup,
      subVersion,
      commitOffset: commits && mapped === undefined ? commitOffset : -1,
      deadline: canSuspend && !request.oneway ? now + waitMs : 0,
      topicSysFlag: checks.topic.topicSysFlag,
      groupSysFlag: checks.group.groupSysFlag,
      brokerId: checks.group.brokerId,
      slowBrokerId: checks.group.whichBrokerWhenConsumeSlowly,
      askedTopic: topic,
      broadcaster: undefined,
      fromProxy: false,
      mapped,
    });
    if (config.enableBroadcastOffsetStore) this.#noteBroadcaster(request, pull.wants);
    const lightQueue = header.get('liteTopic');
    if (lightQueue !== undefined && lightQueue.trim() !== '') pull.wants.topic = lightQueueOf(topic, lightQueue);
    request.takeOver();
    pull.run(true);
  }

  /** Who it is that pulls, if it is a client of a broadcasting group: itself, or behind a proxy. RocketMQ: isBroadcast. */
  #noteBroadcaster(request: Request, wants: PullWants): void {
    wants.fromProxy = request.header.intOr('requestSource', -1) === PROXY_FOR_BROADCAST;
    if (wants.fromProxy) {
      wants.broadcaster = request.header.get('proxyFrowardClientId');
      return;
    }
    const info = this.#context.consumers.find(wants.group);
    if (info === undefined || !info.isBroadcasting || info.behaviour.consumeType !== 'CONSUME_PASSIVELY') return;
    wants.broadcaster = info.channels.get(request.channel)?.clientId;
  }

  /** Goes on with a pull that waited. What has been forbidden meanwhile is forbidden for it, too, and what its group subscribes to now counts. */
  resume(pull: Pull): void {
    const { wants } = pull;
    if (wants.mapped !== undefined && this.#context.mappings.find(wants.askedTopic) !== wants.mapped.queue.detail) {
      // Its queue lies elsewhere now.
      pull.answer(ResponseCode.PULL_RETRY_IMMEDIATELY, 'the topic is mapped anew', wants.mapped.samePlace());
      return;
    }
    const { group, askedTopic, queueId, subVersion } = wants;
    const refusal =
      this.#checks.refusalOf(pull.requestCode, group, askedTopic, queueId, pull.channel.remoteAddress) ??
      (wants.ofGroup ? this.#refusalOfGroup(group, askedTopic, subVersion) : undefined);
    if (refusal !== undefined) {
      const { code, remark, forbiddenType } = refusal;
      pull.answer(code, remark, { forbiddenType });
      return;
    }
    if (wants.ofGroup) wants.filter = this.#filters.filter;
    this.step(pull, false);
  }

  /** Of a pull that `#checks` let through. */
  #refusalOfGroup(group: string, topic: string, subVersion: number): PullRefusal | undefined {
    return this.#filters.refusalOfGroup(group, topic, subVersion, this.#checks.group.consumeBroadcastEnable);
  }

  /** Sets a result that sends the client elsewhere in the queue. */
  #moveTo(pull: Pull, result: GetResult, offset: number): void {
    const { topic, queueId } = pull.wants;
    result.status = GetMessageStatus.OFFSET_RESET;
    result.nextBeginOffset = offset as GetResult['nextBeginOffset'];
    result.minOffset = this.#context.store.minOffsetInQueue(topic, queueId);
    result.maxOffset = this.#context.store.maxOffsetInQueue(topic, queueId);
    result.count = 0;
    result.totalBytes = 0;
    result.suggestPullingFromSlave = false;
  }

  /** Where a broadcasting client is to begin; -1: where it asks for. Undefined: the queue is looked at first, and the pull comes again. */
  #initialOffset(pull: Pull): number | undefined {
    const { wants } = pull;
    const { store, broadcasts } = this.#context;
    if (wants.broadcaster === undefined) return -1;
    const { askedTopic, group, queueId, broadcaster, offset, fromProxy } = wants;
    const initial = broadcasts.initial(askedTopic, group, queueId, broadcaster, offset, fromProxy);
    if (initial !== InitialOffset.OF_QUEUE) return initial;
    if (pull.youngQueue !== undefined) return pull.youngQueue ? 0 : store.maxOffsetInQueue(askedTopic, queueId);
    isYoungQueue(store, askedTopic, queueId).then(
      (isYoung) => {
        pull.youngQueue = isYoung;
        this.step(pull, true);
      },
      (error: Error) => pull.answer(ResponseCode.SYSTEM_ERROR, `the store cannot be read: ${error.message}`),
    );
    return undefined;
  }

  /** One step of a pull: answers it, holds it, or waits for bytes and comes again. */
  step(pull: Pull, mayHold: boolean): void {
    const { wants } = pull;
    const { config, store, offsets, stats } = this.#context;
    const result = this.#result;
    const again = (error?: GantryError): void => {
      if (error === undefined) this.step(pull, mayHold);
      else pull.answer(ResponseCode.SYSTEM_ERROR, `the store cannot be read: ${error.message}`);
    };
    if (!pull.isWanted) {
      pull.forget();
      return;
    }
    // One that is left from before the setting was turned off is taken, too, and moves nobody, as in RocketMQ.
    const taken = offsets.takeReset(wants.group, wants.askedTopic, wants.queueId);
    const reset = config.useServerSideResetOffset ? taken : -1;
    const moved = reset >= 0 || wants.broadcaster === undefined ? reset : this.#initialOffset(pull);
    if (moved === undefined) return;
    if (moved >= 0) this.#moveTo(pull, result, moved);
    else if (!store.select(wants, result, again)) return;
    else if (this.#isHeldUp(pull, result)) return;
    // RocketMQ: the pull that is told of a reset undoes it by the offset that it brings along, until its client has acted on the answer.
    if (mayHold && wants.commitOffset >= 0 && reset < 0) {
      offsets.commit(pull.channel.remoteAddress, wants.group, wants.askedTopic, wants.queueId, wants.commitOffset);
      wants.commitOffset = -1;
    }
    if (wants.broadcaster !== undefined) this.#noteBroadcastOffset(wants, result);
    if (result.status === GetMessageStatus.FOUND) {
      const entry = offsets.commitPull(wants.group, wants.askedTopic, wants.queueId, result.nextBeginOffset);
      if (config.disableConsumeIfConsumerReadSlowly) this.#noteBehind(wants, result);
      this.#found(pull, result, entry);
      return;
    }
    stats.getMissed++;
    const ofQueue = pullCode(result.status, wants.offset);
    const code = wants.mapped === undefined ? ofQueue : wants.mapped.placeOf(ofQueue, result).code;
    if (code === ResponseCode.PULL_NOT_FOUND && mayHold && wants.deadline > this.#context.clock.now()) {
      this.#hold.hold(pull);
      return;
    }
    offsets.commitPull(wants.group, wants.askedTopic, wants.queueId, result.nextBeginOffset);
    this.#answer(pull, code, result);
  }

  /** RocketMQ: updateBroadcastPulledOffset. What was asked for is what the client has come to. */
  #noteBroadcastOffset(wants: PullWants, result: GetResult): void {
    const isMoved = pullCode(result.status, wants.offset) === ResponseCode.PULL_OFFSET_MOVED;
    const offset = isMoved ? result.nextBeginOffset : wants.offset;
    const { askedTopic, group, queueId, fromProxy } = wants;
    this.#context.broadcasts.update(askedTopic, group, queueId, offset, wants.broadcaster!, fromProxy);
  }

  #noteBehind(wants: PullWants, result: GetResult): void {
    const { slowConsumers, store } = this.#context;
    // Places in a compaction log say nothing about the CommitLog.
    if (result.elsewhere !== undefined) return;
    const bytes = store.watermarks.wrote - result.positions[result.count - 1]!;
    slowConsumers.note(wants.group, wants.askedTopic, wants.queueId, bytes);
  }

  /** Whether a pull of old data is refused, or waits, since its group has read too much of it. RocketMQ: PullMessageProcessor. */
  #isHeldUp(pull: Pull, result: GetResult): boolean {
    const { coldData, consumers, store } = this.#context;
    const { group } = pull.wants;
    if (!coldData.isHeldUp(group) || result.firstPosition < 0 || !store.isCold(result.firstPosition)) return false;
    const type = consumers.find(group)?.behaviour.consumeType;
    if (type === 'CONSUME_ACTIVELY') {
      if (pull.hasBeenCold) {
        if (pull.wants.maxMessages === 1) return false;
        // RocketMQ: after the wait, one message at a time.
        pull.wants.maxMessages = 1;
        pull.run(false);
        return true;
      }
      pull.hasBeenCold = true;
      if (coldData.hold(pull)) return true;
    } else if (type !== 'CONSUME_PASSIVELY') return false;
    pull.answer(ResponseCode.SYSTEM_BUSY, 'This consumer group is reading cold data. It has been flow control');
    return true;
  }

  /** Writes the records behind their header, copied once; what must come from disk first is waited for on the way. */
  #found(pull: Pull, result: GetResult, entry: GroupOffsets): void {
    const writer = new FrameWriter(pull.channel.slabs);
    writer.ensure(HEADER_ROOM + result.totalBytes);
    this.#header(writer, ResponseCode.SUCCESS, pull, result);
    const at = writer.reserve(result.totalBytes);
    const copy = (error?: GantryError): void => {
      if (error !== undefined) {
        const { copied } = result;
        this.#keepResult(result);
        if (error.code === 'REMOVED') {
          // Retention was quicker: the pull is told where the queue begins now.
          this.step(pull, false);
        } else if (copied > 0) {
          // What lies before the fault is an answer; the next pull begins at it.
          pull.wants.maxMessages = copied;
          pull.run(false);
        } else pull.answer(ResponseCode.SYSTEM_ERROR, `the store cannot be read: ${error.message}`);
      } else if (this.#context.store.copyRecords(result, writer.bytes, at, copy)) {
        this.#keepResult(result);
        if (result.count === 0) {
          // Damaged, all of them: the client goes on behind.
          this.#context.stats.getMissed++;
          this.#answer(pull, pullCode(result.status, 0), result);
          return;
        }
        this.#count(result, entry);
        writer.length = at + result.totalBytes;
        writer.endFrame();
        const { bytes, slab } = writer.take();
        pull.send(bytes, slab);
      } else if (this.#result === result) {
        // This pull goes on with the result; others get one of their own.
        this.#result = this.#spareResults.pop() ?? new GetResult();
      }
    };
    copy();
  }

  /** Counts what an answer hands out: a pull that is answered in part, or comes again, counts once. */
  #count(result: GetResult, entry: GroupOffsets): void {
    const { stats, traffic, coldData } = this.#context;
    const messages = result.count + result.batched;
    entry.got ??= traffic.gets.of(traffic.groupKey(entry.topic, entry.group));
    entry.got.messages += messages;
    entry.got.bytes += result.totalBytes;
    entry.got.requests++;
    stats.getFound++;
    stats.getMessages += messages;
    if (result.coldBytes > 0) coldData.add(entry.group, result.coldBytes);
  }

  #keepResult(result: GetResult): void {
    if (result !== this.#result && this.#spareResults.length < SPARE_RESULTS) this.#spareResults.push(result);
  }

  #suggestedBroker(wants: PullWants, result: GetResult): number {
    if (!this.#context.config.slaveReadEnable) return MASTER_ID;
    return result.suggestPullingFromSlave ? wants.slowBrokerId : wants.brokerId;
  }

  /** An answer without messages. */
  #answer(pull: Pull, code: number, result: GetResult): void {
    const writer = new FrameWriter();
    this.#header(writer, code, pull, result);
    writer.endFrame();
    pull.send(writer.take().bytes);
  }

  /** The header of an answer that says where the queue stands. */
  #header(writer: FrameWriter, code: number, { opaque, wants }: Pull, result: GetResult): void {
    const { mapped } = wants;
    const place = mapped === undefined ? result : mapped.placeOf(code, result);
    writer.begin(code, opaque);
    writer.numberAfter(GROUP_SYS_FLAG, wants.groupSysFlag);
    writer.numberAfter(MAX_OFFSET, place.maxOffset);
    writer.numberAfter(MIN_OFFSET, place.minOffset);
    writer.numberAfter(NEXT_BEGIN_OFFSET, place.nextBeginOffset);
    if (mapped !== undefined) writer.numberAfter(OFFSET_DELTA, mapped.offsetDelta);
    writer.numberAfter(SUGGESTED_BROKER, this.#suggestedBroker(wants, result));
    writer.numberAfter(TOPIC_SYS_FLAG, wants.topicSysFlag);
    writer.endHeader(getStatusName(result.status));
  }
}

/** What a pull asks for; `topic` is the queue's in the store, which may be a light one. */
interface PullWants extends GetRequest {
  group: string;
  /** The topic that the request names: permissions and offsets go by it. */
  askedTopic: string;
  /** It goes by the group's subscription rather than by one of its own. */
  ofGroup: boolean;
  /** The subscription's version that its client knows. */
  subVersion: number;
  /** With `slaveReadEnable`: whom the group is to ask next, and whom when what it reads is no longer in memory. */
  brokerId: number;
  slowBrokerId: number;
  /** Client of a broadcasting group whose offsets are kept; undefined for all others. */
  broadcaster: string | undefined;
  fromProxy: boolean;
  /** Offset to commit with the pull, -1 for none. */
  commitOffset: number;
  /** Until when it may wait; 0: not at all. */
  deadline: number;
  topicSysFlag: number;
  groupSysFlag: number;
  /** Of a static topic: the place that is read. */
  mapped: MappedPull | undefined;
}

/** A pull under way. */
class Pull implements HeldPull, ColdPull {
  /** It has waited for its group to read less. */
  hasBeenCold = false;
  /** Whether its queue's first message is recent, once that has been looked up. */
  youngQueue: boolean | undefined;
  readonly requestCode: number;
  isDue = false;
  readonly channel: Channel;
  readonly opaque: number;
  readonly wants: PullWants;
  readonly #processor: PullMessageProcessor;
  readonly #oneway: boolean;

  constructor(processor: PullMessageProcessor, request: Request, wants: PullWants) {
    this.#processor = processor;
    this.requestCode = request.code;
    this.channel = request.channel;
    this.opaque = request.opaque;
    this.#oneway = request.oneway;
    this.wants = wants;
  }

  get topic(): string {
    return this.wants.topic;
  }
  get queueId(): number {
    return this.wants.queueId;
  }
  get offset(): number {
    return this.wants.offset;
  }
  get filter(): TagFilter {
    return this.wants.filter;
  }
  get deadline(): number {
    return this.wants.deadline;
  }
  get isWanted(): boolean {
    return this.channel.isOpen;
  }

  run(mayHold: boolean): void {
    this.#processor.step(this, mayHold);
  }

  resume(): void {
    this.#processor.resume(this);
  }

  forget(): void {
    this.channel.drop(1);
  }

  answer(code: number, remark: string, fields: ExtFields = {}): void {
    const writer = new FrameWriter();
    writer.response(code, this.opaque, remark, fields);
    this.send(writer.take().bytes);
  }

  /** Sends the answer; whoever asked one way gets none. */
  send(frame: Uint8Array, slab?: Buffer): void {
    if (this.#oneway) this.channel.drop(1);
    else this.channel.send(frame, 1, slab);
  }
}

/** RocketMQ: composeResponseHeader. */
function pullCode(status: GetMessageStatus, offset: number): number {
  switch (status) {
    case GetMessageStatus.FOUND:
      return ResponseCode.SUCCESS;
    case GetMessageStatus.MESSAGE_WAS_REMOVING:
    case GetMessageStatus.NO_MATCHED_MESSAGE:
      return ResponseCode.PULL_RETRY_IMMEDIATELY;
    case GetMessageStatus.NO_MATCHED_LOGIC_QUEUE:
    case GetMessageStatus.NO_MESSAGE_IN_QUEUE:
      return offset !== 0 ? ResponseCode.PULL_OFFSET_MOVED : ResponseCode.PULL_NOT_FOUND;
    case GetMessageStatus.OFFSET_FOUND_NULL:
    case GetMessageStatus.OFFSET_OVERFLOW_ONE:
      return ResponseCode.PULL_NOT_FOUND;
    default:
      return ResponseCode.PULL_OFFSET_MOVED;
  }
}
