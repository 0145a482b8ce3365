// PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361). RocketMQ: PullMessageProcessor.
//
//   checks ─► select (positions) ─► answer's header ─► copyRecords, straight into the answer
//                │ nothing there, and the client may wait ─► held until an arrival or its time (longpolling/)
//                └ bytes must come from disk first ─► the same pull again when they are there
//
// One object per pull, none per message.

import type { GantryError } from '../../common/index.ts';
import { buildSubscription, isTagType, MATCH_ALL, tagFilterOf } from '../../filter/index.ts';
import { type Channel, FrameWriter, type Request, RequestCode, ResponseCode } from '../../remoting/index.ts';
import { GetMessageStatus, type GetRequest, GetResult, getStatusName, type TagFilter } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import type { ColdPull } from '../colddata/cold-data-control.ts';
import type { HeldPull, PullRequestHold } from '../longpolling/pull-request-hold.ts';
import { FORBIDDEN_READ } from '../subscription/subscription-group-manager.ts';
import { isReadable } from '../topic/topic-config.ts';
import type { HandlerRegistry } from './registry.ts';

/** RocketMQ: PullSysFlag. */
const COMMIT_OFFSET = 1;
const SUSPEND = 2;
const SUBSCRIPTION = 4;

/** RocketMQ: ForbiddenType. */
const Forbidden = { BROKER: 1, GROUP: 2, TOPIC: 3, BROADCASTING: 4, SUBSCRIPTION: 5 } as const;

/** A pull takes at most this many bytes, whatever it asks for. */
const MAX_PULL_BYTES = 128 * 1024 * 1024;
const SPARE_RESULTS = 64;

/** More than the header of an answer takes, and the room that its writer looks for on the way. */
const HEADER_ROOM = 1024;

const GROUP_SYS_FLAG = Buffer.from('"groupSysFlag":"');
const MAX_OFFSET = Buffer.from('"maxOffset":"');
const MIN_OFFSET = Buffer.from('"minOffset":"');
const NEXT_BEGIN_OFFSET = Buffer.from('"nextBeginOffset":"');
const SUGGESTED_BROKER = Buffer.from('"suggestWhichBrokerId":"');
const TOPIC_SYS_FLAG = Buffer.from('"topicSysFlag":"');

export class PullMessageProcessor {
  readonly #context: BrokerContext;
  readonly #hold: PullRequestHold;
  #result = new GetResult();
  /** Results of pulls that had to wait for the disk, to be used again. */
  readonly #spareResults: GetResult[] = [];
  /** Filters of subscription texts that came with pulls, so that a text is parsed once. */
  readonly #filters = new Map<string, TagFilter>();

  constructor(context: BrokerContext, hold: PullRequestHold) {
    this.#context = context;
    this.#hold = hold;
  }

