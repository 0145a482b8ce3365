// SEND_MESSAGE (10), SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320): the path that carries the load. RocketMQ: SendMessageProcessor.
//
//   scanned header ─► SendHeader ─► topic (SendTopics, by its bytes) ─► properties: read, completed, in Java's order
//        └─ nothing to rewrite ─► store.put ─► answer encoded, parked until its watermark      (fast: this file)
//        └─ half of a transaction ─► the same with three properties more, for another topic    (transaction/half-sends.ts)
//        └─ names of light queues ─► the same, and the store gives the record its places there    (lite/light-sends.ts)
//        └─ delay, retry, priority, ... ─► the same message as an object ─► putInternal         (slow-sends.ts, same encoder)
//        └─ a batch above 256 KiB ─► encoded between other work ─► store.putBatch               (long-batch-sends.ts)
//
// No object is made per message on the fast way: header, properties, request and result are this processor's own, filled anew.

import {
  createOffsetMessageId,
  MAX_PROPERTIES_BYTES,
  type NameBytes,
  nameBytes,
  PropertyName,
  PropertyTable,
  SysFlag,
  type UniqueIds,
} from '../../message/index.ts';
import {
  type Channel,
  type FrameWriter,
  type HeldInput,
  type Request,
  RequestCode,
  type RequestHandler,
  ResponseCode,
} from '../../remoting/index.ts';
import { isBlankKey, PutMessageStatus, PutRequest, PutResult } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import type { SendDeduplication } from '../dedup/send-deduplication.ts';
import { parseDelayLevel } from '../internal-put.ts';
import { LightSends } from '../lite/light-sends.ts';
import { type LogicQueue, logicQueueOf, notLeaderText } from '../statictopic/mapping-context.ts';
import { looseLogicOffset } from '../statictopic/topic-queue-mapping.ts';
import { typeInTable } from '../topic/message-type.ts';
import { isWriteable } from '../topic/topic-config.ts';
import { HalfSends } from '../transaction/half-sends.ts';
import { BatchAnswer } from './batch-answer.ts';
import { HeldSends } from './held-sends.ts';
import { LONG_BATCH_BYTES, LongBatchSends } from './long-batch-sends.ts';
import type { HandlerRegistry } from './registry.ts';
import { SendAckPool } from './send-acks.ts';
import { SendAnswer } from './send-answer.ts';
import { SendHeader } from './send-header.ts';
import { isTooLate, refuse, refuseStatus } from './send-outcome.ts';
import { type SendTopic, SendTopics } from './send-topics.ts';
import { badDelayLevel, SlowSends } from './slow-sends.ts';
import { TurnAcks } from './turn-acks.ts';

/** Names whose presence means that there is something to rewrite or to refuse. */
const SPECIAL = new Set<string>([
  PropertyName.DELAY,
  PropertyName.TIMER_DELAY_SEC,
  PropertyName.TIMER_DELAY_MS,
  PropertyName.TIMER_DELIVER_MS,
  PropertyName.TIMER_DEL_UNIQKEY,
  PropertyName.TRAN_MSG,
  PropertyName.POP_CK,
  PropertyName.INNER_NUM,
  PropertyName.INNER_MULTI_DISPATCH,
  PropertyName.LITE_TOPIC,
  PropertyName.PRIORITY,
  PropertyName.CRC32,
]);

/** The buffers of longer bodies are given back. */
const LONG_BODY_BYTES = 64 * 1024;

export class SendMessageProcessor {
  readonly #context: BrokerContext;
  readonly #header = new SendHeader();
  readonly #table = new PropertyTable();
  readonly #put = new PutRequest();
  readonly #result = new PutResult();
  readonly #topics: SendTopics;
  readonly #slow: SlowSends;
  readonly #halves: HalfSends;
  readonly #lights: LightSends;
  readonly #uniqueIds: UniqueIds;
  readonly #held: HeldInput;
  readonly #unsaved: HeldSends;
  readonly #once: SendDeduplication | undefined;
  /** The logic queue that the send at hand goes to, if its topic is a static one. */
  #logic: LogicQueue | undefined;

