// Sends messages, asks with messages and answers them, recalls what is not delivered yet. RocketMQ: DefaultMQProducer.

import { GantryError, javaStringHash } from '../common/index.ts';
import { PropertyName } from '../message/index.ts';
import { RequestCode } from '../remoting/index.ts';
import { expectSuccess } from './client-errors.ts';
import { ClientInstance } from './client-instance.ts';
import type { ClientOptions } from './client-options.ts';
import { type EncodeLimits, encodeBatchMessage, encodeMessage, type SystemFields } from './message-encoder.ts';
import { MessageTrace, type TraceOptions } from './message-trace.ts';
import type { Message, ReceivedMessage, SendResult } from './message-types.ts';
import type { MessageQueue } from './queues.ts';
import { parseRecallHandle } from './recall-handle.ts';
import { type QueueSelector, SendKernel } from './send-kernel.ts';
import { checkGroup } from './validators.ts';

/** Settings of a Producer. */
export interface ProducerOptions extends ClientOptions, TraceOptions {
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
  /**
   * Topics whose brokers are told of the group at the start and not at the first send: so that a transaction producer is asked for the
   * transactions of an earlier run. Default none.
   */
  topics?: readonly string[];
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

/** The answer to a request: a body, or a message without a topic. */
export type Reply = Message['body'] | Omit<Message, 'topic'>;

/** RocketMQ: MixAll.REPLY_MESSAGE_FLAG. */
const REPLY_TYPE = 'reply';

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
  /** @internal */
  protected readonly trace: MessageTrace | undefined;
  readonly #client: ClientInstance;
  readonly #kernel: SendKernel;
  readonly #limits: EncodeLimits;
  readonly #timeoutMs: number;
  readonly #topics: readonly string[];
  /** Topics whose brokers know of this producer, so that they can push replies to it. */
  readonly #asked = new Set<string>();
  #state: 'created' | 'running' | 'closed' = 'created';
  #closing: Promise<void> | undefined;

  /** @throws GantryError CONFIG_VALUE */
  constructor(options: ProducerOptions) {
    checkGroup(options.group);
    this.group = options.group;
    this.#client = options.client ?? new ClientInstance(options);
    this.#kernel = new SendKernel(this.#client, options);
    this.trace = MessageTrace.of(this.#client, this.group, 'PRODUCE', options);
    this.#kernel.trace = this.trace;
    this.#timeoutMs = options.sendTimeoutMs ?? 3000;
    this.#topics = options.topics ?? [];
    this.#limits = {
      maxMessageSize: options.maxMessageSize ?? 4_194_304,
      compressOverBytes: options.compressMsgBodyOverHowmuch ?? 4096,
    };
  }

  /** The instance behind this producer. */
  get client(): ClientInstance {
    return this.#client;
  }

  /** Whether it is started and not closed. */
  get isRunning(): boolean {
    return this.#state === 'running';
  }

