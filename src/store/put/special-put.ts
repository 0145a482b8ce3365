// Puts with something to rewrite: inner batches (one record that holds many messages) and messages that name light queues. They come here
// instead of taking the fast way, and leave with their properties completed for the one encoder.
//
//   check before put (the store's guard) ─► INNER_NUM and the inner-batch flag ─► delay (the broker) ─► quota of light queues
//        ─► INNER_BASE, the queue's next offset ─► INNER_MULTI_QUEUE_OFFSET, the next ordinal of each light queue ─► append ─► count on
//
// Nearly all of them name one light queue that is there: those make no string and no copy, and leave with the table that they came with.
//
// RocketMQ: HookUtils#checkInnerBatch and #handleLmqQuota, BatchConsumeQueue#assignQueueOffset, LmqDispatch.

import { writeDigits } from '../../common/index.ts';
import { nameBytes, PropertyName, PropertyTable, SysFlag } from '../../message/index.ts';
import {
  type ConsumeQueue,
  canBeFolder,
  isLightQueue,
  isOneLightName,
  type QueueKinds,
} from '../consume-queue/index.ts';
import { DISPATCH_SEPARATOR, dispatchNames, innerCount, mayNameLightQueues } from '../dispatch/multi-dispatch.ts';
import { RecordProperties } from '../dispatch/record-properties.ts';
import type { MessageStoreConfig } from '../store-config.ts';
import { PutMessageStatus, PutRequest, type PutResult } from './put.ts';

const INNER_NUM = nameBytes(PropertyName.INNER_NUM);
const INNER_BASE = nameBytes(PropertyName.INNER_BASE);
const MULTI_DISPATCH = nameBytes(PropertyName.INNER_MULTI_DISPATCH);
const MULTI_QUEUE_OFFSET = nameBytes(PropertyName.INNER_MULTI_QUEUE_OFFSET);

/** Digits of the largest ordinal. */
const MOST_DIGITS = 16;

/** A light queue that a put names; without a queue it has none yet. */
interface LightPlace {
  readonly name: string;
  readonly queue: ConsumeQueue | undefined;
  readonly ordinal: number;
}

export class SpecialPuts {
  /** What is to be appended, after `prepare` has answered PUT_OK. */
  request: PutRequest = new PutRequest();
  /** Queue offsets that the record takes. */
  count = 1;
  /** Whether it names light queues: RocketMQ has other limits and answers for it. */
  isLight = false;

  /** Topics whose deletion is under way: a light queue among them takes nothing. */
  deleting: ReadonlySet<string> = new Set();
  readonly #kinds: QueueKinds;
  readonly #config: MessageStoreConfig;
  readonly #own = new PutRequest();
  readonly #scan = new RecordProperties();
  /** Light queues that exist, while a quota needs their number. */
  #known: Set<string> | undefined;
  readonly #table = new PropertyTable();
  #light: LightPlace[] = [];
  /** The only light queue of a put that goes the short way. */
  #one: ConsumeQueue | undefined;
  /** INNER_MULTI_QUEUE_OFFSET and an ordinal, filled anew for each of those. */
  readonly #offsetPair = new Uint8Array(MULTI_QUEUE_OFFSET.bytes.length + 1 + MOST_DIGITS);

  constructor(kinds: QueueKinds, config: MessageStoreConfig) {
    this.#kinds = kinds;
    this.#config = config;
    this.#offsetPair.set(MULTI_QUEUE_OFFSET.bytes);
    this.#offsetPair[MULTI_QUEUE_OFFSET.bytes.length] = 1;
  }

