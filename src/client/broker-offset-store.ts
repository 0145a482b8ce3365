// Offsets that brokers keep: QUERY_CONSUMER_OFFSET (14) and UPDATE_CONSUMER_OFFSET (15). RocketMQ: RemoteBrokerOffsetStore.

import { errorText, GantryError } from '../common/index.ts';
import { RequestCode, ResponseCode } from '../remoting/index.ts';
import { BrokerError, expectSuccess } from './client-errors.ts';
import type { ClientInstance } from './client-instance.ts';
import type { OffsetStore } from './offset-store.ts';
import { OffsetTable } from './offset-table.ts';
import { type MessageQueue, queueText } from './queues.ts';

/** Offsets of a group in cluster mode. */
export class BrokerOffsetStore implements OffsetStore {
  readonly #client: ClientInstance;
  readonly #group: string;
  readonly #table = new OffsetTable();

  constructor(client: ClientInstance, group: string) {
    this.#client = client;
    this.#group = group;
  }

  update(queue: MessageQueue, offset: number, increaseOnly: boolean): void {
    this.#table.update(queue, offset, increaseOnly);
  }

  updateAndFreeze(queue: MessageQueue, offset: number): void {
    this.#table.freeze(queue, offset);
  }

  peek(queue: MessageQueue): number | undefined {
    return this.#table.get(queue);
  }

  async fetch(queue: MessageQueue): Promise<number | undefined> {
    const address = await this.#client.readAddress(queue);
    const response = await this.#client.invokeBroker(address, RequestCode.QUERY_CONSUMER_OFFSET, this.#header(queue));
    if (response.code === ResponseCode.QUERY_NOT_FOUND) return undefined;
    if (response.code !== ResponseCode.SUCCESS) {
      throw new BrokerError(`the offset of ${this.#group} in ${queueText(queue)}`, address, response);
    }
    const offset = Number(response.ext['offset']);
    if (!Number.isSafeInteger(offset)) throw new GantryError('HEADER', `no offset in the answer of ${address}`);
    if (offset < 0) return undefined;
    this.#table.update(queue, offset, false);
    return offset;
  }

  async persist(queues: Iterable<MessageQueue>, confirm: boolean): Promise<void> {
    const saves: Array<Promise<void>> = [];
    for (const queue of queues) {
      const offset = this.#table.get(queue);
      if (offset !== undefined) saves.push(this.#save(queue, offset, confirm));
    }
    await Promise.all(saves);
  }

  remove(queue: MessageQueue): void {
    this.#table.remove(queue);
  }

  entries(topic?: string): Array<[MessageQueue, number]> {
    return this.#table.entries(topic);
  }

  async #save(queue: MessageQueue, offset: number, confirm: boolean): Promise<void> {
    try {
      const address = await this.#client.readAddress(queue);
      const header = { ...this.#header(queue), commitOffset: offset };
      if (!confirm) {
        await this.#client.connections.sendOneway(address, RequestCode.UPDATE_CONSUMER_OFFSET, header, null);
        return;
      }
      const response = await this.#client.invokeBroker(address, RequestCode.UPDATE_CONSUMER_OFFSET, header);
      expectSuccess(`saving the offset of ${this.#group} in ${queueText(queue)}`, address, response);
    } catch (error) {
      const text = `offsets of ${this.#group} could not be saved on ${queue.brokerName}: ${errorText(error)}`;
      this.#client.repeated.warn(text, text);
    }
  }

  #header(queue: MessageQueue): { consumerGroup: string; topic: string; queueId: number; bname: string } {
    return { consumerGroup: this.#group, topic: queue.topic, queueId: queue.queueId, bname: queue.brokerName };
  }
}
