// What goes in and what comes out: the message that a caller sends, the result of a send, and the message that a listener is given.

import { PropertyName, type StoredMessage, SysFlag } from '../message/index.ts';
import { decompressBody } from './compression.ts';
import type { MessageQueue } from './queues.ts';

/** A message to send. */
export interface Message {
  topic: string;
  /** At least one byte; a string is sent as UTF-8. Java brokers refuse empty bodies. */
  body: Uint8Array | string;
  /** One tag, by which consumers filter. */
  tags?: string;
  /** Index keys, by which a message can be found later; no key may hold a blank. */
  keys?: string | readonly string[];
  /** The application's own properties. Names that RocketMQ reserves are refused. */
  properties?: Readonly<Record<string, string>>;
  /** A number of the application's own; brokers only carry it. Default 0. */
  flag?: number;
  /** Delay level from 1 on (brokers: 1s 5s 10s 30s 1m 2m ... 10m 20m 30m 1h 2h). At most one of the four delays may be given. */
  delayLevel?: number;
  /** Deliver after this many milliseconds (RocketMQ 5 brokers with a timer). */
  delayMs?: number;
  /** The same in whole seconds. */
  delaySeconds?: number;
  /** Deliver at this time, in ms since the Unix epoch (RocketMQ 5 brokers with a timer). */
  deliverAt?: number;
  /** Messages with the same sharding key go to the same queue, chosen as Java's SelectMessageQueueByHash does, and are not retried elsewhere. */
  shardingKey?: string;
  /**
   * From 0 on; more is sooner (RocketMQ 5.5 brokers, topics of the type PRIORITY, groups that pop). It chooses the queue, and counts for nothing
   * beside a delay or a sharding key.
   */
  priority?: number;
  /** False: the broker may answer before a flush or a replica. Default true. */
  waitStoreMsgOK?: boolean;
}

/** How the broker stored a message. All but SEND_OK mean: stored, but not (yet) as safe as the broker is told to make it. */
export type SendStatus = 'SEND_OK' | 'FLUSH_DISK_TIMEOUT' | 'FLUSH_SLAVE_TIMEOUT' | 'SLAVE_NOT_AVAILABLE';

/** Where a message went. */
export interface SendResult {
  status: SendStatus;
  /** The id that the client gave it (UNIQ_KEY); the one to log. For a batch: all of them, joined by commas. */
  msgId: string;
  /** The id that the broker gave it: address and position. For a batch: all of them, joined by commas. */
  offsetMsgId: string;
  queue: MessageQueue;
  /** Position in the queue; of a batch, the first member's. Delayed messages: the position in the broker's own delay topic. */
  queueOffset: number;
  /** What the broker calls the transaction of a half message (UNIQ_KEY); undefined if it said nothing. */
  transactionId: string | undefined;
  /** Timer messages only: with this handle the delivery can be recalled (`Producer.recall`). */
  recallHandle: string | undefined;
}

/** What a ReceivedMessage is made of, beside the stored message: the queue that it was pulled or popped from. */
export interface ReceivedFrom {
  queue: MessageQueue;
  /** The topic to show, when the message lay in a retry topic. */
  topic?: string;
  /** Of popped messages. */
  handle?: string;
  visibleAt?: number;
}

/** A message that was received. RocketMQ: MessageExt. */
export class ReceivedMessage {
  /** The topic that it was first sent to, also when it comes from a retry topic. */
  readonly topic: string;
  /** The queue that it was read from. */
  readonly queue: MessageQueue;
  readonly queueOffset: number;
  /** Start of the record in the broker's CommitLog. */
  readonly physicalOffset: number;
  /** The id that the producer gave it (UNIQ_KEY), or the broker's if there is none. */
  readonly msgId: string;
  /** The id that the broker gave it. */
  readonly offsetMsgId: string;
  readonly tags: string | undefined;
  readonly keys: readonly string[];
  readonly properties: ReadonlyMap<string, string>;
  readonly flag: number;
  readonly sysFlag: number;
  readonly bornTimestamp: number;
  /** `ip:port` of the producer. */
  readonly bornHost: string;
  readonly storeTimestamp: number;
  /** `ip:port` of the broker. */
  readonly storeHost: string;
  /** Bytes of the record in the broker. */
  readonly storeSize: number;
  /** The body as it travelled: still compressed if the sysFlag says so. */
  readonly storedBody: Uint8Array;
  #reconsumeTimes: number;
  #receiptHandle: string | undefined;
  #visibleAt: number | undefined;
  #body: Uint8Array | undefined;

  constructor(stored: StoredMessage, from: ReceivedFrom) {
    const properties = stored.properties;
    this.topic = from.topic ?? stored.topic;
    this.queue = from.queue;
    this.queueOffset = stored.queueOffset;
    this.physicalOffset = stored.physicalOffset;
    this.msgId = stored.messageId;
    this.offsetMsgId = stored.offsetMessageId;
    this.tags = properties.get(PropertyName.TAGS);
    this.keys = (properties.get(PropertyName.KEYS) ?? '').split(' ').filter((key) => key !== '');
    this.properties = properties;
    this.flag = stored.flag;
    this.sysFlag = stored.sysFlag;
    this.bornTimestamp = stored.bornTimestamp;
    this.bornHost = stored.bornHost;
    this.storeTimestamp = stored.storeTimestamp;
    this.storeHost = stored.storeHost;
    this.storeSize = stored.storeSize;
    this.storedBody = stored.body;
    this.#reconsumeTimes = stored.reconsumeTimes;
    this.#receiptHandle = from.handle;
    this.#visibleAt = from.visibleAt;
    if ((stored.sysFlag & SysFlag.COMPRESSED) === 0) this.#body = stored.body;
  }

  /** How often consuming it has failed so far. */
  get reconsumeTimes(): number {
    return this.#reconsumeTimes;
  }

  /** By what a popped message is acknowledged (POP_CK); undefined for one that was pulled. A change of its invisible time makes a new one. */
  get receiptHandle(): string | undefined {
    return this.#receiptHandle;
  }

  /** When the broker delivers a popped message again if it is not acknowledged: ms since the Unix epoch, by the broker's clock. */
  get visibleAt(): number | undefined {
    return this.#visibleAt;
  }

  /**
   * The body as the producer handed it in; decompressed at the first access.
   * @throws GantryError MESSAGE when it is compressed in a way that this client cannot read (the text names it) or is damaged.
   */
  get body(): Uint8Array {
    this.#body ??= decompressBody(this.storedBody, this.sysFlag);
    return this.#body;
  }

  /** The body as UTF-8 text. @throws as `body`. */
  text(): string {
    const body = this.body;
    return Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8');
  }

  /** @internal The message has a new handle. */
  renew(receiptHandle: string, visibleAt: number): void {
    this.#receiptHandle = receiptHandle;
    this.#visibleAt = visibleAt;
  }

  /** @internal A try failed and the message is tried again in this process. */
  countRetryHere(): void {
    this.#reconsumeTimes++;
  }
}
