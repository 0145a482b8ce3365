// The door of the store. (Being built: the interface below is what the class of the same name offers.)

import type { QueueOffset } from '../common/index.ts';
import type { GetResult, TagFilter } from './get.ts';
import type { PutRequest, PutResult } from './put.ts';
import type { MessageStoreConfig } from './store-config.ts';

/** Positions that say how far the log has come, all physical offsets. I4: flushed <= committed <= wrote; dispatched <= confirmed. */
export interface Watermarks {
  /** Start of the oldest file. */
  minimum: number;
  wrote: number;
  committed: number;
  flushed: number;
  /** What dispatch and consumers may see. */
  confirmed: number;
  dispatched: number;
}

export interface QueryResult {
  /** Whole records as they lie in the log. */
  records: Uint8Array[];
  indexLastUpdateTimestamp: number;
  indexLastUpdatePhyoffset: number;
}

/** Called in log order, once per dispatched record; must not throw. `maxOffset` is the queue's new exclusive maximum. */
export type ArrivalListener = (topic: string, queueId: number, maxOffset: QueueOffset, tagsCode: number) => void;

export interface MessageStore {
  readonly config: MessageStoreConfig;
  readonly watermarks: Readonly<Watermarks>;
  /** Why puts are refused now; undefined while the store is writable. */
  readonly unwritableReason: string | undefined;
  /**
   * Appends one message or batch in memory and answers at once in `result`. PUT_OK here means appended; an answer to a client
   * waits for a watermark (`whenDurable`).
   */
  put(request: PutRequest, result: PutResult): void;
  /** Runs `done` when everything below `offset` is committed and, with sync flush and `flush`, synced; the status says how it ended. */
  whenDurable(offset: number, flush: boolean, done: (status: number, reason: string) => void): void;

  minOffsetInQueue(topic: string, queueId: number): QueueOffset;
  /** `committed`: what is dispatched (the default); otherwise the next offset that a put would get. */
  maxOffsetInQueue(topic: string, queueId: number, committed?: boolean): QueueOffset;
  offsetInQueueByTime(
    topic: string,
    queueId: number,
    timestamp: number,
    boundary: 'LOWER' | 'UPPER',
  ): Promise<QueueOffset>;
  /** Store time of the message at a queue offset; -1 if there is none. */
  messageStoreTimestamp(topic: string, queueId: number, offset: number): Promise<number>;
  /** Store time of the queue's first message; -1 if there is none. */
  earliestMessageTime(topic: string, queueId: number): Promise<number>;

  /**
   * Chooses the records of one pull. Answers false if bytes had to be fetched from disk first: then nothing in `result` counts,
   * and `ready` runs once when the call should be repeated.
   */
  select(
    topic: string,
    queueId: number,
    offset: number,
    maxMessages: number,
    maxBytes: number,
    filter: TagFilter,
    result: GetResult,
    ready: () => void,
  ): boolean;
  /** Copies the chosen records, one behind the other, to `target[at...]`; false and `ready` as in `select`. */
  copyRecords(result: GetResult, target: Uint8Array, at: number, ready: () => void): boolean;
  /** The whole record that starts at a physical offset; undefined if none does. */
  recordAt(offset: number): Promise<Uint8Array | undefined>;
  /** RocketMQ: queryMessage. `indexType` K, U or T. The real key is compared (RocketMQ compares its hash only). */
  queryMessage(
    topic: string,
    key: string,
    maxMessages: number,
    begin: number,
    end: number,
    indexType: string,
  ): Promise<QueryResult>;

  onArrival(listener: ArrivalListener): void;
  /** Every (topic, queueId) that has a ConsumeQueue. */
  queues(): Iterable<{ topic: string; queueId: number }>;
  deleteTopic(topic: string): void;
  close(): Promise<void>;
}
