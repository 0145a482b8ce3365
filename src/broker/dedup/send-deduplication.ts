// Send de-duplication (`gantrySendDeduplication...`, off by default): a message whose UNIQ_KEY (or KEYS) was sent to the same topic within
// the window is not stored again; it is answered with the place of the first one, when the first one is as durable as its own answer
// asks. A producer that did not get its answer and sends again therefore makes no second message. RocketMQ has nothing like it.
//
// What is remembered follows the log: an entry is made by an append, goes when the append is given up, and is read from the log's
// tail at a start. Retry and dead-letter topics are left out: clients send one UNIQ_KEY there as often as a message fails.

import { type Clock, copyBytes, viewOf } from '../../common/index.ts';
import {
  BatchMember,
  createOffsetMessageId,
  decodeMessages,
  type NameBytes,
  nameBytes,
  PropertyName,
  PropertyTable,
  type RecordView,
  readBatchMember,
  recallHandleOf,
  SysFlag,
} from '../../message/index.ts';
import type { Request, Responder } from '../../remoting/index.ts';
import { PutMessageStatus, PutRequest, PutResult } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import type { SendHeader } from '../processor/send-header.ts';
import { answerPut, refuseStatus } from '../processor/send-outcome.ts';
import type { SendTopic } from '../processor/send-topics.ts';
import { logicPlaceOf } from '../statictopic/mapping-context.ts';
import type { TopicQueueMappingDetail } from '../statictopic/topic-queue-mapping.ts';
import * as names from '../topic/topic-names.ts';
import { type FirstSend, SendWindow } from './send-window.ts';

/** Topics whose messages wait there for another one, which they name. */
const WAITING_TOPICS: readonly string[] = [names.SCHEDULE_TOPIC, names.TIMER_TOPIC, names.TRANS_HALF_TOPIC];
const TIMER_PROPERTIES = [PropertyName.TIMER_DELAY_SEC, PropertyName.TIMER_DELAY_MS, PropertyName.TIMER_DELIVER_MS];
/** The bit that commits and rollbacks share. */
const TRANSACTION_ENDED = SysFlag.TRANSACTION_COMMIT & SysFlag.TRANSACTION_ROLLBACK;

/** The keys of a batch that is being put, in its order; undefined where a member has none. */
export interface BatchKeys {
  topic: string;
  keys: ReadonlyArray<Uint8Array | undefined>;
}

interface Members extends BatchKeys {
  /** Start of each member in the body, and the end of the last. */
  starts: number[];
}

export class SendDeduplication {
  readonly #context: BrokerContext;
  readonly #clock: Clock;
  readonly #window: SendWindow;
  readonly #key: NameBytes;
  readonly #uniqKey: NameBytes = nameBytes(PropertyName.UNIQ_KEY);
  readonly #wait: NameBytes = nameBytes(PropertyName.WAIT);
  readonly #realTopic: NameBytes = nameBytes(PropertyName.REAL_TOPIC);
  readonly #realQueue: NameBytes = nameBytes(PropertyName.REAL_QID);
  readonly #timers: readonly NameBytes[] = TIMER_PROPERTIES.map((name) => nameBytes(name));
  readonly #table = new PropertyTable();
  readonly #member = new BatchMember();
  /** What the send at hand will be remembered by, once it is appended: the key looked for last, or a batch. */
  #isPending = false;
  #batch: BatchKeys | undefined;