  /** Looks at a put and completes it; any status but PUT_OK refuses it, with a reason in `result`. Nothing is changed yet. */
  prepare(request: PutRequest, result: PutResult): PutMessageStatus {
    this.request = request;
    this.count = 1;
    this.isLight = false;
    this.#one = undefined;
    const isInnerBatch = (request.sysFlag & SysFlag.INNER_BATCH) !== 0;
    const given = request.propertyTable;
    if (!isInnerBatch && given instanceof PropertyTable && this.#placeInOne(given, request.topic))
      return PutMessageStatus.PUT_OK;
    if (!isInnerBatch && !this.#namesInner(request)) return PutMessageStatus.PUT_OK;
    const table = this.#read(request);
    if (!isInnerBatch && given === undefined && this.#placeInOne(table, request.topic)) {
      this.request = this.#with(request, table);
      return PutMessageStatus.PUT_OK;
    }
    const innerNum = table.get(INNER_NUM);
    if (innerNum !== undefined && !isInnerBatch) {
      return refuse(result, 'the property INNER_NUM needs the inner-batch flag');
    }
    if (isInnerBatch && this.#kinds.isBatch(request.topic) === false) {
      return refuse(
        result,
        `the topic ${request.topic} is not of the type BatchCQ: it takes no record with many messages`,
      );
    }
    if (isInnerBatch && innerNum !== undefined) {
      this.count = innerCount(innerNum);
      if (this.count < 0) return refuse(result, `INNER_NUM is ${innerNum}: a record holds 1 to 32767 messages`);
    }
    const names = this.#lightNames(request.topic, table);
    const deleted = this.deleting.size > 0 ? names.find((name) => this.deleting.has(name)) : undefined;
    if (deleted !== undefined) {
      result.reason = `the light queue ${deleted} is being deleted`;
      return PutMessageStatus.SERVICE_NOT_AVAILABLE;
    }
    const quota = this.#overQuota(names);
    if (quota !== undefined) {
      result.reason = quota;
      return PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED;
    }
    if (isInnerBatch) {
      const next = this.#kinds.batch.find(request.topic, request.queueId)?.nextOffset ?? 0;
      table.put(INNER_BASE, Buffer.from(String(next)));
    }
    this.#light.length = 0;
    if (names.length > 0) {
      this.isLight = true;
      table.put(MULTI_QUEUE_OFFSET, Buffer.from(this.#placesIn(names)));
    }
    this.request = this.#with(request, table);
    return PutMessageStatus.PUT_OK;
  }

  /** Whether a put names one light queue, which is there, and nothing else is to be done; its table is completed then. */
  #placeInOne(table: PropertyTable, topic: string): boolean {
    const { enableLmq, enableLmqQuota } = this.#config;
    if (!enableLmq || enableLmqQuota || this.deleting.size > 0 || table.find(INNER_NUM) >= 0) return false;
    const index = table.find(MULTI_DISPATCH);
    if (index < 0) return false;
    const names = table.sourceOf(index);
    const start = table.valueStart(index);
    const end = table.valueEnd(index);
    if (!isOneLightName(names, start, end) || !mayNameLightQueues(topic)) return false;
    const queue = this.#kinds.plain.light(names, start, end);
    if (queue === undefined) return false;
    this.#one = queue;
    this.isLight = true;
    const pair = this.#offsetPair;
    table.putPair(MULTI_QUEUE_OFFSET, pair, writeDigits(queue.nextOffset, pair, MULTI_QUEUE_OFFSET.bytes.length + 1));
    return true;
  }

  /** The record is appended: its light queues count on. RocketMQ: a name that is listed twice counts twice, which leaves a hole. */
  appended(): void {
    if (!this.isLight) return;
    if (this.#one !== undefined) {
      this.#one.nextOffset++;
      return;
    }
    for (const { name, queue, ordinal } of this.#light) {
      if (queue === undefined && !canBeFolder(name)) continue;
      (queue ?? this.#kinds.plain.findOrCreate(name, 0)).nextOffset = ordinal + 1;
      this.#known?.add(name);
    }
  }

  /** Queues were removed: what was counted counts no longer. */
  forget(): void {
    this.#known = undefined;
  }

  #read(request: PutRequest): PropertyTable {
    const text = request.propertyTable;
    const table = this.#table;
    if (text === undefined) table.read(request.properties, request.propertiesStart, request.propertiesEnd);
    else {
      const bytes = new Uint8Array(text.bytes());
      table.read(bytes, 0, text.write(bytes, 0));
    }
    return table;
  }

  #namesInner(request: PutRequest): boolean {
    if (request.propertyTable !== undefined) return true;
    this.#scan.scan(request.properties, request.propertiesStart, request.propertiesEnd);
    return this.#scan.hasInner;
  }

  /** Finds the next ordinal of each light queue, as the record will say it. RocketMQ: a name that is no light queue's gets an empty item. */
  #placesIn(names: readonly string[]): string {
    let text = '';
    for (let i = 0; i < names.length; i++) {
      if (i > 0) text += DISPATCH_SEPARATOR;
      const name = names[i]!;
      if (!isLightQueue(name)) continue;
      let place = names.length > 1 ? this.#light.find((other) => other.name === name) : undefined;
      if (place === undefined) {
        const queue = this.#kinds.plain.find(name, 0);
        place = { name, queue, ordinal: queue?.nextOffset ?? 0 };
        this.#light.push(place);
      }
      text += place.ordinal;
    }
    return text;
  }

  /** RocketMQ: needDispatchLMQ, with enableLmq. */
  #lightNames(topic: string, table: PropertyTable): string[] {
    if (!this.#config.enableLmq) return [];
    const names = table.get(MULTI_DISPATCH) ?? '';
    if (names.trim() === '' || !mayNameLightQueues(topic)) return [];
    return dispatchNames(names);
  }

  #overQuota(names: readonly string[]): string | undefined {
    const { enableLmqQuota, enableMultiDispatch, maxLmqConsumeQueueNum } = this.#config;
    if (!enableLmqQuota || !enableMultiDispatch || names.length === 0) return undefined;
    this.#known ??= new Set([...this.#kinds.plain.all()].map(({ topic }) => topic).filter(isLightQueue));
    const known = this.#known;
    // RocketMQ: one message makes any number of them while one is left.
    if (known.size + names.length <= maxLmqConsumeQueueNum) return undefined;
    const fresh = new Set(names.filter((name) => isLightQueue(name) && !known.has(name)));
    if (fresh.size === 0 || known.size + fresh.size <= maxLmqConsumeQueueNum) return undefined;
    const [first] = fresh;
    return `there are ${known.size} light queues, the limit maxLmqConsumeQueueNum is ${maxLmqConsumeQueueNum}; ${first} would be another`;
  }

  #with(request: PutRequest, table: PropertyTable): PutRequest {
    const own = this.#own;
    own.topic = request.topic;
    own.topicBytes = request.topicBytes;
    own.queueId = request.queueId;
    own.queues = request.queues;
    own.flag = request.flag;
    own.sysFlag = request.sysFlag;
    own.bornTimestamp = request.bornTimestamp;
    own.bornHost = request.bornHost;
    own.storeHost = request.storeHost;
    own.reconsumeTimes = request.reconsumeTimes;
    own.preparedTransactionOffset = request.preparedTransactionOffset;
    own.body = request.body;
    own.bodyStart = request.bodyStart;
    own.bodyEnd = request.bodyEnd;
    own.propertyTable = table;
    return own;
  }
}

function refuse(result: PutResult, reason: string): PutMessageStatus {
  result.reason = reason;
  return PutMessageStatus.MESSAGE_ILLEGAL;
}
