// One pull: the request (PULL_MESSAGE, 11), what its answer means, and the messages in it, filtered by the text of their tag.
// RocketMQ: PullAPIWrapper.
//
// sysFlag of a pull: 1 the offset in `commitOffset` is to be saved, 2 the broker may hold the request until a message comes,
// 4 the subscription comes along (so that no heartbeat is needed).

import type { Logger } from '../common/index.ts';
import { decodeMessages, innerMessages, isInnerBatch, PropertyName, type StoredMessage } from '../message/index.ts';
import { type RemotingResponse, RequestCode, ResponseCode } from '../remoting/index.ts';
import { BrokerError } from './client-errors.ts';
import type { ClientInstance } from './client-instance.ts';
import { decompressBody } from './compression.ts';
import { ReceivedMessage } from './message-types.ts';
import { type MessageQueue, queueKey, queueText } from './queues.ts';
import { type SubscriptionData, wantsTag } from './subscription.ts';

const FLAG_COMMIT = 1;
const FLAG_SUSPEND = 2;
const FLAG_SUBSCRIPTION = 4;

/** How the answer of a pull is to be taken. */
export type PullStatus = 'FOUND' | 'NO_NEW_MSG' | 'NO_MATCHED_MSG' | 'OFFSET_ILLEGAL';

/** The answer of a pull. */
export interface PullResult {
  status: PullStatus;
  /** Where to pull next. */
  nextBeginOffset: number;
  minOffset: number;
  maxOffset: number;
  messages: ReceivedMessage[];
}

/** What to pull. */
export interface PullRequest {
  group: string;
  queue: MessageQueue;
  offset: number;
  subscription: SubscriptionData;
  /** Send the subscription along. */
  withSubscription: boolean;
  /** Offset to save on the way; undefined for none. */
  commitOffset: number | undefined;
  maxMessages: number;
  maxBytes: number;
  /** Ms that the broker may hold the request; 0 for not at all. */
  suspendMs: number;
  timeoutMs: number;
  /** The topic to show instead of the queue's: set for retry topics. */
  originalTopic: (stored: StoredMessage) => string | undefined;
}

const STATUS: ReadonlyMap<number, PullStatus> = new Map([
  [ResponseCode.SUCCESS, 'FOUND'],
  [ResponseCode.PULL_NOT_FOUND, 'NO_NEW_MSG'],
  [ResponseCode.PULL_RETRY_IMMEDIATELY, 'NO_MATCHED_MSG'],
  [ResponseCode.PULL_OFFSET_MOVED, 'OFFSET_ILLEGAL'],
]);

/** Pulls for one client; remembers which broker of a name each queue is best read from. */
export class PullKernel {
  readonly #client: ClientInstance;
  readonly #suggested = new Map<string, number>();

  constructor(client: ClientInstance) {
    this.#client = client;
  }

  /** @throws BrokerError for answers that are no pull results, GantryError NO_ROUTE and REMOTING_... */
  async pull(request: PullRequest): Promise<PullResult> {
    const { queue, subscription } = request;
    const key = queueKey(queue);
    const brokerId = this.#suggested.get(key) ?? 0;
    const address = await this.#client.readAddress(queue, brokerId);
    // A slave does not keep offsets.
    const commitOffset = brokerId === 0 ? request.commitOffset : undefined;
    const sysFlag =
      (commitOffset === undefined ? 0 : FLAG_COMMIT) |
      (request.suspendMs > 0 ? FLAG_SUSPEND : 0) |
      (request.withSubscription ? FLAG_SUBSCRIPTION : 0);
    const response = await this.#client.invokeBroker(
      address,
      RequestCode.PULL_MESSAGE,
      {
        consumerGroup: request.group,
        topic: queue.topic,
        queueId: queue.queueId,
        queueOffset: request.offset,
        maxMsgNums: request.maxMessages,
        maxMsgBytes: request.maxBytes,
        sysFlag,
        commitOffset: commitOffset ?? 0,
        suspendTimeoutMillis: request.suspendMs,
        subVersion: subscription.subVersion,
        subscription: request.withSubscription ? subscription.subString : undefined,
        expressionType: subscription.expressionType,
        bname: queue.brokerName,
      },
      null,
      request.timeoutMs,
    );
    const status = STATUS.get(response.code);
    if (status === undefined) throw new BrokerError(`a pull from ${queueText(queue)}`, address, response);
    this.#suggested.set(key, Number(response.ext['suggestWhichBrokerId'] ?? 0));
    return readPullResult(status, response, request, this.#client.logger);
  }
}

/** Turns the answer of a pull into its result. */
export function readPullResult(
  status: PullStatus,
  response: RemotingResponse,
  request: PullRequest,
  logger: Logger,
): PullResult {
  const result: PullResult = {
    status,
    nextBeginOffset: Number(response.ext['nextBeginOffset'] ?? request.offset),
    minOffset: Number(response.ext['minOffset'] ?? 0),
    maxOffset: Number(response.ext['maxOffset'] ?? 0),
    messages: [],
  };
  if (status !== 'FOUND') return result;
  const stored = decodeMessages(response.body);
  // Of a static topic: its records say where they lie in the broker's queue.
  const delta = Number(response.ext['offsetDelta'] ?? 0);
  let bytes = 0;
  for (const record of stored) {
    bytes += record.storeSize;
    const message = delta === 0 ? record : { ...record, queueOffset: record.queueOffset + delta };
    for (const part of unwrap(message, logger)) {
      if (part.queueOffset < request.offset || !wantsTag(request.subscription, part.properties.get(PropertyName.TAGS)))
        continue;
      const topic = request.originalTopic(part);
      const from = topic === undefined ? { queue: request.queue } : { queue: request.queue, topic };
      result.messages.push(new ReceivedMessage(part, from));
    }
  }
  if (bytes < response.body.length) {
    // RocketMQ: drops the rest of such an answer without a word. Here the pull goes on right behind what could be read.
    const last = stored[stored.length - 1];
    if (last !== undefined) result.nextBeginOffset = last.queueOffset + delta + 1;
    logger.error(
      `an answer for ${queueText(request.queue)} at offset ${request.offset} cannot be decoded from byte ${bytes} of ` +
        `${response.body.length} on; pulling goes on at ${result.nextBeginOffset}`,
    );
  }
  return result;
}

/** The members of a record that holds a whole batch (BatchCQ topics); any other message alone. */
export function unwrap(message: StoredMessage, logger: Logger): StoredMessage[] {
  if (!isInnerBatch(message)) return [message];
  try {
    return innerMessages(message, decompressBody(message.body, message.sysFlag));
  } catch (error) {
    logger.error(`the batch ${message.messageId} of ${message.topic} cannot be taken apart: ${String(error)}`);
    return [message];
  }
}