  /** Makes the producer ready. Unless `topics` were named nothing is sent yet: the first send connects. @throws GantryError CLIENT_STATE when started before */
  async start(): Promise<void> {
    if (this.#state !== 'created') throw new GantryError('CLIENT_STATE', `the producer is ${this.#state}`);
    this.#state = 'running';
    this.#client.acquire();
    this.#client.addProducer(this.group);
    if (this.#topics.length === 0) return;
    await Promise.all(this.#topics.map((topic) => this.#client.routes.refresh(topic)));
    await this.#client.heartbeatAll();
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

  /**
   * Sends a message and waits for the reply that some consumer of it sends with `reply`; the answer is that message. `timeoutMs` is for
   * both ways, and it is how long the reply is worth sending (TTL).
   * @throws as `send`; GantryError REMOTING_TIMEOUT also when no reply came, CLIENT_STATE when the producer is closed meanwhile
   */
  async request(message: Message, options: SendOptions = {}): Promise<ReceivedMessage> {
    this.#checkRunning();
    const { clock, replies, clientId } = this.#client;
    const timeoutMs = options.timeoutMs ?? this.#timeoutMs;
    const deadline = clock.monotonic() + timeoutMs;
    if (!this.#asked.has(message.topic)) await this.#prepareRequests(message.topic);
    const correlationId = this.#client.nextMessageId();
    const left = Math.max(1, deadline - clock.monotonic());
    const reply = replies.expect(correlationId, left, this);
    const properties = {
      [PropertyName.CORRELATION_ID]: correlationId,
      [PropertyName.REPLY_TO_CLIENT]: clientId,
      [PropertyName.TTL]: String(timeoutMs),
    };
    const sent = this.sendAs(message, { ...options, timeoutMs: left }, { properties });
    sent.catch((error) => replies.fail(correlationId, error));
    return reply;
  }

  /**
   * Answers a message that was sent with `request`: the broker pushes the answer to who asked.
   * @throws as `send`; GantryError MESSAGE when `request` is no request; BrokerError also when who asked is gone
   */
  async reply(request: ReceivedMessage, answer: Reply, options: Omit<SendOptions, 'queue'> = {}): Promise<SendResult> {
    const properties: Record<string, string> = { [PropertyName.MSG_TYPE]: REPLY_TYPE };
    for (const name of [PropertyName.CORRELATION_ID, PropertyName.REPLY_TO_CLIENT, PropertyName.TTL]) {
      const value = request.properties.get(name);
      if (value !== undefined) properties[name] = value;
    }
    const cluster = request.properties.get(PropertyName.CLUSTER);
    if (cluster === undefined || properties[PropertyName.REPLY_TO_CLIENT] === undefined) {
      throw new GantryError('MESSAGE', `message ${request.msgId} is no request: it does not say whom to answer`);
    }
    const fields = typeof answer === 'string' || answer instanceof Uint8Array ? { body: answer } : answer;
    return this.sendAs({ ...fields, topic: replyTopic(cluster) }, options, { properties, reply: true });
  }

  /**
   * Takes back a timer message that is not delivered yet, by the `recallHandle` of its send; answers its msgId. The broker must allow it
   * (`recallMessageEnable`).
   * @throws GantryError MESSAGE (no handle of this topic), NO_ROUTE, REMOTING_..., CLIENT_STATE; BrokerError
   */
  async recall(topic: string, recallHandle: string): Promise<string> {
    this.#checkRunning();
    const handle = parseRecallHandle(recallHandle);
    if (handle.topic !== topic) {
      throw new GantryError('MESSAGE', `the handle is one of the topic ${handle.topic}, not of ${topic}`);
    }
    const { brokerName } = handle;
    const address = await this.#client.masterAddress({ topic, brokerName, queueId: 0 });
    const header = { producerGroup: this.group, topic, recallHandle, bname: brokerName };
    const response = await this.#client.invokeBroker(
      address,
      RequestCode.RECALL_MESSAGE,
      header,
      null,
      this.#timeoutMs,
    );
    expectSuccess(`recalling message ${handle.msgId}`, address, response);
    return response.ext['msgId'] ?? handle.msgId;
  }

  /** The queues that a topic's messages go to. @throws GantryError NO_ROUTE, REMOTING_..., CLIENT_STATE */
  async publishQueues(topic: string): Promise<readonly MessageQueue[]> {
    this.#checkRunning();
    return this.#kernel.queues(topic);
  }

  /** @internal Sends a message with fields that the application cannot set itself. */
  protected async sendAs(message: Message, options: SendOptions, system: SystemFields): Promise<SendResult> {
    this.#checkRunning();
    const encoded = await encodeMessage(message, this.#client.nextMessageId(), this.#limits, system);
    return this.#kernel.send(encoded, selectorOf(message, options), options.timeoutMs);
  }

  /** A reply may come from any broker of the cluster that takes replies: all of them must know this client before it asks. */
  async #prepareRequests(topic: string): Promise<void> {
    const { routes } = this.#client;
    await this.#kernel.queues(topic);
    const clusters = new Set(routes.get(topic)?.brokerDatas.map((broker) => broker.cluster));
    await Promise.all(Array.from(clusters, (cluster) => routes.refresh(replyTopic(cluster))));
    await this.#client.heartbeatAll();
    this.#asked.add(topic);
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
    this.#client.replies.failAll(this, new GantryError('CLIENT_STATE', 'the producer is closed'));
    await this.trace?.close();
    await this.#client.removeProducer(this.group);
    await this.#client.release();
  }
}

/** RocketMQ: MixAll.getReplyTopic. */
function replyTopic(cluster: string): string {
  return `${cluster}_REPLY_TOPIC`;
}

function selectorOf(message: Message, options: SendOptions): QueueSelector | undefined {
  const { queue, selector } = options;
  if (queue !== undefined) return () => queue;
  if (selector !== undefined) return (queues) => selector(queues, message);
  const { shardingKey } = message;
  if (shardingKey !== undefined) return (queues) => selectByShardingKey(queues, shardingKey);
  return undefined;
}
