// Which queues this member of a group works on. Each member asks a broker who else is there, computes the same shares as all others
// (allocate-averagely.ts), drops queues that are no longer its own and starts on new ones. RocketMQ: RebalanceImpl.

import { errorText } from '../common/index.ts';
import { parseJson, RequestCode, ResponseCode } from '../remoting/index.ts';
import { allocateAveragely } from './allocate-averagely.ts';
import { BrokerError } from './client-errors.ts';
import type { ClientInstance } from './client-instance.ts';
import type { MessageModel } from './heartbeat.ts';
import { ProcessQueue } from './process-queue.ts';
import { jsonField } from './queue-json.ts';
import { type MessageQueue, queueKey, queueText } from './queues.ts';
import { MASTER_ID } from './route.ts';

/** A queue that was not pulled for this long has lost its pull loop; it is dropped and taken anew. RocketMQ: pull.pullMaxIdleTime. */
const PULL_IDLE_MS = 120_000;
/** Topics without a route are asked for again after this long, while rounds come each second. */
const ROUTE_RETRY_MS = 3000;

/** What the rebalancer needs of its consumer. */
export interface RebalanceOwner {
  readonly group: string;
  readonly messageModel: MessageModel;
  topics(): Iterable<string>;
  /** The queues of a topic that were chosen by hand; undefined to share with the group. */
  fixedQueues?(topic: string): readonly MessageQueue[] | undefined;
  /** The queues of a topic that a broker gave to this member to pull from; undefined if none can say. Absent: the members share by themselves. */
  readonly assignedQueues?: ((topic: string) => Promise<readonly MessageQueue[] | undefined>) | undefined;
  /** Where to begin in a queue that was just taken. A rejection: the queue is tried again at the next round. */
  initialOffset(queue: MessageQueue): Promise<number>;
  /** Locks a queue before it is taken; false: somebody else still has it. Absent: there are no locks. */
  readonly lockQueue?: ((queue: MessageQueue) => Promise<boolean>) | undefined;
  /** The queue is no longer ours (`dropped` is set): save its offset. False: it cannot be let go yet, this is called again. */
  queueRemoved(taken: ProcessQueue): Promise<boolean>;
  /** The set of queues of a topic changed: brokers must learn the new subscription version before the first pull. */
  queuesChanged(topic: string): Promise<void>;
  /** The queue is ours: begin to pull. */
  queueAdded(taken: ProcessQueue): void;
}

/** Is retry topic: its absence is normal until the first heartbeat. */
export function isRetryTopic(topic: string): boolean {
  return topic.startsWith('%RETRY%');
}

/** The assigned queues of one consumer. */
export class Rebalancer {
  readonly #client: ClientInstance;
  readonly #owner: RebalanceOwner;
  readonly #taken = new Map<string, ProcessQueue>();
  /** Dropped, but not let go yet. */
  readonly #unreleased = new Set<ProcessQueue>();

  constructor(client: ClientInstance, owner: RebalanceOwner) {
    this.#client = client;
    this.#owner = owner;
  }

