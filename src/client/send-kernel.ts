// Sends an encoded message: finds the queues of its topic, chooses one, and tries another broker when one fails. Producers and the
// consumer's send-back share it. RocketMQ: DefaultMQProducerImpl#sendDefaultImpl, #sendKernelImpl, MQFaultStrategy without latency.

import { errorText, GantryError } from '../common/index.ts';
import { type RemotingResponse, RequestCode, ResponseCode } from '../remoting/index.ts';
import { BrokerError, isNetworkError, isResponse } from './client-errors.ts';
import type { ClientInstance } from './client-instance.ts';
import { type EncodedMessage, sendHeader } from './message-encoder.ts';
import type { MessageTrace } from './message-trace.ts';
import type { SendResult, SendStatus } from './message-types.ts';
import { type MessageQueue, queueText } from './queues.ts';
import { cappedRoute } from './route.ts';

/** RocketMQ: TopicValidator.AUTO_CREATE_TOPIC_KEY_TOPIC: brokers that create topics on demand have a route for it. */
export const AUTO_CREATE_TOPIC = 'TBW102';

/** Broker answers after which another try may succeed. RocketMQ: DefaultMQProducer.retryResponseCodes. */
const RETRY_CODES: ReadonlySet<number> = new Set([
  ResponseCode.TOPIC_NOT_EXIST,
  ResponseCode.SERVICE_NOT_AVAILABLE,
  ResponseCode.SYSTEM_ERROR,
  ResponseCode.SYSTEM_BUSY,
  ResponseCode.NO_PERMISSION,
  ResponseCode.NO_BUYER_ID,
  ResponseCode.NOT_IN_CURRENT_UNIT,
  ResponseCode.GO_AWAY,
  // RocketMQ: no. The queue of a static topic has moved, and the route of now says where to.
  ResponseCode.NOT_LEADER_FOR_QUEUE,
]);

const STATUS: ReadonlyMap<number, SendStatus> = new Map([
  [ResponseCode.SUCCESS, 'SEND_OK'],
  [ResponseCode.FLUSH_DISK_TIMEOUT, 'FLUSH_DISK_TIMEOUT'],
  [ResponseCode.FLUSH_SLAVE_TIMEOUT, 'FLUSH_SLAVE_TIMEOUT'],
  [ResponseCode.SLAVE_NOT_AVAILABLE, 'SLAVE_NOT_AVAILABLE'],
]);

/** Settings of a SendKernel. */
export interface SendKernelOptions {
  group: string;
  /** Ms for all tries together. Default 3000. */
  sendTimeoutMs?: number;
  /** Further tries, on another broker if there is one. Default 2. */
  retryTimesWhenSendFailed?: number;
  /** The topic whose route a new topic gets. Default TBW102. */
  createTopicKey?: string;
  /** Queues that a topic gets which is created by a send. Default 4. */
  defaultTopicQueueNums?: number;
}

/** Chooses a queue; the list is never empty. */
export type QueueSelector = (queues: readonly MessageQueue[]) => MessageQueue;

/** The sending half of a producer. */
export class SendKernel {
  /** Is told of each message that was stored. */
  trace: MessageTrace | undefined;
  readonly #client: ClientInstance;
  readonly #group: string;
  readonly #timeoutMs: number;
  readonly #retries: number;
  readonly #createTopicKey: string;
  readonly #defaultQueueNums: number;
  readonly #turns = new Map<string, number>();

  constructor(client: ClientInstance, options: SendKernelOptions) {
    this.#client = client;
    this.#group = options.group;
    this.#timeoutMs = options.sendTimeoutMs ?? 3000;
    this.#retries = options.retryTimesWhenSendFailed ?? 2;
    this.#createTopicKey = options.createTopicKey ?? AUTO_CREATE_TOPIC;
    this.#defaultQueueNums = options.defaultTopicQueueNums ?? 4;
  }

