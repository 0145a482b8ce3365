// Sends messages. RocketMQ: DefaultMQProducer.

import { GantryError, javaStringHash } from '../common/index.ts';
import { ClientInstance } from './client-instance.ts';
import type { ClientOptions } from './client-options.ts';
import { type EncodeLimits, encodeBatchMessage, encodeMessage } from './message-encoder.ts';
import type { Message, SendResult } from './message-types.ts';
import type { MessageQueue } from './queues.ts';
import { type QueueSelector, SendKernel } from './send-kernel.ts';
import { checkGroup } from './validators.ts';

/** Settings of a Producer. */
export interface ProducerOptions extends ClientOptions {
  /** The producer group. */
  group: string;
  /** Ms for a send with all its tries. Default 3000. */
  sendTimeoutMs?: number;
  /** Further tries after a failed one, on another broker if there is one. Default 2. */
  retryTimesWhenSendFailed?: number;
  /** Bodies of at least this many bytes are compressed (zlib). Default 4096. */
  compressMsgBodyOverHowmuch?: number;
  /** Most bytes of a body, or of a whole batch. Default 4 MiB. */
  maxMessageSize?: number;
  /** The topic whose route a topic gets that does not exist yet. Default TBW102. */
  createTopicKey?: string;
  /** Queues of a topic that is created by a send. Default 4. */
  defaultTopicQueueNums?: number;
  /** A shared instance; then all ClientOptions here are ignored. */
  client?: ClientInstance;
}

/** Where and how long for one send. */
export interface SendOptions {
  /** Ms for all tries. Default: the producer's sendTimeoutMs. */
  timeoutMs?: number;
  /** Send to exactly this queue. There are no tries elsewhere. */
  queue?: MessageQueue;
  /** Choose the queue by a function. There are no tries elsewhere. */
  selector?: (queues: readonly MessageQueue[], message: Message) => MessageQueue;
}

/** The result of a batch: as SendResult, with each member's ids. */
export interface BatchSendResult extends SendResult {
  msgIds: string[];
  offsetMsgIds: string[];
}

/** RocketMQ: SelectMessageQueueByHash, so that Java producers with the same key choose the same queue. */
export function selectByShardingKey(queues: readonly MessageQueue[], shardingKey: string): MessageQueue {
  return queues[Math.abs(javaStringHash(shardingKey) % queues.length)]!;
}

/**
 * Sends messages to a cluster.
 *
 * @example
 * const producer = new Producer({ namesrvAddr: '127.0.0.1:9876', group: 'PID_orders' });
 * await producer.start();
 * const result = await producer.send({ topic: 'orders', body: 'paid', tags: 'paid', keys: ['order-17'] });
 * console.log(result.status, result.msgId);
 * await producer.close();
 */
export class Producer {
  readonly group: string;
  readonly #client: ClientInstance;
  readonly #kernel: SendKernel;
  readonly #limits: EncodeLimits;
  #state: 'created' | 'running' | 'closed' = 'created';
  #closing: Promise<void> | undefined;

  /** @throws GantryError CONFIG_VALUE */
  constructor(options: ProducerOptions) {
    checkGroup(options.group);
    this.group = options.group;
    this.#client = options.client ?? new ClientInstance(options);
    this.#kernel = new SendKernel(this.#client, options);
    this.#limits = {
      maxMessageSize: options.maxMessageSize ?? 4_194_304,
      compressOverBytes: options.compressMsgBodyOverHowmuch ?? 4096,
    };
  }

  /** The instance behind this producer. */
  get client(): ClientInstance {
    return this.#client;
  }

  /** Makes the producer ready. Nothing is sent yet: the first send connects. @throws GantryError CLIENT_STATE when started before */
  async start(): Promise<void> {
    if (this.#state !== 'created') throw new GantryError('CLIENT_STATE', `the producer is ${this.#state}`);
    this.#state = 'running';
    this.#client.acquire();
    this.#client.addProducer(this.group);
  }

  /** Tells the brokers and closes the connections. Sends that run fail. May be called twice. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /**
   * Sends one message and waits until the broker has stored it. Look at `status`: all but SEND_OK are stored, but not as safely as asked.
   * @throws GantryError MESSAGE (not sendable), NO_ROUTE, REMOTING_CONNECT, REMOTING_TIMEOUT, REMOTING_CLOSED, CLIENT_STATE;
   * BrokerError (code RESPONSE) when the broker refused it. After a REMOTING_TIMEOUT the message may have been stored.
   */
  async send(message: Message, options: SendOptions = {}): Promise<SendResult> {
    this.#checkRunning();
    const encoded = await encodeMessage(message, this.#client.nextMessageId(), this.#limits);
    return this.#kernel.send(encoded, selectorOf(message, options), options.timeoutMs);
  }

  /**
   * Sends one message without waiting for an answer: fast, and nobody knows whether it arrived.
   * @throws GantryError MESSAGE, NO_ROUTE, REMOTING_CONNECT, CLIENT_STATE
   */
  async sendOneway(message: Message, options: Omit<SendOptions, 'timeoutMs'> = {}): Promise<void> {
    this.#checkRunning();
    const encoded = await encodeMessage(message, this.#client.nextMessageId(), this.#limits);
    await this.#kernel.sendOneway(encoded, selectorOf(message, options));
  }

  /**
   * Sends messages of one topic in one request to one queue; they get consecutive offsets. Together they may have maxMessageSize bytes.
   * @throws as `send`
   */
  async sendBatch(messages: readonly Message[], options: Omit<SendOptions, 'selector'> = {}): Promise<BatchSendResult> {
    this.#checkRunning();
    const encoded = encodeBatchMessage(messages, () => this.#client.nextMessageId(), this.#limits);
    const { queue } = options;
    const result = await this.#kernel.send(encoded, queue === undefined ? undefined : () => queue, options.timeoutMs);
    return { ...result, msgIds: encoded.msgId.split(','), offsetMsgIds: result.offsetMsgId.split(',') };
  }

  /** The queues that a topic's messages go to. @throws GantryError NO_ROUTE, REMOTING_..., CLIENT_STATE */
  async publishQueues(topic: string): Promise<readonly MessageQueue[]> {
    this.#checkRunning();
    return this.#kernel.queues(topic);
  }

  #checkRunning(): void {
    if (this.#state !== 'running') {
      throw new GantryError(
        'CLIENT_STATE',
        this.#state === 'created' ? 'the producer is not started' : 'the producer is closed',
      );
    }
  }

  async #close(): Promise<void> {
    const wasRunning = this.#state === 'running';
    this.#state = 'closed';
    if (!wasRunning) return;
    await this.#client.removeProducer(this.group);
    await this.#client.release();
  }
}

function selectorOf(message: Message, options: SendOptions): QueueSelector | undefined {
  const { queue, selector } = options;
  if (queue !== undefined) return () => queue;
  if (selector !== undefined) return (queues) => selector(queues, message);
  const { shardingKey } = message;
  if (shardingKey !== undefined) return (queues) => selectByShardingKey(queues, shardingKey);
  return undefined;
}