  readonly #region: NameBytes = nameBytes(PropertyName.MSG_REGION);
  readonly #regionPair: Uint8Array;
  readonly #trace: NameBytes = nameBytes(PropertyName.TRACE_ON);
  readonly #tracePair: Uint8Array;
  readonly #cluster: NameBytes = nameBytes(PropertyName.CLUSTER);
  readonly #clusterPair: Uint8Array;
  readonly #uniqKey: NameBytes = nameBytes(PropertyName.UNIQ_KEY);
  /** UNIQ_KEY and an id of ours, filled anew for each message that comes without one. */
  readonly #uniqPair: Uint8Array;
  readonly #keys: NameBytes = nameBytes(PropertyName.KEYS);
  readonly #wait: NameBytes = nameBytes(PropertyName.WAIT);
  readonly #delay: NameBytes = nameBytes(PropertyName.DELAY);
  /** 1 where a hash's low byte belongs to a special name: one look per property rules out nearly all. */
  readonly #specialBytes = new Uint8Array(256);
  readonly #special: readonly NameBytes[];

  readonly #answer: SendAnswer;
  readonly #batchAnswer: BatchAnswer;
  readonly #longBatches: LongBatchSends;

  readonly #acks: TurnAcks;
  /** Of those that wait for the flush. */
  readonly #waitingAcks: TurnAcks;

