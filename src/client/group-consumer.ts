// What an instance needs of the consumers in it: the push and the pull consumer both are one.

import type { StoredMessage } from '../message/index.ts';
import type { ConsumerData } from './heartbeat.ts';
import type { MessageQueue } from './queues.ts';

/** A consumer as its ClientInstance sees it. */
export interface GroupConsumer {
  readonly group: string;
  /** Topics whose routes matter. */
  topics(): Iterable<string>;
  heartbeatData(): ConsumerData;
  /** Takes and gives away queues; true if all is settled. Never rejects. */
  rebalance(): Promise<boolean>;
  /** Never rejects. */
  persistOffsets(confirm: boolean): Promise<void>;
  /** A broker resets offsets (request 220). */
  resetOffsets(topic: string, offsets: Array<[MessageQueue, number]>): Promise<void>;
  /** The offsets of a topic in memory (request 221). */
  offsets(topic: string): Array<[MessageQueue, number]>;
  /** ConsumerRunningInfo, ready for JSON (request 307). */
  runningInfo(): object;
  /** ConsumeMessageDirectlyResult, ready for JSON (request 309); undefined if this consumer has no listener. */
  consumeDirectly(message: StoredMessage, brokerName: string): Promise<object> | undefined;
}
