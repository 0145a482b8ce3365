// SEND_MESSAGE (10), SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320): the path that carries the load. RocketMQ: SendMessageProcessor.
//
//   scanned header ─► SendHeader ─► topic (cached by its bytes) ─► properties: read, completed, in Java's order
//        └─ nothing to rewrite ─► store.put ─► answer encoded, parked until its watermark      (fast)
//        └─ delay, retry, priority, ... ─► the same message as an object ─► putInternal         (slow, same encoder)
//
// No object is made per message on the fast way: header, properties, request and result are this processor's own, filled anew.

import { ByteTable, copyBytes, viewOf } from '../../common/index.ts';
import {
  BatchMember,
  copy,
  createOffsetMessageId,
  MAX_PROPERTIES_BYTES,
  type NameBytes,
  nameBytes,
  offsetMessageIds,
  PropertyName,
  PropertyTable,
  parsePropertyBytes,
  readBatchMember,
  SysFlag,
  type UniqueIds,
} from '../../message/index.ts';
import {
  type Channel,
  type FrameWriter,
  type Request,
  RequestCode,
  type Responder,
  ResponseCode,
} from '../../remoting/index.ts';
import {
  type ConsumeQueue,
  isLightQueue,
  type LongBatch,
  PutMessageStatus,
  PutRequest,
  PutResult,
} from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { applyDelayLevel, delayLevelOf, type InternalMessage, putInternal } from '../internal-put.ts';
import { isWriteable, Perm, type TopicConfig } from '../topic/topic-config.ts';
import * as names from '../topic/topic-names.ts';
import { LongBatches } from './long-batches.ts';
import type { HandlerRegistry } from './registry.ts';
import { ackCode, SendAckPool, type SendAcks } from './send-acks.ts';
import { SendAnswer } from './send-answer.ts';
import { SendHeader } from './send-header.ts';

/** A topic as sends need it, found by its bytes. */
interface SendTopic {
  /** Its config, and what most sends need of it, as of this version of the table; another version has it looked up again. */
  config: TopicConfig | undefined;
  version: number;
  queueNums: number;
  isMultiTag: boolean;
  /** What the store's `queuesOf` said. */
  queues: readonly ConsumeQueue[] | undefined;
  readonly name: string;
  readonly bytes: Uint8Array;
  /** Why no one may send to it by its name alone. */
  readonly fault: { code: number; remark: string } | undefined;
  readonly isRetry: boolean;
}

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
/** Longer batches are encoded in shares. */
const LONG_BATCH_BYTES = 256 * 1024;

const NOT_STORED_REMARK =
  "service not available now. It may be caused by one of the following reasons: the broker's disk is full, messages are put to the slave, message store has been shut down, etc.";

export class SendMessageProcessor {
  readonly #context: BrokerContext;
  readonly #header = new SendHeader();
  readonly #table = new PropertyTable();
  readonly #put = new PutRequest();
  readonly #result = new PutResult();
  readonly #topics = new ByteTable<SendTopic>();
  readonly #uniqueIds: UniqueIds;
  /** By length: where the name of the topic that is being put to lies. */
  readonly #names: Uint8Array[] = [];

  readonly #region: NameBytes = nameBytes(PropertyName.MSG_REGION);
  readonly #regionPair: Uint8Array;
  readonly #trace: NameBytes = nameBytes(PropertyName.TRACE_ON);
  readonly #tracePair: Uint8Array;
  readonly #cluster: NameBytes = nameBytes(PropertyName.CLUSTER);
  readonly #clusterPair: Uint8Array;
  readonly #uniqKey: NameBytes = nameBytes(PropertyName.UNIQ_KEY);
  /** UNIQ_KEY and an id of ours, filled anew for each message that comes without one. */
  readonly #uniqPair: Uint8Array;
  readonly #wait: NameBytes = nameBytes(PropertyName.WAIT);
  /** 1 where a hash's low byte belongs to a special name: one look per property rules out nearly all. */
  readonly #specialBytes = new Uint8Array(256);
  readonly #special: readonly NameBytes[];

  readonly #answer: SendAnswer;
  readonly #ackPool = new SendAckPool();
  readonly #longBatches: LongBatches;

