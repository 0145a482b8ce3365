// What the retention tells of a file before it removes it, and who may have a say.

/** Messages of one queue that go with a file: ordinals [from, to). */
export interface QueueMove {
  readonly topic: string;
  readonly queueId: number;
  /** The queue's minimum before and after. */
  readonly from: number;
  readonly to: number;
}

/** One CommitLog file that is about to go: physical offsets [start, end). */
export interface Removal {
  readonly start: number;
  readonly end: number;
  /** The disk is so full that the file goes before its time, and whoever needs it. */
  readonly forced: boolean;
  /** When it goes, in words, if it is not about to go yet ("in 5 h"); then nothing is counted. */
  readonly soon?: string;
  /** Queues whose minimum moves. */
  readonly moves: readonly QueueMove[];
}

/** Someone who still needs messages that no consumer may wait for: a replica, a timer, delay levels, half messages. */
export interface RetentionFloor {
  /** Completes "... are still needed by". */
  readonly name: string;
  /** Called before `needed` for the same file, to do in turns what takes long; must not reject. */
  prepare?(file: Pick<Removal, 'start' | 'end' | 'forced'>): Promise<void>;
  /** How many of the messages (or, for a replica, bytes) of a removal are needed still; 0: it may go. Must not throw. */
  needed(removal: Removal): number;
}

/** Told of each removal just before it happens, forced or not, and now and then of one that is due soon; must not throw. */
export type RemovalListener = (removal: Removal) => void;

/** What retention has done since the start. */
export interface RetentionCounts {
  /** CommitLog files, and those among them that went before their time. */
  files: number;
  forcedFiles: number;
  queueFiles: number;
  indexFiles: number;
  /** What a floor needed and lost by force, by its name. */
  readonly lost: Map<string, number>;
}
