// What is known of pops, for all who deal with them: one object a broker.

import type { Logger } from '../../common/index.ts';
import type { ConsumerOffsetManager } from '../offset/consumer-offset-manager.ts';
import type { SubscriptionGroupManager } from '../subscription/subscription-group-manager.ts';
import type { TopicConfigManager } from '../topic/topic-config-manager.ts';
import { PopBufferMerge } from './pop-buffer-merge.ts';
import { NO_ORDER, NO_WAITING, type PopOrder, type PopWaiting } from './pop-parts.ts';
import { PopQueues } from './pop-queues.ts';
import { RevivePut, type RevivePutParts } from './revive-put.ts';

export interface PopStateParts extends RevivePutParts {
  readonly logger: Logger;
  readonly offsets: ConsumerOffsetManager;
  readonly topics: TopicConfigManager;
  readonly groups: SubscriptionGroupManager;
}

export class PopState {
  readonly queues: PopQueues;
  readonly revive: RevivePut;
  readonly buffer: PopBufferMerge;
  /** Set at the start by those whose subject it is. */
  waiting: PopWaiting = NO_WAITING;
  order: PopOrder = NO_ORDER;
  /** A queue that was closed to its group is open again: wakes who waits, if it has something. */
  wakeIfAny: (topic: string, group: string, queueId: number) => void = () => {};

  readonly #parts: PopStateParts;

  constructor(parts: PopStateParts) {
    this.#parts = parts;
    const { clock, groups, offsets, store, topics } = parts;
    this.revive = new RevivePut(parts);
    this.queues = new PopQueues({
      clock,
      store,
      offsets,
      hasTopic: (topic) => topics.has(topic),
      hasGroup: (group) => groups.has(group),
      threshold: () =>
        parts.config.enablePopMessageThreshold ? parts.config.popInflightMessageThreshold : Number.POSITIVE_INFINITY,
      onRelief: ({ topic, group, queueId }) => this.wakeIfAny(topic, group, queueId),
    });
    const { config, logger } = parts;
    const { queues, revive } = this;
    this.buffer = new PopBufferMerge({ config, clock, logger, queues, revive, hasGroup: (group) => groups.has(group) });
  }

  /** Whether a receipt handle of this broker can have this revive queue; there were more of them, perhaps, than there are. */
  isReviveQueue(queueId: number): boolean {
    const { config, topics } = this.#parts;
    const queues = Math.max(config.reviveQueueNum, topics.select(this.revive.topic)?.writeQueueNums ?? 0);
    return queueId >= 0 && queueId < queues;
  }

  /** Where the next pop of a queue begins: what waits for its check point is taken already; -1 for a group without an offset. */
  nextOffset(topic: string, group: string, queueId: number): number {
    const { offsets } = this.#parts;
    const latest = offsets.hasReset(group, topic, queueId) ? -1 : this.queues.latestOffset(topic, group, queueId);
    return Math.max(offsets.query(group, topic, queueId), latest);
  }

  start(): void {
    this.queues.start();
  }

  /** What waits in memory is stored. */
  stop(): void {
    this.buffer.stop();
    this.queues.stop();
  }
}
