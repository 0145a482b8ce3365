// Pops and what follows them: POP_MESSAGE (200050), ACK_MESSAGE (200051), BATCH_ACK_MESSAGE (200151) and CHANGE_MESSAGE_INVISIBLETIME
// (200053). A pop takes messages out of sight for a while; the broker delivers again what is not acknowledged by then.
// RocketMQ: MQClientAPIImpl#processPopResponse, #batchAckMessageAsync, #changeInvisibleTimeAsync.
//
// An answer says where each message lay, and from which offset on each queue was popped; both go into the message's receipt handle:
//
//   startOffsetInfo   0 3 120;1 0 7          retry flag, queue id, start offset
//   orderCountInfo    0 qo3%121 2;0 0 1      deliveries so far, of an offset or of a whole queue; pops in order only

import { GantryError } from '../common/index.ts';
import {
  type BatchAck,
  decodeMessages,
  encodeBatchAcks,
  PropertyName,
  parseNumberInfo,
  parseReceiptHandle,
  type ReceiptHandle,
  realTopicOf,
  receiptHandleText,
  retryFlagOf,
  type StoredMessage,
} from '../message/index.ts';
import { type RemotingResponse, RequestCode, ResponseCode } from '../remoting/index.ts';
import { BrokerError, expectSuccess } from './client-errors.ts';
import type { ClientInstance } from './client-instance.ts';
import { ReceivedMessage } from './message-types.ts';
import { unwrap } from './pull-kernel.ts';
import { type MessageQueue, queueText } from './queues.ts';
import { type SubscriptionData, wantsTag } from './subscription.ts';

/** The queue id of a pop from whichever queue has something. */
export const ANY_QUEUE = -1;
/** How long an answer may take after the broker has stopped waiting. RocketMQ: PullAPIWrapper#popAsync. */
const ANSWER_MS = 10_000;
/** A message further behind the start of its pop is acknowledged by itself: a batch has a bit for each offset up to it. */
const BATCH_SPAN = 0x1_0000;

/**
 * A pop that may wait and comes back empty within so many ms did not wait: a broker whose clock is far from ours takes it for one that is
 * over. The next one comes after a pause.
 */
export const AT_ONCE_MS = 20;
export const AT_ONCE_PAUSE_MS = 50;

/** How the answer of a pop is to be taken. */
export type PopStatus = 'FOUND' | 'NOTHING' | 'POLLING_FULL';

/** The answer of a pop. */
export interface PopResult {
  status: PopStatus;
  messages: ReceivedMessage[];
  /** Popped, but not wanted: two tags may share a hash. They are to be acknowledged unseen. */
  unwanted: ReceivedMessage[];
}

/** What to pop. */
export interface PopRequest {
  group: string;
  /** Queue id -1: any queue of the topic on this broker. */
  queue: MessageQueue;
  subscription: SubscriptionData;
  maxMessages: number;
  /** Ms out of sight of the others. */
  invisibleMs: number;
  /** Ms that the broker may hold the request; 0 for not at all. */
  pollMs: number;
  /** Where a group without an offset begins: 0 at the first message, 1 behind the last. */
  initMode: 0 | 1;
  /** One member after the other for each queue, and nothing while messages of it are out of sight. */
  inOrder: boolean;
}

const STATUS: ReadonlyMap<number, PopStatus> = new Map([
  [ResponseCode.SUCCESS, 'FOUND'],
  [ResponseCode.PULL_NOT_FOUND, 'NOTHING'],
  [ResponseCode.POLLING_TIMEOUT, 'NOTHING'],
  [ResponseCode.POLLING_FULL, 'POLLING_FULL'],
]);

/** Pops for one group. */
export class PopKernel {
  readonly #client: ClientInstance;
  readonly #group: string;

  constructor(client: ClientInstance, group: string) {
    this.#client = client;
    this.#group = group;
  }