  /**
   * Sends, with retries. With a selector the queue is fixed and there are none, since order would be lost.
   * @throws GantryError NO_ROUTE, REMOTING_...; BrokerError
   */
  async send(
    message: EncodedMessage,
    selector?: QueueSelector,
    timeoutMs: number = this.#timeoutMs,
  ): Promise<SendResult> {
    const clock = this.#client.clock;
    const deadline = clock.monotonic() + timeoutMs;
    const queues = await this.queues(message.topic);
    const tries = selector === undefined ? 1 + this.#retries : 1;
    const failures: string[] = [];
    let lastBroker: string | undefined;
    for (let i = 0; ; i++) {
      const queue = selector === undefined ? this.#nextQueue(message.topic, queues, lastBroker) : selector(queues);
      lastBroker = queue.brokerName;
      const left = deadline - clock.monotonic();
      try {
        if (left <= 0) throw new GantryError('REMOTING_TIMEOUT', `the send took longer than ${timeoutMs} ms`);
        return await this.#sendTo(queue, message, left);
      } catch (error) {
        const outOfTime = deadline - clock.monotonic() <= 0;
        if (outOfTime || i + 1 >= tries || !mayRetry(error)) throw withHistory(error, failures);
        failures.push(errorText(error));
        if (isResponse(error, ResponseCode.NOT_LEADER_FOR_QUEUE)) await this.#client.routes.refresh(message.topic);
        this.#client.logger.debug(
          `sending ${message.msgId} to ${queueText(queue)} failed, trying again: ${errorText(error)}`,
        );
      }
    }
  }

  /** Sends without an answer: nobody knows whether it arrived. @throws GantryError NO_ROUTE, REMOTING_CONNECT */
  async sendOneway(message: EncodedMessage, selector?: QueueSelector): Promise<void> {
    const queues = await this.queues(message.topic);
    const queue = selector === undefined ? this.#nextQueue(message.topic, queues, undefined) : selector(queues);
    const address = await this.#client.masterAddress(queue);
    await this.#client.connections.sendOneway(address, this.#code(message), this.#header(queue, message), message.body);
  }

  /** The queues of a topic; a topic that does not exist has those it will be created with. @throws GantryError NO_ROUTE, REMOTING_... */
  async queues(topic: string): Promise<readonly MessageQueue[]> {
    const { routes, nameServers } = this.#client;
    const known = routes.publishQueues(topic);
    if (known.length > 0) return known;
    await routes.require(topic);
    if (routes.get(topic) === undefined) {
      const route = await nameServers.topicRoute(this.#createTopicKey);
      if (route !== undefined) routes.put(topic, cappedRoute(route, this.#defaultQueueNums));
    }
    const queues = routes.publishQueues(topic);
    if (queues.length > 0) return queues;
    const reason =
      routes.get(topic) === undefined
        ? `no broker has the topic, and none creates topics on demand (autoCreateTopicEnable); create it first`
        : 'no broker of the topic is a writable master now';
    throw new GantryError(
      'NO_ROUTE',
      `no queue of ${topic} to send to: ${reason} (asked ${nameServers.addresses.join(';')})`,
    );
  }

  /** Round robin from a random start, passing by the broker that just failed if there is another. */
  #nextQueue(topic: string, queues: readonly MessageQueue[], avoid: string | undefined): MessageQueue {
    let turn = this.#turns.get(topic) ?? this.#client.random.int(queues.length);
    let queue = queues[turn % queues.length]!;
    for (let i = 1; i < queues.length && queue.brokerName === avoid; i++) {
      turn++;
      queue = queues[turn % queues.length]!;
    }
    this.#turns.set(topic, (turn + 1) % queues.length);
    return queue;
  }

  async #sendTo(queue: MessageQueue, message: EncodedMessage, timeoutMs: number): Promise<SendResult> {
    const address = await this.#client.masterAddress(queue);
    const header = this.#header(queue, message);
    const since = this.trace === undefined ? 0 : this.#client.clock.now();
    const response = await this.#client.invokeBroker(address, this.#code(message), header, message.body, timeoutMs);
    const result = readSendResult(message, queue, address, response);
    this.trace?.sent(message, address, response, result, since);
    return result;
  }

  #code(message: EncodedMessage): number {
    if (message.batch) return RequestCode.SEND_BATCH_MESSAGE;
    return message.reply ? RequestCode.SEND_REPLY_MESSAGE_V2 : RequestCode.SEND_MESSAGE_V2;
  }

  #header(queue: MessageQueue, message: EncodedMessage): ReturnType<typeof sendHeader> {
    return sendHeader(message, {
      producerGroup: this.#group,
      defaultTopic: this.#createTopicKey,
      defaultTopicQueueNums: this.#defaultQueueNums,
      queue,
      bornTimestamp: this.#client.clock.now(),
    });
  }
}

/** Turns the answer of a send into its result. @throws BrokerError when the message was not stored. */
export function readSendResult(
  message: EncodedMessage,
  queue: MessageQueue,
  address: string,
  response: RemotingResponse,
): SendResult {
  const status = STATUS.get(response.code);
  if (status === undefined) throw new BrokerError(`sending to ${queueText(queue)}`, address, response);
  const queueId = Number(response.ext['queueId'] ?? queue.queueId);
  return {
    status,
    msgId: message.msgId,
    offsetMsgId: response.ext['msgId'] ?? '',
    queue: { ...queue, queueId },
    queueOffset: Number(response.ext['queueOffset'] ?? -1),
    transactionId: response.ext['transactionId'],
    recallHandle: response.ext['recallHandle'],
  };
}

function mayRetry(error: unknown): boolean {
  if (error instanceof BrokerError) return RETRY_CODES.has(error.responseCode ?? -1);
  return isNetworkError(error) || (error instanceof GantryError && error.code === 'NO_ROUTE');
}

/** The last error, with the earlier ones in its text. */
function withHistory(error: unknown, failures: readonly string[]): unknown {
  if (failures.length > 0 && error instanceof Error) {
    error.message = `${error.message} (try ${failures.length + 1}; before: ${failures.join('; ')})`;
  }
  return error;
}