  /** `held`: what the server says of requests that waited for the store; without it none did. `once`: knows what was sent before. */
  constructor(
    context: BrokerContext,
    uniqueIds: UniqueIds,
    held: HeldInput = { heldMs: 0, heldConnections: 0 },
    once?: SendDeduplication,
  ) {
    this.#context = context;
    this.#once = once;
    this.#held = held;
    this.#uniqueIds = uniqueIds;
    this.#topics = new SendTopics(context);
    this.#unsaved = new HeldSends(context);
    this.#slow = new SlowSends(context, uniqueIds, once, this.#unsaved);
    this.#longBatches = new LongBatchSends(context, this.#topics, once);
    const { config } = context;
    this.#regionPair = Buffer.from(`${PropertyName.MSG_REGION}\u0001${config.regionId}`);
    this.#tracePair = Buffer.from(`${PropertyName.TRACE_ON}\u0001${config.traceOn}`);
    this.#clusterPair = Buffer.from(`${PropertyName.CLUSTER}\u0001${config.brokerClusterName}`);
    this.#uniqPair = Buffer.from(`${PropertyName.UNIQ_KEY}\u0001${' '.repeat(uniqueIds.length)}`);
    this.#special = [...SPECIAL].map(nameBytes);
    for (const { hash } of this.#special) this.#specialBytes[hash & 0xff] = 1;
    this.#halves = new HalfSends(context, this.#special);
    this.#lights = new LightSends(context, this.#special);
    this.#answer = new SendAnswer(config.regionId, config.traceOn, context.storeHost);
    this.#batchAnswer = new BatchAnswer(config.regionId, config.traceOn, context.storeHost);
    const pool = new SendAckPool();
    this.#acks = new TurnAcks(context.store, pool, false);
    this.#waitingAcks = new TurnAcks(context.store, pool, true);
  }

  register(registry: HandlerRegistry): void {
    const once = this.#once;
    const handle = (v2: boolean): RequestHandler =>
      once === undefined
        ? (request) => this.#handle(request, v2)
        : (request) => {
            this.#result.status = PutMessageStatus.UNKNOWN_ERROR;
            this.#handle(request, v2);
            once.ended(this.#result, this.#put.queueId);
          };
    registry.register(RequestCode.SEND_MESSAGE, handle(false));
    registry.register(RequestCode.SEND_MESSAGE_V2, handle(true));
    registry.register(RequestCode.SEND_BATCH_MESSAGE, handle(true));
  }

  #handle(request: Request, v2: boolean): void {
    if (this.#held.heldMs !== 0 && isTooLate(this.#context, request, this.#held)) return;
    const header = this.#header;
    header.read(request.header, v2);
    const topic = this.#topics.find(header);
    if (topic.mapping !== undefined && !this.#toPhysicalQueue(request, header, topic)) return;
    if (!this.#check(request, header, topic)) return;
    if (request.bodyEnd === request.bodyStart) {
      refuse(this.#context, request, ResponseCode.MESSAGE_ILLEGAL, 'the message body is empty');
      return;
    }
    let queueId = header.queueId;
    if (queueId < 0) queueId = this.#context.random.int(Math.max(1, topic.config!.writeQueueNums));

    const sentBytes = header.propertiesEnd - header.propertiesStart;
    if (sentBytes > MAX_PROPERTIES_BYTES) {
      const reason = `the properties have ${sentBytes} bytes, the limit is ${MAX_PROPERTIES_BYTES}`;
      refuseStatus(this.#context, request, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED, reason);
      return;
    }
    const table = this.#table;
    table.read(header.properties, header.propertiesStart, header.propertiesEnd);
    if (topic.expectedType !== undefined && !this.#isOfType(request, topic.expectedType)) return;
    if (this.#once?.begin(request, header, topic, table) === true) return;
    const sysFlag = topic.isMultiTag ? header.sysFlag | SysFlag.MULTI_TAGS : header.sysFlag;
    if (header.batch) {
      this.#sendBatch(request, header, topic, queueId, sysFlag);
      return;
    }
    if (topic.needsKey && isBlankKey(table.get(this.#keys))) {
      refuse(this.#context, request, ResponseCode.MESSAGE_ILLEGAL, 'Required message key is missing');
      return;
    }
    let half = false;
    let light = false;
    if (topic.isSlow || (sysFlag & SysFlag.INNER_BATCH) !== 0 || this.#isSpecial()) {
      half = !topic.isSlow && this.#halves.takes(table, sysFlag);
      light = !half && !topic.isSlow && (sysFlag & SysFlag.INNER_BATCH) === 0 && this.#lights.takes(table);
      if (!half && !light) {
        this.#slow.send(request, header, topic, queueId, sysFlag, this.#logicOf(topic));
        return;
      }
    }
    const refusal = light ? this.#lights.rewrite(table, topic.name) : undefined;
    if (refusal !== undefined) {
      refuse(this.#context, request, refusal.code, refusal.remark);
      return;
    }
    table.putPair(this.#region, this.#regionPair);
    table.putPair(this.#trace, this.#tracePair);
    let uniqKey = table.find(this.#uniqKey);
    if (uniqKey < 0) {
      uniqKey = table.count;
      const pair = this.#uniqPair;
      this.#uniqueIds.writeNext(this.#context.clock.now(), pair, pair.length - this.#uniqueIds.length);
      table.putPair(this.#uniqKey, pair);
    }
    table.putPair(this.#cluster, this.#clusterPair);

    const put = this.#put;
    this.#fill(put, request, header, topic, queueId, sysFlag);
    put.flag = header.flag;
    put.propertyTable = table;
    if (half) this.#halves.rewrite(put, table, uniqKey, topic.bytes);
    put.batch = false;
    put.plain = !light;
    put.waitStoreMsgOK = this.#waits();
    const result = this.#result;
    const { store, stats } = this.#context;
    store.put(put, result);
    if (result.status !== PutMessageStatus.PUT_OK) {
      refuseStatus(this.#context, request, result.status, result.reason);
      return;
    }
    stats.stored(half ? this.#halves.stored(topic.name) : topic.puts, result);
    // The record has the bytes now. The answer below still reads the header, before anything else can use the memory.
    if (result.wroteBytes > LONG_BODY_BYTES) request.keepBody().release();
    if (request.oneway) return;
    request.takeOver();
    this.#acknowledge(this.#writerOf(request.channel), request.opaque, queueId, result, uniqKey);
  }

  /** The topic of a send that is stored by somebody else, after the same checks; undefined if it was refused or held. */
  topicOf(request: Request, header: SendHeader): SendTopic | undefined {
    if (this.#held.heldMs !== 0 && isTooLate(this.#context, request, this.#held)) return undefined;
    const topic = this.#topics.find(header);
    return this.#check(request, header, topic) ? topic : undefined;
  }

  /** Turns the logic queue that a send to a static topic names into the one where it lies. False if the send was refused. */
  #toPhysicalQueue(request: Request, header: SendHeader, topic: SendTopic): boolean {
    this.#logic = undefined;
    if (!request.header.bool('lo', true)) return true;
    const logic = logicQueueOf(topic.mapping!, header.queueId, true);
    if (logic.leader === undefined) {
      request.respond(ResponseCode.NOT_LEADER_FOR_QUEUE, notLeaderText(logic));
      return false;
    }
    this.#logic = logic;
    header.queueId = logic.leader.queueId;
    return true;
  }

  /** Whether the message at hand is of its topic's type; answers the refusal. */
  #isOfType(request: Request, expected: string): boolean {
    const actual = typeInTable(this.#table);
    if (actual === expected) return true;
    const remark = `TopicMessageType validate failed, the expected type is ${expected}, but actual type is ${actual}`;
    refuse(this.#context, request, ResponseCode.MESSAGE_ILLEGAL, remark);
    return false;
  }

  #logicOf(topic: SendTopic): LogicQueue | undefined {
    return topic.mapping === undefined ? undefined : this.#logic;
  }

  /** RocketMQ: msgCheck, in its order. Answers the refusal itself; false means refused, or held until its topic is saved. */
  #check(request: Request, header: SendHeader, topic: SendTopic): boolean {
    const { config, topics, clock } = this.#context;
    if (config.startAcceptSendRequestTimeStamp > 0 && clock.now() < config.startAcceptSendRequestTimeStamp) {
      const start = new Date(config.startAcceptSendRequestTimeStamp).toISOString();
      refuse(this.#context, request, ResponseCode.SYSTEM_ERROR, `broker unable to service, until ${start}`);
      return false;
    }
    if (!isWriteable(config.brokerPermission) && topics.isOrderTopic(topic.name)) {
      refuse(
        this.#context,
        request,
        ResponseCode.NO_PERMISSION,
        `the broker[${config.brokerIP1}] sending message is forbidden`,
      );
      return false;
    }
    if (topic.fault !== undefined) {
      refuse(this.#context, request, topic.fault.code, topic.fault.remark);
      return false;
    }
    if (topic.config === undefined && this.#topics.create(request, header, topic) !== undefined) {
      this.#unsaved.hold(topic.name, request);
      return false;
    }
    if (topic.config === undefined) {
      const why = config.autoCreateTopicEnable
        ? `default topic ${header.defaultTopic} does not exist here or may not be inherited from`
        : 'autoCreateTopicEnable is false';
      refuse(
        this.#context,
        request,
        ResponseCode.TOPIC_NOT_EXIST,
        `topic[${topic.name}] not exist, apply first please! (it is not created by a send: ${why}; ` +
          `create it with mqadmin updateTopic -t ${topic.name} -c ${config.brokerClusterName})`,
      );
      return false;
    }
    if (header.queueId >= topic.queueNums) {
      refuse(
        this.#context,
        request,
        ResponseCode.INVALID_PARAMETER,
        `request queueId[${header.queueId}] is illegal, ${topic.config} Producer: ${request.channel.remoteAddress}`,
      );
      return false;
    }
    return true;
  }

  #sendBatch(request: Request, header: SendHeader, topic: SendTopic, queueId: number, sysFlag: number): void {
    if (topic.name.length > 127) {
      refuse(
        this.#context,
        request,
        ResponseCode.MESSAGE_ILLEGAL,
        `message topic length too long ${topic.name.length}`,
      );
      return;
    }
    if (topic.isRetry) {
      refuse(
        this.#context,
        request,
        ResponseCode.MESSAGE_ILLEGAL,
        `batch request does not support retry group ${topic.name}`,
      );
      return;
    }
    const delay = this.#table.find(this.#delay);
    if (delay >= 0) {
      const text = this.#table.valueText(delay);
      const level = parseDelayLevel(text);
      if (level === undefined) {
        const { code, remark } = badDelayLevel(text);
        refuse(this.#context, request, code, remark);
        return;
      }
      if (level > 0) {
        refuseStatus(this.#context, request, PutMessageStatus.MESSAGE_ILLEGAL, 'a batch cannot be delayed');
        return;
      }
    }
    if (topic.config!.isBatchQueue && this.#table.find(this.#uniqKey) >= 0) {
      this.#slow.sendBatch(request, header, topic, queueId, sysFlag, this.#logicOf(topic));
      return;
    }
    if (request.bodyEnd - request.bodyStart > LONG_BATCH_BYTES) {
      this.#sendLongBatch(request, header, topic, queueId, sysFlag);
      return;
    }
    const put = this.#put;
    this.#fill(put, request, header, topic, queueId, sysFlag);
    put.flag = header.flag;
    put.propertyTable = undefined;
    put.batch = true;
    put.waitStoreMsgOK = this.#waits();
    const result = this.#result;
    this.#context.store.put(put, result);
    if (result.status !== PutMessageStatus.PUT_OK) {
      refuseStatus(this.#context, request, result.status, result.reason);
      return;
    }
    this.#context.stats.stored(topic.puts, result);
    if (request.oneway) return;
    request.takeOver();
    const transactionId = this.#table.get(this.#uniqKey);
    const writer = this.#writerOf(request.channel);
    const logic = this.#logicOf(topic);
    if (logic === undefined) this.#batchAnswer.write(writer, request.opaque, queueId, result, transactionId);
    else {
      const queueOffset = looseLogicOffset(logic.leader!, result.queueOffset);
      this.#batchAnswer.write(writer, request.opaque, logic.globalId, result, transactionId, queueOffset);
    }
  }

  /** A batch that would hold up everybody else. */
  #sendLongBatch(request: Request, header: SendHeader, topic: SendTopic, queueId: number, sysFlag: number): void {
    const put = new PutRequest();
    this.#fill(put, request, header, topic, queueId, sysFlag);
    put.topicBytes = topic.bytes;
    put.queues = undefined;
    put.flag = header.flag;
    put.batch = true;
    put.waitStoreMsgOK = this.#waits();
    const transactionId = this.#table.get(this.#uniqKey);
    this.#longBatches.send(request, put, topic, transactionId, this.#once?.takeBatch(), this.#logicOf(topic));
  }

  /** Sets what single sends and batches share. */
  #fill(
    put: PutRequest,
    request: Request,
    header: SendHeader,
    topic: SendTopic,
    queueId: number,
    sysFlag: number,
  ): void {
    put.topic = topic.name;
    put.topicBytes = this.#topics.nameOf(header, topic);
    put.queues = topic.queues;
    put.queueId = queueId;
    put.sysFlag = sysFlag;
    put.bornTimestamp = header.bornTimestamp;
    put.bornHost = request.channel.remoteHost;
    put.storeHost = this.#context.storeHost;
    put.reconsumeTimes = header.reconsumeTimes;
    put.preparedTransactionOffset = 0;
    put.body = request.buffer;
    put.bodyStart = request.bodyStart;
    put.bodyEnd = request.bodyEnd;
  }

  /** Whether the answer waits for the flush: all but WAIT=false. */
  #waits(): boolean {
    const index = this.#table.find(this.#wait);
    if (index < 0) return true;
    const source = this.#table.sourceOf(index);
    const start = this.#table.valueStart(index);
    // "true" is what clients send; anything else is looked at as text.
    if (source[start] === 0x74) return true;
    return this.#table.valueText(index).toLowerCase() === 'true';
  }

  #isSpecial(): boolean {
    const table = this.#table;
    for (let i = 0; i < table.count; i++) {
      if (this.#specialBytes[table.hashAt(i) & 0xff] === 0) continue;
      for (const name of this.#special) if (table.hashAt(i) === name.hash) return true;
    }
    return false;
  }

  // --- Answers

  /** `index`: of UNIQ_KEY in the table. */
  #acknowledge(writer: FrameWriter, opaque: number, queueId: number, result: PutResult, index: number): void {
    const table = this.#table;
    const id = table.sourceOf(index);
    const start = table.valueStart(index);
    const end = table.valueEnd(index);
    if (this.#answer.write(writer, opaque, result.wroteOffset, queueId, result.queueOffset, id, start, end)) return;
    const { config, storeHost } = this.#context;
    writer.response(ResponseCode.SUCCESS, opaque, null, {
      MSG_REGION: config.regionId,
      TRACE_ON: config.traceOn,
      msgId: createOffsetMessageId(storeHost, result.wroteOffset),
      queueId,
      queueOffset: result.queueOffset,
      transactionId: table.valueText(index),
    });
  }

  /** For the answer to the put at hand. */
  #writerOf(channel: Channel): FrameWriter {
    const { wroteOffset, wroteBytes } = this.#result;
    const acks = this.#put.waitStoreMsgOK ? this.#waitingAcks : this.#acks;
    return acks.writerOf(channel, wroteOffset + wroteBytes);
  }

  /** Called at the end of each turn of the server. */
  endTurn(): void {
    this.#acks.endTurn();
    this.#waitingAcks.endTurn();
  }
}
