// Reads the message at just one offset of a queue. What lies behind it, where it is gone, is another message. RocketMQ:
// EscapeBridge#getMessageAsync, which takes the first one from there on.

import { MATCH_ALL } from '../../../filter/index.ts';
import { decodeMessages, type StoredMessage } from '../../../message/index.ts';
import { GetMessageStatus, GetResult, isLightQueue, type MessageStore } from '../../../store/index.ts';
import { repeated } from '../../store-reads.ts';

const ONE_MESSAGE_BYTES = 1;

export class MessageAt {
  readonly #store: MessageStore;
  readonly #result = new GetResult();

  constructor(store: MessageStore) {
    this.#store = store;
  }

  /** undefined: there is none. Not to be called again before it has answered. @throws GantryError IO: the disk cannot be read now. */
  async read(topic: string, queueId: number, offset: number): Promise<StoredMessage | undefined> {
    const result = this.#result;
    const request = { topic, queueId, offset, maxMessages: 1, maxBytes: ONE_MESSAGE_BYTES, filter: MATCH_ALL };
    await repeated((ready) => this.#store.select(request, result, ready));
    if (result.status !== GetMessageStatus.FOUND || result.count !== 1) return undefined;
    const next = result.nextBeginOffset;
    const bytes = new Uint8Array(result.totalBytes);
    await repeated((ready) => this.#store.copyRecords(result, bytes, 0, ready));
    if (result.count !== 1) return undefined;
    const [message] = decodeMessages(bytes);
    if (message === undefined) return undefined;
    // The record of a light queue's message bears the place in its topic's own queue.
    const found = isLightQueue(topic) ? next - 1 : message.queueOffset;
    return found === offset ? message : undefined;
  }
}