  register(registry: HandlerRegistry): void {
    registry.register(RequestCode.PULL_MESSAGE, (request) => this.#handle(request));
    registry.register(RequestCode.LITE_PULL_MESSAGE, (request) => this.#handle(request));
  }

  #handle(request: Request): void {
    const { header } = request;
    const { config, groups, topics } = this.#context;
    const group = header.required('consumerGroup');
    const topic = header.required('topic');
    const queueId = header.int('queueId');
    const offset = header.long('queueOffset');
    const maxMessages = header.int('maxMsgNums');
    const sysFlag = header.int('sysFlag');
    const commitOffset = header.long('commitOffset');
    const suspendMs = header.long('suspendTimeoutMillis');
    const subVersion = header.long('subVersion');
    const refuse = (code: number, remark: string, forbiddenType?: number): void => {
      request.respond(code, remark, forbiddenType === undefined ? {} : { forbiddenType });
    };

    if (!isReadable(config.brokerPermission)) {
      return refuse(
        ResponseCode.NO_PERMISSION,
        `the broker[${config.brokerIP1}] pulling message is forbidden`,
        Forbidden.BROKER,
      );
    }
    if (request.code === RequestCode.LITE_PULL_MESSAGE && !config.litePullMessageEnable) {
      return refuse(
        ResponseCode.NO_PERMISSION,
        `the broker[${config.brokerIP1}] for lite pull consumer is forbidden`,
        Forbidden.BROKER,
      );
    }
    const groupConfig = groups.findOrCreate(group);
    if (groupConfig === undefined) {
      return refuse(
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        `subscription group [${group}] does not exist (autoCreateSubscriptionGroup is false; create it with mqadmin updateSubGroup)`,
      );
    }
    if (!groupConfig.consumeEnable) {
      return refuse(ResponseCode.NO_PERMISSION, `subscription group no permission, ${group}`, Forbidden.GROUP);
    }
    const topicConfig = topics.select(topic);
    if (topicConfig === undefined) {
      return refuse(ResponseCode.TOPIC_NOT_EXIST, `topic[${topic}] not exist, apply first please!`);
    }
    if (!isReadable(topicConfig.perm)) {
      return refuse(ResponseCode.NO_PERMISSION, `the topic[${topic}] pulling message is forbidden`, Forbidden.TOPIC);
    }
    if (queueId < 0 || queueId >= topicConfig.readQueueNums) {
      return refuse(
        ResponseCode.INVALID_PARAMETER,
        `queueId[${queueId}] is illegal, topic:[${topic}] topicConfig.readQueueNums:[${topicConfig.readQueueNums}] consumer:[${request.channel.remoteAddress}]`,
      );
    }

    let filter: TagFilter;
    if ((sysFlag & SUBSCRIPTION) !== 0) {
      const found = this.#sentFilter(topic, header.get('subscription'), header.get('expressionType'), refuse);
      if (found === undefined) return;
      filter = found;
    } else {
      const found = this.#groupFilter(group, topic, subVersion, groupConfig.consumeBroadcastEnable, refuse);
      if (found === undefined) return;
      filter = found;
    }

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
      filter,
      commitOffset: (sysFlag & COMMIT_OFFSET) !== 0 ? commitOffset : -1,
      deadline: canSuspend && !request.oneway ? now + waitMs : 0,
      topicSysFlag: topicConfig.topicSysFlag,
      groupSysFlag: groupConfig.groupSysFlag,
    });
    request.takeOver();
    pull.run(true);
  }

  #sentFilter(
    topic: string,
    expression: string | undefined,
    expressionType: string | undefined,
    refuse: (code: number, remark: string) => void,
  ): TagFilter | undefined {
    if (!isTagType(expressionType)) {
      refuse(ResponseCode.SYSTEM_ERROR, `The broker does not support consumer to filter message by ${expressionType}`);
      return undefined;
    }
    const text = expression ?? '*';
    if (text === '*' || text === '') return MATCH_ALL;
    let filter = this.#filters.get(text);
    if (filter === undefined) {
      try {
        filter = tagFilterOf(buildSubscription(topic, text, expressionType));
      } catch (error) {
        refuse(
          ResponseCode.SUBSCRIPTION_PARSE_FAILED,
          `parse the consumer's subscription failed: ${(error as Error).message}`,
        );
        return undefined;
      }
      if (this.#filters.size >= 10_000) this.#filters.clear();
      // Longer ones are no client's habit, and many of them would fill the memory.
      if (text.length <= 1024) this.#filters.set(text, filter);
    }
    return filter;
  }

  #groupFilter(
    group: string,
    topic: string,
    subVersion: number,
    broadcastEnabled: boolean,
    refuse: (code: number, remark: string, forbiddenType?: number) => void,
  ): TagFilter | undefined {
    const { consumers, groups } = this.#context;
    const info = consumers.find(group);
    if (info === undefined) {
      refuse(
        ResponseCode.SUBSCRIPTION_NOT_EXIST,
        `the consumer's group info not exist, group: ${group} has sent no heartbeat here`,
      );
      return undefined;
    }
    if (!broadcastEnabled && info.isBroadcasting) {
      refuse(
        ResponseCode.NO_PERMISSION,
        `the consumer group[${group}] can not consume by broadcast way`,
        Forbidden.BROADCASTING,
      );
      return undefined;
    }
    if (groups.isForbidden(group, topic, FORBIDDEN_READ)) {
      refuse(
        ResponseCode.NO_PERMISSION,
        `the consumer group[${group}] is forbidden for topic[${topic}]`,
        Forbidden.SUBSCRIPTION,
      );
      return undefined;
    }
    const subscription = info.subscriptions.get(topic);
    if (subscription === undefined) {
      refuse(
        ResponseCode.SUBSCRIPTION_NOT_EXIST,
        `the consumer's subscription not exist, group: ${group}, topic: ${topic}`,
      );
      return undefined;
    }
    if (subscription.data.subVersion < subVersion) {
      refuse(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest");
      return undefined;
    }
    return subscription.filter;
  }

  /** One step of a pull: answers it, holds it, or waits for bytes and comes again. */
  step(pull: Pull, mayHold: boolean): void {
    const { wants } = pull;
    const { store, offsets, stats, coldData } = this.#context;
    const result = this.#result;
    const again = (error?: GantryError): void => {
      if (error === undefined) this.step(pull, mayHold);
      else pull.answer(ResponseCode.SYSTEM_ERROR, `the store cannot be read: ${error.message}`);
    };
    if (!pull.isWanted) {
      pull.forget();
      return;
    }
    const reset = offsets.takeReset(wants.group, wants.topic, wants.queueId);
    if (reset >= 0) {
      result.status = GetMessageStatus.OFFSET_RESET;
      result.nextBeginOffset = reset as GetResult['nextBeginOffset'];
      result.minOffset = store.minOffsetInQueue(wants.topic, wants.queueId);
      result.maxOffset = store.maxOffsetInQueue(wants.topic, wants.queueId);
      result.count = 0;
      result.totalBytes = 0;
    } else if (!store.select(wants, result, again)) {
      return;
    } else if (this.#isHeldUp(pull, result)) {
      return;
    }
    if (mayHold && wants.commitOffset >= 0) {
      offsets.commit(pull.channel.remoteAddress, wants.group, wants.topic, wants.queueId, wants.commitOffset);
      wants.commitOffset = -1;
    }
    if (result.status === GetMessageStatus.FOUND) {
      offsets.commitPull(wants.group, wants.topic, wants.queueId, result.nextBeginOffset);
      this.#found(pull, result);
      stats.getFound++;
      stats.getMessages += result.count + result.batched;
      if (result.coldBytes > 0) coldData.add(wants.group, result.coldBytes);
      return;
    }
    stats.getMissed++;
    const code = pullCode(result.status, wants.offset);
    if (code === ResponseCode.PULL_NOT_FOUND && mayHold && wants.deadline > this.#context.clock.now()) {
      this.#hold.hold(pull);
      return;
    }
    offsets.commitPull(wants.group, wants.topic, wants.queueId, result.nextBeginOffset);
    pull.answer(code, getStatusName(result.status), this.#fields(pull, result));
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
  #found(pull: Pull, result: GetResult): void {
    const writer = new FrameWriter(pull.channel.slabs);
    writer.ensure(HEADER_ROOM + result.totalBytes);
    writer.begin(ResponseCode.SUCCESS, pull.opaque);
    // What `#fields` says, in its order.
    writer.numberAfter(GROUP_SYS_FLAG, pull.wants.groupSysFlag);
    writer.numberAfter(MAX_OFFSET, result.maxOffset);
    writer.numberAfter(MIN_OFFSET, result.minOffset);
    writer.numberAfter(NEXT_BEGIN_OFFSET, result.nextBeginOffset);
    writer.numberAfter(SUGGESTED_BROKER, 0);
    writer.numberAfter(TOPIC_SYS_FLAG, pull.wants.topicSysFlag);
    writer.endHeader('FOUND');
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
          pull.answer(pullCode(result.status, 0), getStatusName(result.status), this.#fields(pull, result));
          return;
        }
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

  #keepResult(result: GetResult): void {
    if (result !== this.#result && this.#spareResults.length < SPARE_RESULTS) this.#spareResults.push(result);
  }

  #fields(pull: Pull, result: GetResult): Record<string, number> {
    return {
      groupSysFlag: pull.wants.groupSysFlag,
      maxOffset: result.maxOffset,
      minOffset: result.minOffset,
      nextBeginOffset: result.nextBeginOffset,
      suggestWhichBrokerId: 0,
      topicSysFlag: pull.wants.topicSysFlag,
    };
  }
}

/** What a pull asks for. */
interface PullWants extends GetRequest {
  group: string;
  /** Offset to commit with the pull, -1 for none. */
  commitOffset: number;
  /** Until when it may wait; 0: not at all. */
  deadline: number;
  topicSysFlag: number;
  groupSysFlag: number;
}

/** A pull under way. */
class Pull implements HeldPull, ColdPull {
  /** It has waited for its group to read less. */
  hasBeenCold = false;
  readonly channel: Channel;
  readonly opaque: number;
  readonly wants: PullWants;
  readonly #processor: PullMessageProcessor;
  readonly #oneway: boolean;

  constructor(processor: PullMessageProcessor, request: Request, wants: PullWants) {
    this.#processor = processor;
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
    this.run(false);
  }

  forget(): void {
    this.channel.drop(1);
  }

  answer(code: number, remark: string, fields: Record<string, number> = {}): void {
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
