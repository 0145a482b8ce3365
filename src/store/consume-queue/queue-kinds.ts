// All kinds of queue files together: plain ConsumeQueues, their ext units, and batch queues. A topic's queues are of one kind: what its config
// says (attribute queue.type), or, where nobody knows the topic, what its files or its first record say. Light queues (%LMQ%) are plain.

import { GantryError, sameBytes } from '../../common/index.ts';
import type { BatchQueue, BatchQueueStore } from './batch-queue.ts';
import { ConsumeQueue } from './consume-queue.ts';
import type { ConsumeQueueExt } from './consume-queue-ext.ts';
import type { ConsumeQueueStore } from './consume-queue-store.ts';

export type AnyQueue = ConsumeQueue | BatchQueue;

/** RocketMQ: MixAll.LMQ_PREFIX. */
const LMQ_PREFIX = '%LMQ%';

/** Whether a name is a light queue's. Its queueId is 0. */
export function isLightQueue(topic: string): boolean {
  return topic.startsWith(LMQ_PREFIX);
}

const LMQ_BYTES = Buffer.from(LMQ_PREFIX);
const COMMA = 0x2c;
const SPACE = 0x20;

/** Whether a list of queues, `bytes[start, end)`, is the name of one light queue, with nothing to be cut off. */
export function isOneLightName(bytes: Uint8Array, start: number, end: number): boolean {
  if (end - start < LMQ_BYTES.length || !sameBytes(bytes, start, LMQ_BYTES, 0, LMQ_BYTES.length)) return false;
  for (let i = start; i < end; i++) if (bytes[i] === COMMA || bytes[i]! <= SPACE) return false;
  return true;
}

export class QueueKinds {
  readonly plain: ConsumeQueueStore;
  readonly batch: BatchQueueStore;
  readonly ext: ConsumeQueueExt | undefined;
  readonly #isBatchTopic: (topic: string) => boolean | undefined;

  /** `isBatchTopic`: what a topic's config says; undefined for a topic that has none. */
  constructor(
    plain: ConsumeQueueStore,
    batch: BatchQueueStore,
    ext: ConsumeQueueExt | undefined,
    isBatchTopic: (topic: string) => boolean | undefined,
  ) {
    this.plain = plain;
    this.batch = batch;
    this.ext = ext;
    this.#isBatchTopic = isBatchTopic;
  }

  /** Whether a topic's queues are batch queues; undefined if nothing says so yet. */
  isBatch(topic: string): boolean | undefined {
    if (isLightQueue(topic)) return false;
    const told = this.#isBatchTopic(topic);
    if (told !== undefined) return told;
    if (this.batch.has(topic)) return true;
    return this.plain.has(topic) && this.plain.topic(topic).queues.length > 0 ? false : undefined;
  }

  /** The queue, if it exists. */
  find(topic: string, queueId: number): AnyQueue | undefined {
    return this.plain.find(topic, queueId) ?? this.batch.find(topic, queueId);
  }

  /** The queue, made if it does not exist; requires that the topic `canBeFolder`. */
  findOrCreate(topic: string, queueId: number): AnyQueue {
    const found = this.find(topic, queueId);
    if (found !== undefined) return found;
    const kind = this.isBatch(topic) === true ? this.batch : this.plain;
    return kind.findOrCreate(topic, queueId);
  }

  has(topic: string): boolean {
    return this.plain.has(topic) || this.batch.has(topic);
  }

  *all(): IterableIterator<AnyQueue> {
    yield* this.plain.all();
    yield* this.batch.all();
  }

  /** The queues of a topic that exist. */
  of(topic: string): AnyQueue[] {
    if (this.batch.has(topic)) return [...this.batch.of(topic)];
    return this.plain.topic(topic).queues.filter((queue) => queue !== undefined);
  }

  /**
   * `mayBeLeft`: whether files of a topic may be those of a deleted one, whose removal was not durable.
   * @throws GantryError STORE_DAMAGED for files of another kind than the topic's. RocketMQ refuses such a start, too.
   */
  checkKinds(mayBeLeft: (topic: string) => boolean): void {
    for (const [kind, topics] of [
      ['consumequeue', new Set([...this.plain.all()].map(({ topic }) => topic))],
      ['batchconsumequeue', new Set([...this.batch.all()].map(({ topic }) => topic))],
    ] as const) {
      for (const topic of topics) {
        const told = isLightQueue(topic) ? false : this.#isBatchTopic(topic);
        if (told === undefined || told === (kind === 'batchconsumequeue') || mayBeLeft(topic)) continue;
        throw new GantryError(
          'STORE_DAMAGED',
          `${kind}/${topic} has queue files, but the topic's queue.type is ${told ? 'BatchCQ' : 'SimpleCQ'}; remove that folder, or mend config/topics.json`,
        );
      }
    }
  }

  /** Writes a bounded number of tails; true if more wait than the budgets allow. */
  sweep(): boolean {
    const ext = this.ext?.sweep() ?? false;
    const batch = this.batch.sweep();
    return this.plain.sweep() || batch || ext;
  }

  /** Makes everything durable that was put before the call: ext units before the units that name them. */
  flush(done: (error: GantryError | undefined) => void): void {
    const batch = (error: GantryError | undefined): void => {
      if (error !== undefined || this.batch.isEmpty) done(error);
      else this.batch.flush(done);
    };
    const plain = (error: GantryError | undefined): void => {
      if (error !== undefined) done(error);
      else this.plain.flush(batch);
    };
    if (this.ext === undefined) plain(undefined);
    else this.ext.flush(plain);
  }

  /** As ConsumeQueueStore.syncPages, which is meant for many queues; the further kinds wait for the thorough flush. */
  syncPages(leastPages: number, done: (error: GantryError | undefined) => void): void {
    this.plain.syncPages(leastPages, done);
  }

  /** As ConsumeQueueStore.toFlush, of the plain queues, which are the many. */
  get toFlush(): number {
    return this.plain.toFlush;
  }

  /** Nothing waits to be written or synced. */
  get isDurable(): boolean {
    return this.plain.isDurable && this.batch.isDurable && (this.ext?.isDurable ?? true);
  }

  /** Syncs under way at once. */
  set syncLanes(lanes: number) {
    this.plain.syncLanes = lanes;
  }

  /** Removes one queue and its folder. */
  removeQueue(queue: AnyQueue): void {
    if (queue instanceof ConsumeQueue) this.plain.removeQueue(queue);
    else this.batch.removeQueue(queue);
  }

  /** Removes a topic's queues and files. */
  remove(topic: string): void {
    this.plain.remove(topic);
    if (this.batch.has(topic)) this.batch.remove(topic);
  }

  /** Removes everything: the log is gone. */
  removeAll(): void {
    this.plain.removeAll();
    this.batch.removeAll();
  }

  close(): void {
    this.ext?.close();
    this.plain.close();
    this.batch.close();
  }
}
