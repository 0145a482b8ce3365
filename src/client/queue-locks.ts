// Locks that an ordered consumer holds on its queues at their brokers: only their holder may consume (LOCK_BATCH_MQ 41, UNLOCK_BATCH_MQ 42).
// A broker keeps a lock for 60 s without renewal. RocketMQ: RebalanceImpl#lock, #lockAll, #unlock, #unlockAll.

import { parseJson, RequestCode, toJsonBytes } from '../remoting/index.ts';
import { expectSuccess } from './client-errors.ts';
import type { ClientInstance } from './client-instance.ts';
import { jsonField } from './queue-json.ts';
import { type MessageQueue, plainQueue, queueKey } from './queues.ts';

/** RocketMQ: the time limit of lockBatchMQ and unlockBatchMQ. */
const TIMEOUT_MS = 1000;

/** Locks of one group's member. */
export class QueueLocks {
  readonly #client: ClientInstance;
  readonly #group: string;

  constructor(client: ClientInstance, group: string) {
    this.#client = client;
    this.#group = group;
  }

  /** The broker that has a queue. */
  readonly brokerOf = (queue: MessageQueue): string | undefined => this.#client.routes.brokerOf(queue);

  /** Locks queues of one broker; answers the keys of those that are ours now. @throws GantryError NO_ROUTE, REMOTING_...; BrokerError */
  async lock(queues: readonly MessageQueue[]): Promise<Set<string>> {
    const body = await this.#ask('locking', RequestCode.LOCK_BATCH_MQ, queues);
    const list = body.length === 0 ? undefined : jsonField(parseJson(body), 'lockOKMQSet');
    const ours = new Set<string>();
    for (const item of Array.isArray(list) ? list : []) {
      const topic = String(jsonField(item, 'topic'));
      const brokerName = String(jsonField(item, 'brokerName'));
      ours.add(queueKey({ topic, brokerName, queueId: Number(jsonField(item, 'queueId')) }));
    }
    return ours;
  }

  /** Gives queues of one broker up. @throws as `lock` */
  async unlock(queues: readonly MessageQueue[]): Promise<void> {
    await this.#ask('unlocking', RequestCode.UNLOCK_BATCH_MQ, queues);
  }

  async #ask(what: string, code: number, queues: readonly MessageQueue[]): Promise<Uint8Array> {
    const address = await this.#client.masterAddress(queues[0]!);
    const body = toJsonBytes({
      clientId: this.#client.clientId,
      consumerGroup: this.#group,
      mqSet: queues.map(plainQueue),
      onlyThisBroker: false,
    });
    const response = await this.#client.invokeBroker(address, code, null, body, TIMEOUT_MS);
    expectSuccess(`${what} ${queues.length} queues of ${this.#group}`, address, response);
    return response.body;
  }
}

/** Queues by the broker that has them (`brokerOf`): one request goes to each. */
export function byBroker<T extends { readonly queue: MessageQueue }>(
  items: Iterable<T>,
  brokerOf: (queue: MessageQueue) => string | undefined,
): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const name = brokerOf(item.queue) ?? item.queue.brokerName;
    const list = groups.get(name);
    if (list === undefined) groups.set(name, [item]);
    else list.push(item);
  }
  return groups;
}