  /** Answers of this turn, by connection. */
  #acks: SendAcks | undefined;
  #waitingAcks: SendAcks | undefined;
  readonly #turnAcks = new Map<Channel, SendAcks>();
  readonly #turnWaiting = new Map<Channel, SendAcks>();
  #turnEnd = 0;

  constructor(context: BrokerContext, uniqueIds: UniqueIds) {
    this.#context = context;
    this.#uniqueIds = uniqueIds;
    this.#longBatches = new LongBatches(context.clock, context.logger);
    const { config } = context;
    this.#regionPair = Buffer.from(`${PropertyName.MSG_REGION}\u0001${config.regionId}`);
    this.#tracePair = Buffer.from(`${PropertyName.TRACE_ON}\u0001${config.traceOn}`);
    this.#clusterPair = Buffer.from(`${PropertyName.CLUSTER}\u0001${config.brokerClusterName}`);
    this.#uniqPair = Buffer.from(`${PropertyName.UNIQ_KEY}\u0001${' '.repeat(uniqueIds.length)}`);
    this.#special = [...SPECIAL].map(nameBytes);
    for (const { hash } of this.#special) this.#specialBytes[hash & 0xff] = 1;
    this.#answer = new SendAnswer(config.regionId, config.traceOn, context.storeHost);
  }

  register(registry: HandlerRegistry): void {
    registry.register(RequestCode.SEND_MESSAGE, (request) => this.#handle(request, false));
    registry.register(RequestCode.SEND_MESSAGE_V2, (request) => this.#handle(request, true));
    registry.register(RequestCode.SEND_BATCH_MESSAGE, (request) => this.#handle(request, true));
  }

  #handle(request: Request, v2: boolean): void {
    const header = this.#header;
    header.read(request.header, v2);
    const topic = this.#topic(header);
    if (!this.#check(request, header, topic)) return;
    if (request.bodyEnd === request.bodyStart) {
      this.#refuse(request, ResponseCode.MESSAGE_ILLEGAL, 'the message body is empty');
      return;
    }
    let queueId = header.queueId;
    if (queueId < 0) queueId = this.#context.random.int(Math.max(1, topic.config!.writeQueueNums));

    const sentBytes = header.propertiesEnd - header.propertiesStart;
    if (sentBytes > MAX_PROPERTIES_BYTES) {
      const reason = `the properties have ${sentBytes} bytes, the limit is ${MAX_PROPERTIES_BYTES}`;
      this.#refuseStatus(request, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED, reason);
      return;
    }
    const table = this.#table;
    table.read(header.properties, header.propertiesStart, header.propertiesEnd);
    const sysFlag = topic.isMultiTag ? header.sysFlag | SysFlag.MULTI_TAGS : header.sysFlag;
    if (header.batch) {
      this.#sendBatch(request, header, topic, queueId, sysFlag);
      return;
    }
    if (topic.isRetry || (sysFlag & SysFlag.INNER_BATCH) !== 0 || this.#isSpecial()) {
      this.#sendSlowly(request, header, topic, topic.config!, queueId, sysFlag);
      return;
    }
    table.putPair(this.#region, this.#regionPair);
    table.putPair(this.#trace, this.#tracePair);
    if (table.find(this.#uniqKey) < 0) {
      const pair = this.#uniqPair;
      this.#uniqueIds.writeNext(this.#context.clock.now(), pair, pair.length - this.#uniqueIds.length);
      table.putPair(this.#uniqKey, pair);
    }
    table.putPair(this.#cluster, this.#clusterPair);

    const put = this.#put;
    this.#fill(put, request, header, topic, queueId, sysFlag);
    put.flag = header.flag;
    put.propertyTable = table;
    put.batch = false;
    put.plain = true;
    put.waitStoreMsgOK = this.#waits();
    const result = this.#result;
    const { store, stats } = this.#context;
    store.put(put, result);
    if (result.status !== PutMessageStatus.PUT_OK) {
      this.#refuseStatus(request, result.status, result.reason);
      return;
    }
    stats.putMessages++;
    stats.putBytes += result.wroteBytes;
    // The record has the bytes now. The answer below still reads the header, before anything else can use the memory.
    if (result.wroteBytes > LONG_BODY_BYTES) request.keepBody().release();
    if (result.wroteOffset + result.wroteBytes > this.#turnEnd) this.#turnEnd = result.wroteOffset + result.wroteBytes;
    if (request.oneway) return;
    request.takeOver();
    this.#acknowledge(this.#writerOf(request.channel, put.waitStoreMsgOK), request.opaque, queueId, result);
  }

  /** RocketMQ: msgCheck, in its order. Answers the refusal itself; false means refused. */
  #check(request: Request, header: SendHeader, topic: SendTopic): boolean {
    const { config, topics, clock } = this.#context;
    if (config.startAcceptSendRequestTimeStamp > 0 && clock.now() < config.startAcceptSendRequestTimeStamp) {
      const start = new Date(config.startAcceptSendRequestTimeStamp).toISOString();
      this.#refuse(request, ResponseCode.SYSTEM_ERROR, `broker unable to service, until ${start}`);
      return false;
    }
    if (!isWriteable(config.brokerPermission) && topics.isOrderTopic(topic.name)) {
      this.#refuse(request, ResponseCode.NO_PERMISSION, `the broker[${config.brokerIP1}] sending message is forbidden`);
      return false;
    }
    if (topic.fault !== undefined) {
      this.#refuse(request, topic.fault.code, topic.fault.remark);
      return false;
    }
    if (topic.version !== topics.version) this.#refresh(topic);
    if (topic.config === undefined && this.#createTopic(request, header, topic) !== undefined) this.#refresh(topic);
    if (topic.config === undefined) {
      const why = config.autoCreateTopicEnable
        ? `default topic ${header.defaultTopic} does not exist here or may not be inherited from`
        : 'autoCreateTopicEnable is false';
      this.#refuse(
        request,
        ResponseCode.TOPIC_NOT_EXIST,
        `topic[${topic.name}] not exist, apply first please! (it is not created by a send: ${why}; ` +
          `create it with mqadmin updateTopic -t ${topic.name} -c ${config.brokerClusterName})`,
      );
      return false;
    }
    if (header.queueId >= topic.queueNums) {
      this.#refuse(
        request,
        ResponseCode.INVALID_PARAMETER,
        `request queueId[${header.queueId}] is illegal, ${topic.config} Producer: ${request.channel.remoteAddress}`,
      );
      return false;
    }
    return true;
  }

  #refresh(topic: SendTopic): void {
    const { topics } = this.#context;
    const config = topics.select(topic.name);
    topic.config = config;
    topic.version = topics.version;
    topic.queueNums = config === undefined ? 0 : Math.max(config.writeQueueNums, config.readQueueNums);
    topic.queues = config === undefined ? undefined : this.#context.store.queuesOf(topic.name);
    topic.isMultiTag = config?.topicFilterType === 'MULTI_TAG';
  }

  #createTopic(request: Request, header: SendHeader, topic: SendTopic): TopicConfig | undefined {
    const { topics } = this.#context;
    let topicSysFlag = 0;
    if (header.unitMode) topicSysFlag = topic.isRetry ? 2 : 1;
    const created = topics.createInSend(
      topic.name,
      header.defaultTopic,
      request.channel.remoteAddress,
      header.defaultTopicQueueNums,
      topicSysFlag,
    );
    if (created !== undefined || !topic.isRetry) return created;
    return topics.createInSendBack(topic.name, 1, Perm.READ | Perm.WRITE, false, topicSysFlag);
  }

  #sendBatch(request: Request, header: SendHeader, topic: SendTopic, queueId: number, sysFlag: number): void {
    if (topic.name.length > 127) {
      this.#refuse(request, ResponseCode.MESSAGE_ILLEGAL, `message topic length too long ${topic.name.length}`);
      return;
    }
    if (topic.isRetry) {
      this.#refuse(request, ResponseCode.MESSAGE_ILLEGAL, `batch request does not support retry group ${topic.name}`);
      return;
    }
    if (topic.config!.isBatchQueue && this.#table.find(this.#uniqKey) >= 0) {
      this.#sendInnerBatch(request, header, topic, queueId, sysFlag);
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
      this.#refuseStatus(request, result.status, result.reason);
      return;
    }
    this.#context.stats.putMessages += result.messageCount;
    this.#context.stats.putBytes += result.wroteBytes;
    this.#turnEnd = Math.max(this.#turnEnd, result.wroteOffset + result.wroteBytes);
    if (request.oneway) return;
    request.takeOver();
    const { config, storeHost } = this.#context;
    const transactionId = this.#table.get(this.#uniqKey);
    this.#writerOf(request.channel, put.waitStoreMsgOK).response(ResponseCode.SUCCESS, request.opaque, null, {
      MSG_REGION: config.regionId,
      TRACE_ON: config.traceOn,
      msgId: offsetMessageIds(storeHost, result.batchOffsets),
      queueId,
      queueOffset: result.queueOffset,
      transactionId,
    });
  }

  /** A batch to a topic of batch queues becomes one record that holds it as it came; consumers split it. */
  #sendInnerBatch(request: Request, header: SendHeader, topic: SendTopic, queueId: number, sysFlag: number): void {
    const { config } = this.#context;
    const body = request.bodyCopy();
    const view = viewOf(body);
    const member = new BatchMember();
    let count = 0;
    for (let at = 0; at < body.length; at = member.end) {
      const fault = readBatchMember(view, at, body.length, member);
      if (fault !== undefined) {
        this.#refuseStatus(request, PutMessageStatus.MESSAGE_ILLEGAL, `batch member ${count}: ${fault}`);
        return;
      }
      count++;
    }
    const properties = parsePropertyBytes(header.properties, header.propertiesStart, header.propertiesEnd);
    properties.delete(PropertyName.POP_CK);
    properties.set(PropertyName.MSG_REGION, config.regionId);
    properties.set(PropertyName.TRACE_ON, String(config.traceOn));
    properties.set(PropertyName.CLUSTER, config.brokerClusterName);
    properties.set(PropertyName.INNER_NUM, String(count));
    const message: InternalMessage = {
      topic: topic.name,
      queueId,
      flag: header.flag,
      sysFlag: sysFlag | SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH,
      bornTimestamp: header.bornTimestamp,
      bornHost: request.channel.remoteHost,
      reconsumeTimes: header.reconsumeTimes,
      preparedTransactionOffset: 0,
      body,
      properties,
      waitStoreMsgOK: properties.get(PropertyName.WAIT)?.toLowerCase() !== 'false',
    };
    const uniqKey = properties.get(PropertyName.UNIQ_KEY)!;
    this.#putAndAnswer(request, message, queueId, uniqKey, { batchUniqId: uniqKey });
  }

  /** A batch that would hold up everybody else is encoded between other work; what its sender sends behind it waits until it is put. */
  #sendLongBatch(request: Request, header: SendHeader, topic: SendTopic, queueId: number, sysFlag: number): void {
    const put = new PutRequest();
    this.#fill(put, request, header, topic, queueId, sysFlag);
    put.topicBytes = topic.bytes;
    put.queues = undefined;
    const body = request.keepBody();
    put.body = body.bytes;
    put.bodyStart = 0;
    put.bodyEnd = put.body.length;
    put.flag = header.flag;
    put.batch = true;
    put.waitStoreMsgOK = this.#waits();
    const transactionId = this.#table.get(this.#uniqKey);
    const { channel, oneway } = request;
    const responder = request.defer();
    channel.holdInput();
    this.#longBatches.add(this.#context.store.beginBatch(put), (batch, fault) => {
      body.release();
      this.#putLongBatch(batch, topic, fault, transactionId, oneway ? undefined : responder);
      channel.resumeInput();
    });
  }

  #putLongBatch(
    batch: LongBatch,
    topic: SendTopic,
    fault: string | undefined,
    transactionId: string | undefined,
    responder: Responder | undefined,
  ): void {
    const { config, stats, store, storeHost, topics } = this.#context;
    const common = { MSG_REGION: config.regionId, TRACE_ON: config.traceOn };
    const { queueId, waitStoreMsgOK } = batch.request;
    const result = new PutResult();
    if (topic.version !== topics.version) this.#refresh(topic);
    if (fault !== undefined || queueId >= topic.queueNums) {
      batch.release();
      const code = fault === undefined ? ResponseCode.TOPIC_NOT_EXIST : ResponseCode.SYSTEM_ERROR;
      responder?.respond(
        code,
        fault ?? `topic[${topic.name}] was deleted or made smaller while the batch came`,
        common,
      );
      return;
    }
    store.putBatch(batch, result);
    if (result.status !== PutMessageStatus.PUT_OK) {
      stats.putFailed++;
      responder?.respond(ackCode(result.status).code, this.#remark(result.status, result.reason), common);
      return;
    }
    stats.putMessages += result.messageCount;
    stats.putBytes += result.wroteBytes;
    if (responder === undefined) return;
    store.whenDurable(result.wroteOffset + result.wroteBytes, waitStoreMsgOK, (status, reason) => {
      const { code, stored } = ackCode(status);
      if (!stored) {
        responder.respond(code, this.#remark(status, reason), common);
        return;
      }
      responder.respond(code, reason === '' ? null : reason, {
        ...common,
        msgId: offsetMessageIds(storeHost, result.batchOffsets),
        queueId,
        queueOffset: result.queueOffset,
        transactionId,
      });
    });
  }

  /** What a send with something to rewrite takes: the message becomes an object, and the put goes the way of the broker's own messages. */
  #sendSlowly(
    request: Request,
    header: SendHeader,
    topic: SendTopic,
    config: TopicConfig,
    queueId: number,
    sysFlag: number,
  ): void {
    const context = this.#context;
    const properties = parsePropertyBytes(header.properties, header.propertiesStart, header.propertiesEnd);
    const refusal = this.#refusalOf(properties, sysFlag);
    if (refusal !== undefined) {
      this.#refuse(request, refusal.code, refusal.remark);
      return;
    }
    properties.delete(PropertyName.POP_CK);
    if (context.store.config.enabledAppendPropCRC) properties.delete(PropertyName.CRC32);
    properties.set(PropertyName.MSG_REGION, context.config.regionId);
    properties.set(PropertyName.TRACE_ON, String(context.config.traceOn));
    const message: InternalMessage = {
      topic: topic.name,
      queueId,
      flag: header.flag,
      sysFlag,
      bornTimestamp: header.bornTimestamp,
      bornHost: request.channel.remoteHost,
      reconsumeTimes: header.reconsumeTimes,
      preparedTransactionOffset: 0,
      body: request.bodyCopy(),
      properties,
      waitStoreMsgOK: properties.get(PropertyName.WAIT)?.toLowerCase() !== 'false',
    };
    if (topic.isRetry && !this.#retryOrDeadLetter(request, header, message)) return;
    const uniqKey = properties.get(PropertyName.UNIQ_KEY) ?? this.#uniqueIds.next(context.clock.now());
    properties.set(PropertyName.UNIQ_KEY, uniqKey);
    this.#applyLiteAndPriority(message, config);
    const answeredQueueId = message.queueId;
    properties.set(PropertyName.CLUSTER, context.config.brokerClusterName);
    applyDelayLevel(message, context.schedule.maxDelayLevel);
    this.#putAndAnswer(request, message, answeredQueueId, uniqKey, {});
  }

  /** Stores a message that is an object, and answers when it is as durable as the settings promise. */
  #putAndAnswer(
    request: Request,
    message: InternalMessage,
    queueId: number,
    uniqKey: string,
    more: Record<string, string>,
  ): void {
    const { config, store, storeHost } = this.#context;
    const responder = request.defer();
    putInternal(store, message, storeHost, (status, result, reason) => {
      const { code, stored } = ackCode(status);
      const common = { MSG_REGION: config.regionId, TRACE_ON: config.traceOn };
      if (!stored) {
        responder.respond(code, this.#remark(status, reason), common);
        return;
      }
      responder.respond(code, reason === '' ? null : reason, {
        ...common,
        msgId: createOffsetMessageId(storeHost, result.wroteOffset),
        queueId,
        queueOffset: result.queueOffset,
        transactionId: uniqKey,
        ...more,
      });
    });
  }

  /** What this broker does not do with a message, and says so rather than storing it as something else. */
  #refusalOf(properties: ReadonlyMap<string, string>, sysFlag: number): { code: number; remark: string } | undefined {
    const { config } = this.#context;
    if (properties.get(PropertyName.TRAN_MSG)?.toLowerCase() === 'true') {
      return {
        code: ResponseCode.NO_PERMISSION,
        remark: `the broker[${config.brokerIP1}] sending transaction message is forbidden`,
      };
    }
    const timed = [
      PropertyName.TIMER_DELAY_SEC,
      PropertyName.TIMER_DELAY_MS,
      PropertyName.TIMER_DELIVER_MS,
      PropertyName.TIMER_DEL_UNIQKEY,
    ].find((name) => properties.has(name));
    if (timed !== undefined && delayLevelOf(properties) <= 0) {
      return {
        code: ResponseCode.SYSTEM_ERROR,
        remark: `accurate timer message is not enabled, timerWheelEnable is false (property ${timed}); delay levels work`,
      };
    }
    if (properties.has(PropertyName.INNER_NUM) && (sysFlag & SysFlag.INNER_BATCH) === 0) {
      return { code: ResponseCode.MESSAGE_ILLEGAL, remark: 'the property INNER_NUM needs the inner-batch flag' };
    }
    return undefined;
  }

  #applyLiteAndPriority(message: InternalMessage, config: TopicConfig): void {
    const { properties } = message;
    const lite = properties.get(PropertyName.LITE_TOPIC);
    if (lite !== undefined) properties.set(PropertyName.INNER_MULTI_DISPATCH, `%LMQ%$${message.topic}$${lite}`);
    const wanted = properties.get(PropertyName.PRIORITY) ?? '';
    if (!/^\d{1,9}$/.test(wanted)) return;
    const priority = Number(wanted);
    const other = lite !== undefined || delayLevelOf(properties) > 0 || properties.has(PropertyName.SHARDING_KEY);
    if (other) properties.delete(PropertyName.PRIORITY);
    else message.queueId = Math.max(0, Math.min(priority, config.writeQueueNums - 1));
  }

  /** RocketMQ: handleRetryAndDLQ: a client's own send to a retry topic. False if it was answered. */
  #retryOrDeadLetter(request: Request, header: SendHeader, message: InternalMessage): boolean {
    const { groups, topics, locks, random } = this.#context;
    const groupName = message.topic.slice(names.RETRY_GROUP_TOPIC_PREFIX.length);
    const group = groups.findOrCreate(groupName);
    if (group === undefined) {
      this.#refuse(request, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, `subscription group not exist, ${groupName}`);
      return false;
    }
    const max = header.maxReconsumeTimes ?? group.retryMaxTimes;
    if (header.reconsumeTimes > max || locks.hasLiveLock(groupName)) {
      message.topic = names.dlqTopic(groupName);
      topics.createInSendBack(message.topic, 1, Perm.READ | Perm.WRITE, false, 0);
      message.queueId = 0;
      message.properties.set(PropertyName.DELAY, '0');
    } else if (message.queueId < 0) {
      message.queueId = random.int(Math.max(1, group.retryQueueNums));
    }
    return true;
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
    put.topicBytes = this.#nameOf(header, topic);
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

  #acknowledge(writer: FrameWriter, opaque: number, queueId: number, result: PutResult): void {
    const table = this.#table;
    const index = table.find(this.#uniqKey);
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

  #writerOf(channel: Channel, waits: boolean): FrameWriter {
    const last = waits ? this.#waitingAcks : this.#acks;
    if (last?.channel === channel) {
      last.count++;
      return last.writer;
    }
    const turn = waits ? this.#turnWaiting : this.#turnAcks;
    let acks = turn.get(channel);
    if (acks === undefined) {
      acks = this.#ackPool.take(channel);
      turn.set(channel, acks);
    }
    if (waits) this.#waitingAcks = acks;
    else this.#acks = acks;
    acks.count++;
    return acks.writer;
  }

  /** Hands the turn's answers over, to wait for all that the turn appended. Called at the end of each turn of the server. */
  endTurn(): void {
    this.#acks = undefined;
    this.#waitingAcks = undefined;
    if (this.#turnAcks.size > 0) this.#park(false, this.#turnAcks);
    if (this.#turnWaiting.size > 0) this.#park(true, this.#turnWaiting);
  }

  #park(flush: boolean, turn: Map<Channel, SendAcks>): void {
    for (const acks of turn.values()) this.#context.store.park(this.#turnEnd, flush, acks);
    turn.clear();
  }

  #refuse(request: Request, code: number, remark: string): void {
    const { config } = this.#context;
    request.respond(code, remark, { MSG_REGION: config.regionId, TRACE_ON: config.traceOn });
  }

  #refuseStatus(request: Request, status: PutMessageStatus, reason: string): void {
    this.#context.stats.putFailed++;
    this.#refuse(request, ackCode(status).code, this.#remark(status, reason));
  }

  /** Java's remark, and behind it what was measured. */
  #remark(status: PutMessageStatus, reason: string): string {
    switch (status) {
      case PutMessageStatus.MESSAGE_ILLEGAL:
      case PutMessageStatus.PROPERTIES_SIZE_EXCEEDED:
        return (
          'the message is illegal, maybe msg body or properties length not matched. ' +
          `msg body length limit ${this.#context.store.config.maxMessageSize}B, msg properties length limit 32KB. (${reason})`
        );
      case PutMessageStatus.SERVICE_NOT_AVAILABLE:
        return `${NOT_STORED_REMARK} (${reason})`;
      case PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED:
        return `[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]lmq consume queue num exceeded. (${reason})`;
      case PutMessageStatus.OS_PAGE_CACHE_BUSY:
        return `[PC_SYNCHRONIZED]broker busy, start flow control for a while (${reason})`;
      default:
        return reason === '' ? 'UNKNOWN_ERROR' : `UNKNOWN_ERROR (${reason})`;
    }
  }

  // --- Topics

  /** The topic's name, copied from the request, which is at hand, rather than from the entry's own array, which mostly is not. */
  #nameOf(header: SendHeader, topic: SendTopic): Uint8Array {
    const start = header.topicStart;
    if (start < 0) return topic.bytes;
    const length = header.topicEnd - start;
    const name = this.#names[length] ?? new Uint8Array(length);
    this.#names[length] = name;
    copy(header.buffer, start, header.topicEnd, name, 0);
    return name;
  }

  #topic(header: SendHeader): SendTopic {
    const start = header.topicStart;
    if (start < 0) {
      const bytes = Buffer.from(header.topic, 'utf8');
      return this.#topicOf(bytes, 0, bytes.length);
    }
    return this.#topicOf(header.buffer, start, header.topicEnd);
  }

  #topicOf(bytes: Uint8Array, start: number, end: number): SendTopic {
    const known = this.#topics.find(bytes, start, end);
    if (known !== undefined) return known;
    const own = copyBytes(bytes, start, end);
    const name = Buffer.from(own).toString('utf8');
    const topic: SendTopic = {
      config: undefined,
      version: -1,
      queueNums: 0,
      isMultiTag: false,
      queues: undefined,
      name,
      bytes: own,
      fault: nameFault(name),
      isRetry: name.startsWith(names.RETRY_GROUP_TOPIC_PREFIX),
    };
    // Only topics that exist are kept: a peer could fill the memory with other names.
    // Every name of a light queue exists.
    const isKept = topic.fault === undefined && !isLightQueue(name) && this.#context.topics.has(name);
    if (isKept) this.#topics.add(topic);
    else this.#topics.lookFirstAt(topic);
    return topic;
  }
}

function nameFault(name: string): SendTopic['fault'] {
  const fault = names.topicNameFault(name);
  if (fault !== undefined) return { code: ResponseCode.INVALID_PARAMETER, remark: fault };
  if (names.isNotAllowedSendTopic(name)) {
    return { code: ResponseCode.NO_PERMISSION, remark: `Sending message to topic[${name}] is forbidden.` };
  }
  return undefined;
}
