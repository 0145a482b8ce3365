// Deletion of topics. Their messages stay in the log until retention; `recovery/deleted-topics.ts` remembers that no start brings them back.

import { GantryError } from '../../common/index.ts';
import type { CommitLog } from '../commit-log/commit-log.ts';
import { canBeFolder, type QueueKinds } from '../consume-queue/index.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import type { AckQueue } from '../flush/ack-queue.ts';
import { type MessageAppender, type PutGuard, PutMessageStatus } from '../put/index.ts';
import type { DeletedTopics } from '../recovery/deleted-topics.ts';

export interface TopicDeletionOptions {
  log: CommitLog;
  kinds: QueueKinds;
  deleted: DeletedTopics;
  dispatcher: Dispatcher;
  appender: MessageAppender;
  guard: PutGuard;
  acks: AckQueue;
  /** Asks for a turn of the store. */
  askTurn: () => void;
  /** Told of each topic before its queues go. */
  onDeleted: (topic: string) => void;
}

export class TopicDeletion {
  readonly #options: TopicDeletionOptions;
  #last: Promise<void> = Promise.resolve();

  constructor(options: TopicDeletionOptions) {
    this.#options = options;
  }

  /** One after the other: a second deletion of a topic must not be answered before the first is durable. @throws GantryError IO, DISK_FULL. */
  async delete(topics: readonly string[], isDoomed: (topic: string) => boolean = () => true): Promise<void> {
    const deletion = this.#last.then(() => this.#delete(topics.filter(isDoomed)));
    this.#last = deletion.catch(() => {});
    await deletion;
  }

  async #delete(topics: readonly string[]): Promise<void> {
    const { log, kinds, deleted, dispatcher, appender, guard, onDeleted } = this.#options;
    if (guard.closing) throw new GantryError('STORE_CLOSED', 'the store is being closed');
    // Also one without queues: the log may have its messages, and they must not come back when queues are built again.
    const doomed = topics.filter((topic) => kinds.has(topic) || (canBeFolder(topic) && log.wrote > log.minimum));
    if (doomed.length === 0) return;
    for (const topic of doomed) guard.deleting.add(topic);
    try {
      const end = log.wrote;
      await this.#durable(end);
      deleted.add(doomed, end, log.minimum);
      dispatcher.livesChanged();
      for (const topic of doomed) {
        onDeleted(topic);
        const watched = kinds.of(topic).filter((queue) => queue.watched);
        kinds.remove(topic);
        appender.queuesRemoved();
        for (const { queueId } of watched) kinds.findOrCreate(topic, queueId).watched = true;
      }
    } finally {
      for (const topic of doomed) guard.deleting.delete(topic);
    }
  }

  /** Resolves when everything below `offset`, which was put, is on disk, also with asynchronous flush. @throws GantryError IO, DISK_FULL. */
  async #durable(offset: number): Promise<void> {
    const { log, acks, askTurn } = this.#options;
    await new Promise<void>((resolve, reject) => {
      const settle = (status: PutMessageStatus, reason: string): void => {
        if (status !== PutMessageStatus.PUT_OK) return reject(new GantryError('IO', reason));
        log.syncTo(offset, (error) => (error === undefined ? resolve() : reject(error)));
      };
      acks.park(offset, false, { settle });
      askTurn();
    });
  }
}
