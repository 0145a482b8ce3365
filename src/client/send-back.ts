// A message that could not be consumed goes back to the broker, which delivers it again later through the group's retry topic, or puts
// it into the dead letter topic after too many tries (CONSUMER_SEND_MSG_BACK, 36). If that fails the client sends a copy to the retry
// topic itself. RocketMQ: DefaultMQPushConsumerImpl#sendMessageBack.

import { errorText, GantryError } from '../common/index.ts';
import { PropertyName, SysFlag } from '../message/index.ts';
import { RequestCode } from '../remoting/index.ts';
import { expectSuccess } from './client-errors.ts';
import type { ClientInstance } from './client-instance.ts';
import { type EncodedMessage, propertyText } from './message-encoder.ts';
import type { ReceivedMessage } from './message-types.ts';
import { queueText } from './queues.ts';
import { isLogicBroker } from './route.ts';
import { SendKernel } from './send-kernel.ts';

const TIMEOUT_MS = 5000;
/** RocketMQ: MixAll.CLIENT_INNER_PRODUCER_GROUP. */
export const INNER_PRODUCER_GROUP = 'CLIENT_INNER_PRODUCER';
/** Only how the body is compressed still holds for a copy. */
const KEPT_FLAGS = SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK;
const UNKNOWN_HOST_PREFIX = '0.0.0.0:';

/** The retry topic of a group. */
export function retryTopic(group: string): string {
  return `%RETRY%${group}`;
}

/** Sends messages of one group back. */
export class SendBack {
  readonly #client: ClientInstance;
  readonly #group: string;
  readonly #maxReconsumeTimes: number;
  readonly #kernel: SendKernel;

  constructor(client: ClientInstance, group: string, maxReconsumeTimes: number) {
    this.#client = client;
    this.#group = group;
    this.#maxReconsumeTimes = maxReconsumeTimes;
    this.#kernel = new SendKernel(client, { group: INNER_PRODUCER_GROUP });
  }

  /**
   * Sends one message back. `delayLevel` 0: the broker chooses by the number of tries; -1: straight to the dead letter topic.
   * @throws GantryError when neither way worked.
   */
  async sendBack(message: ReceivedMessage, delayLevel: number): Promise<void> {
    try {
      await this.#askBroker(message, delayLevel);
    } catch (error) {
      this.#client.logger.warn(
        `message ${message.msgId} of ${queueText(message.queue)} could not be sent back, a copy goes to the retry topic: ${errorText(error)}`,
      );
      await this.sendCopy(message);
    }
  }

  async #askBroker(message: ReceivedMessage, delayLevel: number): Promise<void> {
    const { brokerName } = message.queue;
    // The record of a static topic lies where it was stored, whoever has the queue now.
    const byHost = brokerName === '' || isLogicBroker(brokerName);
    const address = byHost ? dialable(message.storeHost) : await this.#client.masterAddress(message.queue);
    const response = await this.#client.invokeBroker(
      address,
      RequestCode.CONSUMER_SEND_MSG_BACK,
      {
        offset: message.physicalOffset,
        group: this.#group,
        delayLevel,
        originMsgId: message.msgId,
        originTopic: message.topic,
        unitMode: false,
        maxReconsumeTimes: this.#maxReconsumeTimes,
        bname: message.queue.brokerName,
      },
      null,
      TIMEOUT_MS,
    );
    expectSuccess(`sending back message ${message.msgId}`, address, response);
  }

  /**
   * Sends a copy to the retry topic, which the broker puts into the dead letter topic if the tries are used up. Ordered consumers send back
   * this way only. @throws as SendKernel.send
   */
  async sendCopy(message: ReceivedMessage): Promise<void> {
    const properties = new Map(message.properties);
    properties.delete(PropertyName.TRAN_MSG);
    // They ride in the header of a send to a retry topic.
    properties.delete(PropertyName.RECONSUME_TIME);
    properties.delete(PropertyName.MAX_RECONSUME_TIMES);
    if (!properties.has(PropertyName.ORIGIN_MESSAGE_ID)) properties.set(PropertyName.ORIGIN_MESSAGE_ID, message.msgId);
    properties.set(PropertyName.RETRY_TOPIC, message.topic);
    properties.set(PropertyName.DELAY, String(3 + message.reconsumeTimes));
    await this.#kernel.send({
      ...copyOf(message, retryTopic(this.#group), properties),
      reconsumeTimes: message.reconsumeTimes + 1,
      maxReconsumeTimes: this.#maxReconsumeTimes,
    });
  }
}

/** A message as it was stored, ready for another topic. */
export function copyOf(
  message: ReceivedMessage,
  topic: string,
  properties: ReadonlyMap<string, string>,
): EncodedMessage {
  return {
    topic,
    msgId: message.msgId,
    body: message.storedBody,
    sysFlag: message.sysFlag & KEPT_FLAGS,
    flag: message.flag,
    properties: propertyText(properties),
    batch: false,
    reply: false,
    reconsumeTimes: 0,
    maxReconsumeTimes: undefined,
  };
}

function dialable(host: string): string {
  if (host.startsWith(UNKNOWN_HOST_PREFIX)) throw new GantryError('NO_ROUTE', `the message names no broker (${host})`);
  return host;
}
