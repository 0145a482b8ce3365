// A pop under way: what it asks for, and what it has found so far.

import type { Channel } from '../../remoting/index.ts';
import type { TagFilter } from '../../store/index.ts';
import type { WaitingPop } from './pop-parts.ts';

/** What a pop asks for. */
export interface PopWants {
  readonly group: string;
  readonly topic: string;
  /** -1: any queue. */
  readonly queueId: number;
  readonly maxMessages: number;
  readonly invisibleTimeMs: number;
  readonly pollTimeMs: number;
  /** Ms since the epoch, by the client's clock. */
  readonly bornTime: number;
  readonly initMode: number;
  readonly isOrder: boolean;
  readonly attemptId: string | undefined;
  readonly filter: TagFilter;
}

/** Queues of one topic to look into. */
export interface PopStage {
  readonly topic: string;
  readonly isRetry: boolean;
  /** Queues of the topic; the one that is asked for if `only` says so. */
  readonly queues: number;
  readonly only: number;
  /** It is looked into only if nothing has been found. */
  readonly isLast?: boolean;
}

export interface PopRunner {
  resume(pop: Pop): void;
}

/** RocketMQ: ConsumeInitMode: a group without an offset begins with the first message, or at the end. */
export const INIT_MIN = 0;

export class Pop implements WaitingPop {
  readonly channel: Channel;
  readonly opaque: number;
  readonly oneway: boolean;
  readonly wants: PopWants;
  readonly #runner: PopRunner;

  // What one run has come to.
  popTime = 0;
  reviveQueueId = 0;
  /** Where the visits of a topic's queues begin. */
  turn = 0;
  stages: PopStage[] = [];
  stage = 0;
  visit = 0;
  /** Messages found, and those that were seen and left. */
  count = 0;
  rest = 0;
  /** Messages were passed that are not for it, and more lie behind them. */
  hasMore = false;
  /** Something was waited for, so that what came meanwhile may have been missed. */
  hasWaited = false;
  /** Runs on end that waited and found nothing. */
  emptyRuns = 0;
  starts = '';
  offsets = '';
  orderCounts = '';
  /** The found records, one behind the other. */
  body: Buffer = EMPTY;
  bodyBytes = 0;
  /** Up to where the log must be safe before anybody sees what was found. */
  logEnd = 0;
  /** Why check points were not stored. */
  refused: string | undefined;

  constructor(runner: PopRunner, channel: Channel, opaque: number, oneway: boolean, wants: PopWants) {
    this.#runner = runner;
    this.channel = channel;
    this.opaque = opaque;
    this.oneway = oneway;
    this.wants = wants;
  }

  get group(): string {
    return this.wants.group;
  }
  get topic(): string {
    return this.wants.topic;
  }
  get queueId(): number {
    return this.wants.queueId;
  }
  get maxMessages(): number {
    return this.wants.maxMessages;
  }
  get bornTime(): number {
    return this.wants.bornTime;
  }
  get pollTimeMs(): number {
    return this.wants.pollTimeMs;
  }
  get filter(): TagFilter {
    return this.wants.filter;
  }
  get deadline(): number {
    return this.wants.bornTime + this.wants.pollTimeMs;
  }
  get isWanted(): boolean {
    return this.channel.isOpen;
  }
  get isFull(): boolean {
    return this.count >= this.wants.maxMessages;
  }

  /** Begins a run. */
  begin(popTime: number, reviveQueueId: number, turn: number, stages: PopStage[]): void {
    this.popTime = popTime;
    this.reviveQueueId = reviveQueueId;
    this.turn = turn;
    this.stages = stages;
    this.stage = 0;
    this.visit = 0;
    this.count = 0;
    this.rest = 0;
    this.hasMore = false;
    this.hasWaited = false;
    this.starts = '';
    this.offsets = '';
    this.orderCounts = '';
    this.bodyBytes = 0;
    this.logEnd = 0;
    this.refused = undefined;
  }

  resume(): void {
    this.#runner.resume(this);
  }

  forget(): void {
    this.channel.drop(1);
  }

  /** Makes room for `bytes` more in the body; where they begin. */
  reserve(bytes: number): number {
    const needed = this.bodyBytes + bytes;
    if (needed > this.body.length) {
      const grown = Buffer.allocUnsafe(Math.max(needed, 2 * this.body.length));
      this.body.copy(grown, 0, 0, this.bodyBytes);
      this.body = grown;
    }
    return this.bodyBytes;
  }

  /** Sends the answer; whoever asked one way gets none. */
  send(frame: Uint8Array, slab?: Buffer): void {
    if (this.oneway) this.channel.drop(1);
    else this.channel.send(frame, 1, slab);
  }
}

const EMPTY = Buffer.alloc(0);
