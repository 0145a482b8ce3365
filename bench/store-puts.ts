// Puts into a store of this process, without a broker in front.

import { hostField } from '../src/message/index.ts';
import { type MessageStore, PutMessageStatus, PutRequest, PutResult } from '../src/store/index.ts';

const HOST = hostField('127.0.0.1', 10_911);
/** Puts in one loop turn, as a server's turn has them. */
const TURN = 256;
/** Bytes that may wait for dispatch before no more are put. */
const MOST_BEHIND = 8_000_000;

/** Puts messages over all queues in turn, a turn's worth each loop turn, as fast as the store dispatches them. */
export class Puts {
  count = 0;
  readonly #store: MessageStore;
  readonly #topics: Array<{ topic: string; bytes: Uint8Array; queues: PutRequest['queues'] }> = [];
  readonly #queues: number;
  readonly #request = new PutRequest();
  readonly #result = new PutResult();
  readonly #keys: Buffer | undefined;
  readonly #light: Buffer[] = [];

  /** `light`: light queues, one of which each message goes to, too. */
  constructor(store: MessageStore, topics: number, queues: number, bodyBytes: number, keys: boolean, light = 0) {
    this.#store = store;
    this.#queues = queues;
    for (let i = 0; i < topics; i++) {
      const topic = `Bench${String(i).padStart(5, '0')}`;
      this.#topics.push({ topic, bytes: Buffer.from(topic), queues: store.queuesOf(topic) });
    }
    const request = this.#request;
    request.bornHost = HOST;
    request.storeHost = HOST;
    request.body = Buffer.alloc(bodyBytes, 'b');
    request.bodyEnd = bodyBytes;
    const text = keys
      ? `KEYS\u0001K${'0'.repeat(12)}\u0002UNIQ_KEY\u0001AC1100010001${'0'.repeat(20)}\u0002WAIT\u0001true\u0002`
      : 'TAGS\u0001TagA\u0002';
    const properties = Buffer.from(text);
    if (keys) this.#keys = properties;
    for (let i = 0; i < light; i++) this.#light.push(Buffer.from(`INNER_MULTI_DISPATCH\u0001%LMQ%$Bench$${i}\u0002`));
    request.properties = properties;
    request.propertiesEnd = properties.length;
  }

  async until(enough: () => boolean): Promise<void> {
    const store = this.#store;
    while (!enough()) {
      for (let i = 0; i < TURN && !enough(); i++) this.#put();
      store.endTurn();
      const { wrote } = store.watermarks;
      await new Promise((resolve) => setImmediate(resolve));
      while (wrote - store.watermarks.dispatched > MOST_BEHIND) await new Promise((resolve) => setImmediate(resolve));
    }
    const { wrote } = store.watermarks;
    while (store.watermarks.dispatched < wrote) await new Promise((resolve) => setImmediate(resolve));
  }

  #put(): void {
    const n = this.count++;
    const topics = this.#topics;
    const queue = n % (topics.length * this.#queues);
    const { topic, bytes, queues } = topics[queue % topics.length]!;
    const request = this.#request;
    request.topic = topic;
    request.topicBytes = bytes;
    request.queues = queues;
    request.queueId = Math.floor(queue / topics.length);
    const keys = this.#keys;
    if (keys !== undefined) {
      let rest = n;
      for (let i = 0; i < 12; i++, rest = Math.floor(rest / 10)) keys[6 + 11 - i] = 0x30 + (rest % 10);
      keys.copy(keys, 48, 6, 18);
    }
    if (this.#light.length > 0) {
      const name = this.#light[n % this.#light.length]!;
      request.properties = Buffer.concat([this.#keys!, name]);
      request.propertiesEnd = request.properties.length;
    }
    this.#store.put(request, this.#result);
    if (this.#result.status !== PutMessageStatus.PUT_OK) throw new Error(this.#result.reason);
  }
}