  /** The queues in work. */
  queues(): ProcessQueue[] {
    return [...this.#taken.values()].filter((taken) => !taken.dropped);
  }

  /** Those and the ones that are not let go yet. */
  held(): ProcessQueue[] {
    return [...this.#taken.values()];
  }

  get(queue: MessageQueue): ProcessQueue | undefined {
    return this.#taken.get(queueKey(queue));
  }

  /** One round over all topics; true if every topic with a known route is settled. Never rejects. */
  async rebalance(): Promise<boolean> {
    let balanced = true;
    const topics = new Set(this.#owner.topics());
    await Promise.all(Array.from(this.#unreleased, (taken) => this.drop(taken)));
    await Promise.all(this.queues().map((taken) => (topics.has(taken.queue.topic) ? undefined : this.drop(taken))));
    for (const topic of topics) {
      try {
        balanced = (await this.#rebalanceTopic(topic)) && balanced;
      } catch (error) {
        this.#warn(topic, `the queues of ${topic} could not be shared out: ${errorText(error)}`);
        if (!isRetryTopic(topic)) balanced = false;
      }
    }
    return balanced && this.#unreleased.size === 0;
  }

  /** Ends work on a queue. It stays in the table until the owner has let it go, so that nobody takes it anew from an older offset. */
  async drop(taken: ProcessQueue): Promise<void> {
    taken.dropped = true;
    if (!(await this.#owner.queueRemoved(taken))) {
      this.#unreleased.add(taken);
      return;
    }
    this.#unreleased.delete(taken);
    if (this.#taken.get(queueKey(taken.queue)) === taken) this.#taken.delete(queueKey(taken.queue));
  }

  /** Puts a queue at another offset: what is in hand of it is forgotten and its pull loop begins anew. */
  restart(taken: ProcessQueue, offset: number): void {
    taken.dropped = true;
    const fresh = new ProcessQueue(taken.queue, offset, this.#client.clock);
    this.#taken.set(queueKey(taken.queue), fresh);
    this.#owner.queueAdded(fresh);
  }

  /** Ends work on all queues; offsets are not touched. */
  dropAll(): void {
    for (const taken of this.#taken.values()) taken.dropped = true;
    this.#taken.clear();
    this.#unreleased.clear();
  }

  async #rebalanceTopic(topic: string): Promise<boolean> {
    let all = this.#client.routes.subscribeQueues(topic);
    if (all.length === 0) {
      await this.#client.routes.refreshIfOlder(topic, ROUTE_RETRY_MS);
      all = this.#client.routes.subscribeQueues(topic);
    }
    if (all.length === 0) {
      if (!isRetryTopic(topic)) this.#warn(topic, `${this.#owner.group}: the topic ${topic} has no route yet`);
      return isRetryTopic(topic);
    }
    const mine = await this.#share(topic, all);
    if (mine === undefined) return false;
    this.#client.repeated.clear(this.#subject(topic));
    return this.#apply(topic, mine);
  }

  /** My share; undefined if it cannot be known now. */
  async #share(topic: string, all: readonly MessageQueue[]): Promise<readonly MessageQueue[] | undefined> {
    const fixed = this.#owner.fixedQueues?.(topic);
    if (fixed !== undefined) return fixed;
    if (this.#owner.messageModel === 'BROADCASTING') return all;
    if (this.#owner.assignedQueues !== undefined) {
      const assigned = await this.#owner.assignedQueues(topic);
      if (assigned === undefined) this.#warn(topic, `no broker says yet what ${this.#owner.group} has of ${topic}`);
      return assigned;
    }
    const clientIds = await this.#memberIds(topic);
    if (clientIds === undefined || clientIds.length === 0) {
      this.#warn(topic, `no broker of ${topic} knows a member of ${this.#owner.group} yet`);
      return undefined;
    }
    return allocateAveragely(this.#client.clientId, all, clientIds);
  }

  /** GET_CONSUMER_LIST_BY_GROUP at a random broker of the topic: every broker of it has every member's heartbeat. */
  async #memberIds(topic: string): Promise<string[] | undefined> {
    const brokers = this.#client.routes.get(topic)?.brokerDatas ?? [];
    if (brokers.length === 0) return undefined;
    const { brokerAddrs } = brokers[this.#client.random.int(brokers.length)]!;
    const address = brokerAddrs[MASTER_ID] ?? Object.values(brokerAddrs)[0];
    if (address === undefined) return undefined;
    const response = await this.#client.invokeBroker(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, {
      consumerGroup: this.#owner.group,
    });
    if (response.code === ResponseCode.SYSTEM_ERROR) return undefined;
    if (response.code !== ResponseCode.SUCCESS) {
      throw new BrokerError(`the members of ${this.#owner.group}`, address, response);
    }
    if (response.body.length === 0) return undefined;
    const ids = jsonField(parseJson(response.body), 'consumerIdList');
    return Array.isArray(ids) ? ids.map(String) : undefined;
  }

  async #apply(topic: string, mine: readonly MessageQueue[]): Promise<boolean> {
    const wanted = new Map(mine.map((queue) => [queueKey(queue), queue]));
    const removed = await this.#removeOthers(topic, wanted);
    const added: ProcessQueue[] = [];
    let settled = true;
    for (const queue of wanted.values()) {
      const present = this.get(queue);
      if (present !== undefined) {
        if (present.dropped) settled = false;
        continue;
      }
      const taken = await this.#take(queue);
      if (taken === undefined) settled = false;
      else added.push(taken);
    }
    if (removed || added.length > 0) {
      this.#client.logger.info(`${this.#owner.group} now has ${mine.length} queues of ${topic}`);
      await this.#owner.queuesChanged(topic);
    }
    for (const taken of added) if (!taken.dropped) this.#owner.queueAdded(taken);
    return settled;
  }

  async #removeOthers(topic: string, wanted: ReadonlyMap<string, MessageQueue>): Promise<boolean> {
    const now = this.#client.clock.monotonic();
    const gone: ProcessQueue[] = [];
    for (const [key, taken] of this.#taken) {
      if (taken.queue.topic !== topic || taken.dropped) continue;
      const idle = now - taken.lastPullAt > PULL_IDLE_MS;
      if (idle)
        this.#client.logger.error(`${queueText(taken.queue)} was not pulled for ${PULL_IDLE_MS} ms; it is taken anew`);
      if (idle || !wanted.has(key)) gone.push(taken);
    }
    await Promise.all(gone.map((taken) => this.drop(taken)));
    return gone.length > 0;
  }

  async #take(queue: MessageQueue): Promise<ProcessQueue | undefined> {
    let offset: number;
    const lockedAt = this.#client.clock.monotonic();
    try {
      if (this.#owner.lockQueue !== undefined && !(await this.#owner.lockQueue(queue))) {
        this.#client.logger.debug(`${queueText(queue)} is still locked by another member of ${this.#owner.group}`);
        return undefined;
      }
      offset = await this.#owner.initialOffset(queue);
    } catch (error) {
      this.#warn(queueKey(queue), `where to begin in ${queueText(queue)} cannot be known yet: ${errorText(error)}`);
      return undefined;
    }
    this.#client.repeated.clear(this.#subject(queueKey(queue)));
    const taken = new ProcessQueue(queue, offset, this.#client.clock);
    if (this.#owner.lockQueue !== undefined) {
      taken.locked = true;
      taken.lastLockAt = lockedAt;
    }
    this.#taken.set(queueKey(queue), taken);
    return taken;
  }

  #subject(what: string): string {
    return `rebalance ${this.#owner.group} ${what}`;
  }

  #warn(what: string, text: string): void {
    if (this.#client.isRunning) this.#client.repeated.warn(this.#subject(what), text);
  }
}