  /** @throws BrokerError for answers that are no pop results, GantryError NO_ROUTE and REMOTING_... */
  async pop(request: PopRequest): Promise<PopResult> {
    const { queue, subscription } = request;
    const address = await this.#client.masterAddress(queue);
    const response = await this.#client.invokeBroker(
      address,
      RequestCode.POP_MESSAGE,
      {
        consumerGroup: request.group,
        topic: queue.topic,
        queueId: queue.queueId,
        maxMsgNums: request.maxMessages,
        invisibleTime: request.invisibleMs,
        pollTime: request.pollMs,
        bornTime: this.#client.clock.now(),
        initMode: request.initMode,
        expType: subscription.expressionType,
        exp: subscription.subString,
        order: request.inOrder,
        bname: queue.brokerName,
      },
      null,
      request.pollMs + ANSWER_MS,
    );
    const status = STATUS.get(response.code);
    if (status === undefined) throw new BrokerError(`a pop from ${popText(queue)}`, address, response);
    return status === 'FOUND' ? this.#read(response, request) : { status, messages: [], unwanted: [] };
  }

  /**
   * Acknowledges one message. @throws BrokerError when the broker refuses (208: it has no such message), GantryError MESSAGE (it was not
   * popped), NO_ROUTE, REMOTING_...
   */
  async ack(message: ReceivedMessage): Promise<void> {
    const handle = handleOf(message);
    const address = await this.#address(message.topic, handle);
    const header = this.#header(message, handle);
    const response = await this.#client.invokeBroker(address, RequestCode.ACK_MESSAGE, header);
    expectSuccess(`the acknowledgement of ${message.msgId}`, address, response);
  }

  /** Acknowledges messages with one request for each broker. @throws as `ack`, and then some of them may be acknowledged. */
  async ackAll(messages: Iterable<ReceivedMessage>): Promise<void> {
    const brokers = new Map<string, { first: ReceivedMessage; handle: Handle; acks: BatchAcks; count: number }>();
    const alone: ReceivedMessage[] = [];
    for (const message of messages) {
      const handle = handleOf(message);
      if (handle.queueOffset - handle.startOffset >= BATCH_SPAN) {
        alone.push(message);
        continue;
      }
      let broker = brokers.get(handle.brokerName);
      if (broker === undefined) {
        broker = { first: message, handle, acks: new BatchAcks(this.#group), count: 0 };
        brokers.set(handle.brokerName, broker);
      }
      broker.acks.add(message.topic, handle);
      broker.count++;
    }
    await Promise.all([
      ...alone.map((message) => this.ack(message)),
      ...Array.from(brokers, async ([brokerName, { first, handle, acks, count }]) => {
        if (count === 1) return this.ack(first);
        const address = await this.#address(first.topic, handle);
        const body = Buffer.from(encodeBatchAcks({ brokerName, acks: acks.list() }));
        const response = await this.#client.invokeBroker(address, RequestCode.BATCH_ACK_MESSAGE, null, body);
        expectSuccess(`the acknowledgement of ${count} messages`, address, response);
      }),
    ]);
  }

  /** Sets how long a message stays out of sight, from now on; it gets a new handle. @throws as `ack` */
  async changeInvisibleTime(message: ReceivedMessage, invisibleMs: number): Promise<void> {
    const handle = handleOf(message);
    const address = await this.#address(message.topic, handle);
    const response = await this.#client.invokeBroker(address, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, {
      ...this.#header(message, handle),
      invisibleTime: invisibleMs,
      suspend: false,
    });
    const { ext } = expectSuccess(`the change of the invisible time of ${message.msgId}`, address, response);
    // Without them a message in order was acknowledged before, and the handle means nothing any more.
    if (ext['popTime'] === undefined) return;
    const popTime = Number(ext['popTime']);
    const invisibleTimeMs = Number(ext['invisibleTime'] ?? invisibleMs);
    const reviveQueueId = Number(ext['reviveQid'] ?? handle.reviveQueueId);
    const renewed = { ...handle, startOffset: handle.queueOffset, popTime, invisibleTimeMs, reviveQueueId };
    message.renew(receiptHandleText(renewed), popTime + invisibleTimeMs);
  }

  #address(topic: string, { brokerName, queueId }: Handle): Promise<string> {
    return this.#client.masterAddress({ topic, brokerName, queueId });
  }

  #header({ topic, receiptHandle }: ReceivedMessage, handle: Handle): Record<string, string | number> {
    return {
      consumerGroup: this.#group,
      topic: realTopicOf(topic, this.#group, handle.retryFlag)!,
      queueId: handle.queueId,
      extraInfo: receiptHandle!,
      offset: handle.queueOffset,
      bname: handle.brokerName,
    };
  }

  #read(response: RemotingResponse, request: PopRequest): PopResult {
    const result: PopResult = { status: 'FOUND', messages: [], unwanted: [] };
    const reader = new PopAnswer(response, request);
    let bytes = 0;
    for (const record of decodeMessages(response.body)) {
      bytes += record.storeSize;
      for (const stored of unwrap(record, this.#client.logger)) {
        const message = reader.message(stored);
        if (message === undefined) continue;
        const wanted = wantsTag(request.subscription, stored.properties.get(PropertyName.TAGS));
        (wanted ? result.messages : result.unwanted).push(message);
      }
    }
    if (bytes < response.body.length || reader.strangers > 0) {
      this.#client.logger.error(
        `an answer to a pop from ${popText(request.queue)} cannot be used from byte ${bytes} of ${response.body.length} on, and ` +
          `${reader.strangers} messages of it have no place in its header; they will come again after ${request.invisibleMs} ms`,
      );
    }
    return result;
  }
}