  private constructor(context: BrokerContext) {
    const { config, clock, random } = context;
    this.#context = context;
    this.#clock = clock;
    this.#window = new SendWindow({
      windowMs: config.gantrySendDeduplicationWindowMs,
      maxBytes: config.gantrySendDeduplicationMaxBytes,
      seed: random.int(0x7fffffff),
    });
    this.#key = nameBytes(config.gantrySendDeduplicationKey === 'KEYS' ? PropertyName.KEYS : PropertyName.UNIQ_KEY);
  }

  /** Reads the window from the log's tail; undefined if it is switched off. Before any put. @throws GantryError IO. */
  static async open(context: BrokerContext): Promise<SendDeduplication | undefined> {
    const { config, store, clock, logger } = context;
    if (!config.gantrySendDeduplicationEnable) return undefined;
    const own = new SendDeduplication(context);
    const began = clock.monotonic();
    await store.scanSince(clock.now() - config.gantrySendDeduplicationWindowMs, (bytes, record) => {
      own.#learn(bytes, record);
    });
    store.watchLog({
      cut: (offset) => own.#window.forgetFrom(offset),
      topicDeleted: (topic) => own.#window.forgetTopic(topic),
    });
    const ms = (clock.monotonic() - began).toFixed(0);
    logger.info(`send de-duplication: ${own.#window.size} messages are remembered, read from the log in ${ms} ms`);
    return own;
  }

  /** Messages that are remembered, and bytes that they take. */
  get size(): number {
    return this.#window.size;
  }

  get bytes(): number {
    return this.#window.bytes;
  }

  /**
   * Looks at a send before it is put, its properties being in `table`. True: it was sent before, and is or will be answered. False: it
   * is to be put; `ended` or `keep` then remembers it.
   */
  begin(request: Request, header: SendHeader, topic: SendTopic, table: PropertyTable): boolean {
    this.#isPending = false;
    this.#batch = undefined;
    if (isLeftOut(topic.name)) return false;
    if (header.batch && !(topic.config!.isBatchQueue && table.find(this.#uniqKey) >= 0)) {
      return this.#beginBatch(request, header, topic, table);
    }
    const index = table.find(this.#key);
    if (index < 0) return false;
    const first = this.#find(topic.name, table.sourceOf(index), table.valueStart(index), table.valueEnd(index));
    this.#isPending = first === undefined;
    if (first === undefined) return false;
    const uniqKey = table.get(this.#uniqKey);
    if (!header.batch && this.#timers.some((name) => table.find(name) >= 0)) {
      this.#answerTimer(request.defer(), topic.mapping, first, this.#waits(table), uniqKey);
    } else this.#answer(request, topic, table, [first], header.batch ? { batchUniqId: uniqKey } : {});
    return true;
  }

  /** Remembers the message, or the batch, of the last `begin`, if it was put and nobody has done so. */
  ended(result: PutResult, queueId: number): void {
    const batch = this.takeBatch();
    if (batch !== undefined) this.keepBatch(batch, result, queueId);
    else this.keep(result, queueId);
  }

  /** Remembers the single message of the last `begin`, if it was put. */
  keep(result: PutResult, queueId: number): void {
    if (!this.#isPending || result.status !== PutMessageStatus.PUT_OK) return;
    this.#isPending = false;
    this.#window.keep(result.wroteOffset, result.wroteBytes, result.queueOffset, queueId, this.#clock.now());
  }

  /** The batch of the last `begin`, which is put later. */
  takeBatch(): BatchKeys | undefined {
    const batch = this.#batch;
    this.#batch = undefined;
    return batch;
  }

  /** Where each member of a batch that waited was stored meanwhile, if all were. */
  foundBatch({ topic, keys }: BatchKeys): FirstSend[] | undefined {
    const firsts: FirstSend[] = [];
    for (const key of keys) {
      const first = key === undefined ? undefined : this.#find(topic, key, 0, key.length);
      if (first === undefined) return undefined;
      firsts.push(first);
    }
    return firsts;
  }

  keepBatch({ topic, keys }: BatchKeys, result: PutResult, queueId: number): void {
    if (result.status !== PutMessageStatus.PUT_OK) return;
    const { batchOffsets, wroteOffset, wroteBytes, queueOffset } = result;
    for (const [i, key] of keys.entries()) {
      if (key === undefined || this.#find(topic, key, 0, key.length) !== undefined) continue;
      const offset = batchOffsets[i]!;
      const bytes = (batchOffsets[i + 1] ?? wroteOffset + wroteBytes) - offset;
      this.#window.keep(offset, bytes, queueOffset + i, queueId, this.#clock.now());
    }
  }

  /** Answers what was stored before, when all of it is as durable as `waits` asks; `mapping`: of a static topic. */
  answerFirsts(
    responder: Responder,
    mapping: TopicQueueMappingDetail | undefined,
    firsts: readonly FirstSend[],
    waits: boolean,
    transactionId: string | undefined,
    more: Record<string, string | undefined> = {},
  ): void {
    this.#whenDurable(firsts, waits, (status, reason) => {
      this.#answerPlace(responder, mapping, firsts, status, reason, { transactionId, ...more });
    });
  }

  #whenDurable(
    firsts: readonly FirstSend[],
    waits: boolean,
    done: (status: PutMessageStatus, reason: string) => void,
  ): void {
    const { store, stats } = this.#context;
    stats.putDuplicates += firsts.length;
    let end = 0;
    for (const first of firsts) end = Math.max(end, first.physicalOffset + first.bytes);
    store.whenDurable(end, waits, done);
  }

  #answerPlace(
    responder: Responder,
    mapping: TopicQueueMappingDetail | undefined,
    firsts: readonly FirstSend[],
    status: PutMessageStatus,
    reason: string,
    more: Record<string, string | undefined>,
  ): void {
    const { storeHost } = this.#context;
    const [head] = firsts;
    answerPut(this.#context, responder, status, reason, () => ({
      msgId: firsts.map((first) => createOffsetMessageId(storeHost, first.physicalOffset)).join(','),
      ...logicPlaceOf(mapping, head!.queueId, head!.queueOffset),
      ...more,
    }));
  }

  /** As `answerFirsts`, with the recall handle of the first one: by its record, since the second may be asked for at another time. */
  #answerTimer(
    responder: Responder,
    mapping: TopicQueueMappingDetail | undefined,
    first: FirstSend,
    waits: boolean,
    transactionId: string | undefined,
  ): void {
    const { config, store } = this.#context;
    this.#whenDurable([first], waits, (status, reason) => {
      const answer = (record: Uint8Array | undefined): void => {
        const properties = record === undefined ? undefined : decodeMessages(record)[0]?.properties;
        const recallHandle = properties === undefined ? undefined : recallHandleOf(properties, config.brokerName);
        this.#answerPlace(responder, mapping, [first], status, reason, { transactionId, recallHandle });
      };
      store.recordAt(first.physicalOffset).then(answer, () => answer(undefined));
    });
  }

  #answer(
    request: Request,
    { mapping }: SendTopic,
    table: PropertyTable,
    firsts: readonly FirstSend[],
    more: Record<string, string | undefined> = {},
  ): void {
    this.answerFirsts(request.defer(), mapping, firsts, this.#waits(table), table.get(this.#uniqKey), more);
  }

  #waits(table: PropertyTable): boolean {
    return table.get(this.#wait)?.toLowerCase() !== 'false';
  }

  #find(topic: string, key: Uint8Array, start: number, end: number): FirstSend | undefined {
    return this.#window.find(topic, key, start, end, this.#clock.now());
  }

  #beginBatch(request: Request, header: SendHeader, topic: SendTopic, table: PropertyTable): boolean {
    const body = request.buffer.subarray(request.bodyStart, request.bodyEnd);
    const members = this.#membersOf(topic.name, body);
    // What is no batch is refused by whoever puts it.
    if (members === undefined) return false;
    const firsts = members.keys.map((key) =>
      key === undefined ? undefined : this.#find(topic.name, key, 0, key.length),
    );
    const known = firsts.filter((first) => first !== undefined);
    if (known.length === 0) {
      this.#batch = members;
      return false;
    }
    if (known.length === firsts.length) this.#answer(request, topic, table, known);
    else this.#putRest(request, header, topic, table, members, firsts, body);
    return true;
  }

  #membersOf(topic: string, body: Uint8Array): Members | undefined {
    const view = viewOf(body);
    const member = this.#member;
    const keys: Array<Uint8Array | undefined> = [];
    const starts: number[] = [];
    let at = 0;
    for (; at < body.length; at = member.end) {
      if (readBatchMember(view, at, body.length, member) !== undefined) return undefined;
      this.#table.read(body, member.propertiesStart, member.propertiesEnd);
      const index = this.#table.find(this.#key);
      keys.push(index < 0 ? undefined : this.#valueOf(index));
      starts.push(at);
    }
    starts.push(at);
    return { topic, keys, starts };
  }

  #valueOf(index: number): Uint8Array {
    const table = this.#table;
    return copyBytes(table.sourceOf(index), table.valueStart(index), table.valueEnd(index));
  }

  /** Stores those members of a batch that are not there yet: the end of it was lost in a crash, or it is another batch. */
  #putRest(
    request: Request,
    header: SendHeader,
    topic: SendTopic,
    table: PropertyTable,
    members: Members,
    firsts: Array<FirstSend | undefined>,
    body: Uint8Array,
  ): void {
    const { store, storeHost, stats } = this.#context;
    const missing = [...firsts.keys()].filter((i) => firsts[i] === undefined);
    const known = firsts.find((first) => first !== undefined)!;
    const put = new PutRequest();
    put.topic = topic.name;
    put.topicBytes = topic.bytes;
    put.queueId = header.queueId < 0 ? known.queueId : header.queueId;
    put.flag = header.flag;
    put.sysFlag = topic.isMultiTag ? header.sysFlag | SysFlag.MULTI_TAGS : header.sysFlag;
    put.bornTimestamp = header.bornTimestamp;
    put.bornHost = request.channel.remoteHost;
    put.storeHost = storeHost;
    put.reconsumeTimes = header.reconsumeTimes;
    put.batch = true;
    put.waitStoreMsgOK = this.#waits(table);
    put.body = Buffer.concat(missing.map((i) => body.subarray(members.starts[i]!, members.starts[i + 1]!)));
    put.bodyEnd = put.body.length;
    const result = new PutResult();
    store.put(put, result);
    if (result.status !== PutMessageStatus.PUT_OK) {
      refuseStatus(this.#context, request, result.status, result.reason);
      return;
    }
    stats.stored(topic.puts, result);
    // Those that are new are no duplicates.
    stats.putDuplicates -= missing.length;
    this.keepBatch({ topic: topic.name, keys: missing.map((i) => members.keys[i]) }, result, put.queueId);
    const all = firsts.map((first, i) => {
      if (first !== undefined) return first;
      const place = missing.indexOf(i);
      const physicalOffset = result.batchOffsets[place]!;
      const bytes = result.wroteOffset + result.wroteBytes - physicalOffset;
      return { physicalOffset, bytes, queueOffset: result.queueOffset + place, queueId: put.queueId };
    });
    this.#answer(request, topic, table, all);
  }

  /** A record of the log's tail. */
  #learn(bytes: Uint8Array, record: RecordView): void {
    // The end of a transaction; its beginning is what was sent.
    if ((record.sysFlag & TRANSACTION_ENDED) !== 0) return;
    const table = this.#table;
    table.read(bytes, record.propertiesStart, record.propertiesEnd);
    const index = table.find(this.#key);
    if (index < 0) return;
    let topic = Buffer.from(bytes.subarray(record.topicStart, record.topicEnd)).toString('utf8');
    let { queueId } = record;
    const realTopic = table.get(this.#realTopic);
    if (WAITING_TOPICS.includes(topic)) {
      if (realTopic === undefined) return;
      topic = realTopic;
      queueId = Number(table.get(this.#realQueue)) | 0;
    } else if (realTopic === topic) {
      // The broker's own copy of one that waited.
      return;
    }
    if (isLeftOut(topic)) return;
    const [start, end] = [table.valueStart(index), table.valueEnd(index)];
    if (this.#window.find(topic, table.sourceOf(index), start, end, record.storeTimestamp) !== undefined) return;
    this.#window.keep(record.physicalOffset, record.totalSize, record.queueOffset, queueId, record.storeTimestamp);
  }
}

function isLeftOut(topic: string): boolean {
  return topic.startsWith(names.RETRY_GROUP_TOPIC_PREFIX) || topic.startsWith(names.DLQ_GROUP_TOPIC_PREFIX);
}
