// END_TRANSACTION (37), mostly one-way: a producer says what became of a half message. RocketMQ: EndTransactionProcessor.
//
//   half message in the log's memory ─► its bytes, but for two properties, are put once more ─► answer parked    (fast: this file)
//        └─ on disk, refused, asked about before, with an own immunity time, ... ─► the message as an object     (slow-ends.ts)
//
// No object is made per message on the fast way: properties, request and result are this processor's own, filled anew.

import { sameBytes } from '../../common/index.ts';
import {
  copy,
  type NameBytes,
  nameBytes,
  PropertyName,
  PropertyTable,
  RecordView,
  SysFlag,
} from '../../message/index.ts';
import { type Request, RequestCode, ResponseCode } from '../../remoting/index.ts';
import { isStored, PutMessageStatus, PutRequest, PutResult } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { type HandlerRegistry, NO_REMARK_SET } from '../processor/registry.ts';
import { SendAckPool } from '../processor/send-acks.ts';
import { type SendTopic, SendTopics } from '../processor/send-topics.ts';
import { TurnAcks } from '../processor/turn-acks.ts';
import { TRANS_HALF_TOPIC } from '../topic/topic-names.ts';
import { refusalOf } from './end-outcome.ts';
import { type End, SlowEnds } from './slow-ends.ts';

/** With one of these a half message takes the slow way. */
const SLOW = [
  PropertyName.CHECK_IMMUNITY_TIME,
  PropertyName.TRANSACTION_CHECK_TIMES,
  PropertyName.DELAY,
  PropertyName.CRC32,
  PropertyName.INNER_NUM,
  PropertyName.INNER_BASE,
  PropertyName.INNER_MULTI_DISPATCH,
  PropertyName.INNER_MULTI_QUEUE_OFFSET,
];
const LETTER_F = 0x66;
const ZERO = 0x30;
/** Digits of the number of a queue. */
const MOST_DIGITS = 9;

export class EndTransactionProcessor {
  readonly #context: BrokerContext;
  readonly #slow: SlowEnds;
  readonly #record = new RecordView();
  readonly #table = new PropertyTable();
  readonly #put = new PutRequest();
  readonly #result = new PutResult();
  readonly #topics: SendTopics;
  readonly #halfTopic: Uint8Array = Buffer.from(TRANS_HALF_TOPIC);
  readonly #slowNames: readonly NameBytes[] = SLOW.map(nameBytes);
  readonly #group = nameBytes(PropertyName.PGROUP);
  readonly #topic = nameBytes(PropertyName.REAL_TOPIC);
  readonly #queue = nameBytes(PropertyName.REAL_QID);
  readonly #hosts = [new Uint8Array(8), new Uint8Array(20)] as const;

  readonly #acks: TurnAcks;

  constructor(context: BrokerContext) {
    this.#context = context;
    this.#slow = new SlowEnds(context);
    this.#topics = new SendTopics(context);
    const pool = new SendAckPool((writer, old, status) => {
      const refusal = isStored(status) ? undefined : refusalOf(status, context.store.config.maxMessageSize);
      writer.response(refusal?.code ?? ResponseCode.SUCCESS, old.opaque, refusal?.remark);
    });
    this.#acks = new TurnAcks(context.store, pool, false);
    const put = this.#put;
    put.storeHost = context.storeHost;
    put.waitStoreMsgOK = false;
    put.plain = true;
    put.propertyTable = this.#table;
  }

  register(registry: HandlerRegistry): void {
    registry.register(RequestCode.END_TRANSACTION, (request) => this.#handle(request));
  }

  #handle(request: Request): void {
    const { header } = request;
    const outcome = header.int('commitOrRollback');
    if (outcome !== SysFlag.TRANSACTION_COMMIT && outcome !== SysFlag.TRANSACTION_ROLLBACK) {
      this.#slow.notEnded(request, outcome);
      return;
    }
    const commit = outcome === SysFlag.TRANSACTION_COMMIT;
    const queueOffset = header.long('tranStateTableOffset');
    const commitLogOffset = header.long('commitLogOffset');
    if (this.#end(request, queueOffset, commitLogOffset, commit)) return;
    const end: End = {
      group: header.get('producerGroup'),
      queueOffset,
      commitLogOffset,
      commit,
      fromCheck: this.#isFromCheck(request),
    };
    this.#slow.end(request, end);
  }

  #isFromCheck({ header }: Request): boolean {
    const index = header.indexOf('fromTransactionCheck');
    if (index >= 0 && header.buffer[header.ranges[4 * index + 2]!] === LETTER_F) return false;
    return header.bool('fromTransactionCheck', false);
  }

