// Half messages on the fast way of a send: the bytes of the properties are completed and the record goes to RMQ_SYS_TRANS_HALF_TOPIC, without
// an object for the message. RocketMQ: TransactionalMessageBridge#parseHalfMessageInner.

import { copy, type NameBytes, nameBytes, PropertyName, type PropertyTable, SysFlag } from '../../message/index.ts';
import type { PutRequest } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { TRANS_HALF_TOPIC } from '../topic/topic-names.ts';
import type { TrafficCount } from '../traffic-stats.ts';

const TRUE = Buffer.from('true');
/** Makes an ASCII capital small. */
const SMALL = 0x20;
/** Longest pair that is kept room for at first. */
const FIRST_ROOM = 256;

export class HalfSends {
  readonly #context: BrokerContext;
  readonly #others: readonly NameBytes[];
  readonly #transaction = nameBytes(PropertyName.TRAN_MSG);
  readonly #id = nameBytes(PropertyName.TRANSACTION_ID);
  readonly #topic = nameBytes(PropertyName.REAL_TOPIC);
  readonly #queue = nameBytes(PropertyName.REAL_QID);
  #idPair: Uint8Array;
  #topicPair: Uint8Array;
  /** By queue. */
  readonly #queuePairs: Uint8Array[] = [];
  readonly #halfTopic: Uint8Array = Buffer.from(TRANS_HALF_TOPIC);

  /** `special`: properties with which a send does not go the fast way. */
  constructor(context: BrokerContext, special: readonly NameBytes[]) {
    this.#context = context;
    this.#others = special.filter(({ hash }) => hash !== this.#transaction.hash);
    this.#idPair = pairOf(this.#id, FIRST_ROOM);
    this.#topicPair = pairOf(this.#topic, FIRST_ROOM);
  }

  /** Whether a send is half of a transaction with nothing else to rewrite or to refuse. */
  takes(table: PropertyTable, sysFlag: number): boolean {
    if ((sysFlag & SysFlag.INNER_BATCH) !== 0 || this.#context.config.rejectTransactionMessage) return false;
    const index = table.find(this.#transaction);
    if (index < 0) return false;
    const start = table.valueStart(index);
    if (table.valueEnd(index) - start !== TRUE.length) return false;
    const source = table.sourceOf(index);
    for (let i = 0; i < TRUE.length; i++) if ((source[start + i]! | SMALL) !== TRUE[i]) return false;
    for (const name of this.#others) if (table.find(name) >= 0) return false;
    return true;
  }

  /** Turns a put, whose properties are complete but for this, into that of a half message; `uniqKey` is the index of UNIQ_KEY. */
  rewrite(put: PutRequest, table: PropertyTable, uniqKey: number, topic: Uint8Array): void {
    const start = table.valueStart(uniqKey);
    const end = table.valueEnd(uniqKey);
    const idAt = this.#id.bytes.length + 1;
    if (this.#idPair.length < idAt + end - start) this.#idPair = pairOf(this.#id, 2 * (end - start));
    table.putPair(this.#id, this.#idPair, copy(table.sourceOf(uniqKey), start, end, this.#idPair, idAt));
    const topicAt = this.#topic.bytes.length + 1;
    if (this.#topicPair.length < topicAt + topic.length) this.#topicPair = pairOf(this.#topic, 2 * topic.length);
    table.putPair(this.#topic, this.#topicPair, copy(topic, 0, topic.length, this.#topicPair, topicAt));
    const { queueId } = put;
    this.#queuePairs[queueId] ??= Buffer.from(`${PropertyName.REAL_QID}\u0001${queueId}`);
    table.putPair(this.#queue, this.#queuePairs[queueId]);
    put.topic = TRANS_HALF_TOPIC;
    put.topicBytes = this.#halfTopic;
    put.queues = this.#context.store.queuesOf(TRANS_HALF_TOPIC);
    put.queueId = 0;
    put.sysFlag &= ~SysFlag.TRANSACTION_MASK;
  }

  /** Takes in that a half message was appended, also should its write fail; answers the count that it belongs to. */
  stored(topic: string): TrafficCount {
    const { transactions, traffic } = this.#context;
    transactions.metrics.add(topic, 1);
    transactions.wake();
    return traffic.puts.of(TRANS_HALF_TOPIC);
  }
}

/** Room for a pair of this name and a value of so many bytes. */
function pairOf({ bytes }: NameBytes, valueBytes: number): Uint8Array {
  const pair = new Uint8Array(bytes.length + 1 + valueBytes);
  pair.set(bytes);
  pair[bytes.length] = 1;
  return pair;
}