/** One answer's header, by which its messages get their handles. */
class PopAnswer {
  readonly #request: PopRequest;
  readonly #popTime: number;
  readonly #invisibleTime: number;
  readonly #reviveQueueId: number;
  readonly #starts: ReadonlyMap<string, number>;
  readonly #counts: ReadonlyMap<string, number>;
  /** Messages without a handle. */
  strangers = 0;

  constructor({ ext }: RemotingResponse, request: PopRequest) {
    this.#request = request;
    this.#popTime = Number(ext['popTime'] ?? 0);
    this.#invisibleTime = Number(ext['invisibleTime'] ?? request.invisibleMs);
    this.#reviveQueueId = Number(ext['reviveQid'] ?? 0);
    this.#starts = parseNumberInfo(ext['startOffsetInfo']) ?? new Map();
    this.#counts = (request.inOrder ? parseNumberInfo(ext['orderCountInfo']) : undefined) ?? new Map();
  }

  message(stored: StoredMessage): ReceivedMessage | undefined {
    const { topic, brokerName } = this.#request.queue;
    const { queueId, queueOffset } = stored;
    const retryFlag = retryFlagOf(stored.topic);
    const where = `${retryFlag}@${queueId}`;
    // The broker itself writes the handle into a message of a retry topic, which then bears the name of the topic that was asked for. One of
    // another pop was in the message when it was sent: brokers take it out of single messages, not out of members of a batch.
    let handle = stored.properties.get(PropertyName.POP_CK);
    const startOffset = this.#starts.get(where);
    if (startOffset !== undefined && handle?.split(' ')[1] !== String(this.#popTime)) {
      handle = receiptHandleText({
        startOffset,
        popTime: this.#popTime,
        invisibleTimeMs: this.#invisibleTime,
        reviveQueueId: this.#reviveQueueId,
        retryFlag,
        brokerName,
        queueId,
        queueOffset,
      });
      stored.properties.set(PropertyName.POP_CK, handle);
    }
    if (handle === undefined) {
      this.strangers++;
      return undefined;
    }
    const count = this.#counts.get(`${retryFlag}@qo${queueId}%${queueOffset}`) ?? this.#counts.get(where) ?? 0;
    if (count > 0) stored.reconsumeTimes = count;
    const visibleAt = this.#popTime + this.#invisibleTime;
    return new ReceivedMessage(stored, { queue: { topic, brokerName, queueId }, topic, handle, visibleAt });
  }
}

/** A handle that names its message: all of its parts are there. */
type Handle = ReceiptHandle & { queueOffset: number };

/** @throws GantryError MESSAGE when the message was not popped. */
function handleOf({ receiptHandle, msgId }: ReceivedMessage): Handle {
  const handle = receiptHandle === undefined ? 'it was not popped' : parseReceiptHandle(receiptHandle);
  if (typeof handle === 'string') throw new GantryError('MESSAGE', `message ${msgId} has no receipt handle: ${handle}`);
  const { queueId, queueOffset = -1, startOffset, retryFlag } = handle;
  if (queueId < 0 || queueOffset < startOffset || realTopicOf('', '', retryFlag) === undefined) {
    throw new GantryError('MESSAGE', `message ${msgId} has a receipt handle that names no message: ${receiptHandle}`);
  }
  return { ...handle, queueOffset };
}

/** Acknowledgements for one broker, put together by the pop that they come from. */
class BatchAcks {
  readonly #group: string;
  readonly #pops = new Map<string, BatchAck>();

  constructor(group: string) {
    this.#group = group;
  }

  add(topic: string, handle: Handle): void {
    const { retryFlag, startOffset, queueId, reviveQueueId, popTime, invisibleTimeMs } = handle;
    const key = `${topic} ${retryFlag} ${queueId} ${startOffset} ${popTime}`;
    let ack = this.#pops.get(key);
    if (ack === undefined) {
      const group = this.#group;
      ack = { group, topic, retryFlag, startOffset, queueId, reviveQueueId, popTime, invisibleTimeMs, bits: [] };
      this.#pops.set(key, ack);
    }
    ack.bits.push(handle.queueOffset - startOffset);
  }

  list(): BatchAck[] {
    return [...this.#pops.values()];
  }
}

function popText(queue: MessageQueue): string {
  return queue.queueId === ANY_QUEUE ? `${queue.topic} on ${queue.brokerName}` : queueText(queue);
}