  /** Ends a transaction in which there is nothing unusual; false, with nothing done, if there is. */
  #end(request: Request, queueOffset: number, commitLogOffset: number, commit: boolean): boolean {
    const { store, transactions } = this.#context;
    const record = this.#record;
    const bytes = store.recordInMemory(commitLogOffset, record);
    if (bytes === undefined || record.queueOffset !== queueOffset || !this.#isHalf(bytes, record)) return false;
    const table = this.#table;
    table.read(bytes, record.propertiesStart, record.propertiesEnd);
    const group = table.find(this.#group);
    const topic = table.find(this.#topic);
    if (group < 0 || topic < 0 || !this.#isGroup(request, table, group)) return false;
    for (const name of this.#slowNames) if (table.find(name) >= 0) return false;
    const queueId = this.#queueId(table);
    const origin = this.#topics.topicOf(bytes, table.valueStart(topic), table.valueEnd(topic));
    if (queueId < 0 || origin.name === TRANS_HALF_TOPIC) return false;
    const halfQueueId = record.queueId;
    if (transactions.queue(halfQueueId).hasEnded(queueOffset) || !transactions.ops.hasRoom(halfQueueId)) return false;
    if (commit) return this.#commit(request, bytes, origin, queueId);
    transactions.ended(halfQueueId, queueOffset, origin.name);
    request.respond(ResponseCode.SUCCESS, NO_REMARK_SET);
    return true;
  }

  #isHalf(bytes: Uint8Array, record: RecordView): boolean {
    const name = this.#halfTopic;
    return (
      record.topicEnd - record.topicStart === name.length &&
      sameBytes(bytes, record.topicStart, name, 0, name.length) &&
      (record.sysFlag & SysFlag.INNER_BATCH) === 0
    );
  }

  /** Whether the request names the group of the half message, which is entry `index`. */
  #isGroup({ header }: Request, table: PropertyTable, index: number): boolean {
    const start = table.valueStart(index);
    const length = table.valueEnd(index) - start;
    const field = header.indexOf('producerGroup');
    if (field < 0 || header.escaped[field] === 1) return header.get('producerGroup') === table.valueText(index);
    const from = header.ranges[4 * field + 2]!;
    return (
      header.ranges[4 * field + 3]! - from === length &&
      sameBytes(header.buffer, from, table.sourceOf(index), start, length)
    );
  }

  /** The queue that the half message is for; -1 if it does not tell. */
  #queueId(table: PropertyTable): number {
    const index = table.find(this.#queue);
    if (index < 0) return -1;
    const source = table.sourceOf(index);
    const start = table.valueStart(index);
    const end = table.valueEnd(index);
    if (end - start > MOST_DIGITS) return -1;
    let value = 0;
    for (let at = start; at < end; at++) {
      const digit = source[at]! - ZERO;
      if (digit < 0 || digit > 9) return -1;
      value = value * 10 + digit;
    }
    return value;
  }

  /** Stores the message of the half message that was read last. */
  #commit(request: Request, bytes: Uint8Array, origin: SendTopic, queueId: number): boolean {
    const { store, transactions, stats } = this.#context;
    const record = this.#record;
    const table = this.#table;
    table.remove(table.find(this.#topic));
    table.remove(table.find(this.#queue));
    const put = this.#put;
    put.topic = origin.name;
    put.topicBytes = origin.bytes;
    put.queues = origin.queues;
    put.queueId = queueId;
    put.flag = record.flag;
    put.sysFlag = (record.sysFlag & ~SysFlag.TRANSACTION_MASK) | SysFlag.TRANSACTION_COMMIT;
    put.bornTimestamp = record.bornTimestamp;
    const host = this.#hosts[record.bornHostEnd - record.bornHostStart === this.#hosts[0].length ? 0 : 1];
    copy(bytes, record.bornHostStart, record.bornHostEnd, host, 0);
    put.bornHost = host;
    put.reconsumeTimes = record.reconsumeTimes;
    put.preparedTransactionOffset = record.physicalOffset;
    put.body = bytes;
    put.bodyStart = record.bodyStart;
    put.bodyEnd = record.bodyEnd;
    const result = this.#result;
    store.put(put, result);
    // The slow way comes to the same end, and says so.
    if (result.status !== PutMessageStatus.PUT_OK) return false;
    stats.stored(origin.puts, result);
    const end = result.wroteOffset + result.wroteBytes;
    transactions.pending.add(record.queueId, record.queueOffset, origin.name, end);
    if (request.oneway) return true;
    request.takeOver();
    this.#acks.writerOf(request.channel, end).response(ResponseCode.SUCCESS, request.opaque, null);
    return true;
  }

  /** Called at the end of each turn of the server. */
  endTurn(): void {
    this.#context.transactions.pending.endTurn();
    this.#acks.endTurn();
  }
}
