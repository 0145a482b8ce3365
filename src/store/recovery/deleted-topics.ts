// Which records are of a topic's earlier life: `<root>/gantry/deleted-topics.json`. Deleting a topic leaves its messages in the log, and
// the log alone cannot say that they are gone: built from it again, the queues would hold them, and what was sent to a topic of that
// name since would find its ordinals taken. RocketMQ keeps no such record, and loses either.
//
//   log   ··A0··A1··B0··A2··|··B1··A0'··A1'··        A is dispatched from its end `|` on, B from the beginning
//                           ^ end of A
//
// Invariant (I5): an end is saved only after the log is durable up to it, so that a recovery that finds the log shorter has lost
// bytes to damage; it lowers the ends before anything is appended.

import type { Logger } from '../../common/index.ts';
import { type FileSystem, readWhole, saveDurably } from '../../io/index.ts';

interface Saved {
  version: 1;
  /** topic -> physical offset below which its records are of an earlier life. */
  ends: Record<string, number>;
}

const QUEUE_FOLDERS = ['consumequeue', 'batchconsumequeue', 'consumequeue_ext'];

export class DeletedTopics {
  readonly #fs: FileSystem;
  readonly #root: string;
  readonly #path: string;
  #ends: Map<string, number>;
  /** Topics that queue-bounds.json may know by an earlier life than the present one. */
  readonly #unbound: Map<string, number>;
  /** Deletions so far. */
  deletions = 0;

  private constructor(fs: FileSystem, root: string, ends: Map<string, number>) {
    this.#fs = fs;
    this.#root = root;
    this.#path = `${root}/gantry/deleted-topics.json`;
    this.#ends = ends;
    this.#unbound = new Map([...ends.keys()].map((topic) => [topic, 0]));
  }

  /** Reads the file, or its `.bak` with a warning. Without both nothing counts as deleted. @throws GantryError IO. */
  static load(fs: FileSystem, root: string, logger: Logger): DeletedTopics {
    const path = `${root}/gantry/deleted-topics.json`;
    for (const candidate of [path, `${path}.bak`]) {
      const bytes = readWhole(fs, candidate);
      if (bytes === undefined) continue;
      const ends = parse(bytes);
      if (ends !== undefined) return new DeletedTopics(fs, root, ends);
      logger.warn(`${candidate} cannot be read; messages of topics that were deleted may appear again`);
    }
    return new DeletedTopics(fs, root, new Map());
  }

  /** Whether no topic was ever deleted. */
  get isEmpty(): boolean {
    return this.#ends.size === 0;
  }

  /** Physical offset below which records of `topic` are of an earlier life; 0 if it was never deleted. */
  endOf(topic: string): number {
    return this.#ends.get(topic) ?? 0;
  }

  /** Ends the life of `topics` at `end`, durably. @throws GantryError IO, DISK_FULL: nothing has changed here; the disk may have it. */
  add(topics: readonly string[], end: number, logMinimum: number): void {
    const ends = new Map([...this.#ends].filter(([topic, other]) => other > logMinimum || this.#unbound.has(topic)));
    for (const topic of topics) ends.set(topic, end);
    try {
      this.#save(ends);
    } catch (error) {
      this.#putBack();
      throw error;
    }
    this.deletions++;
    for (const topic of topics) this.#unbound.set(topic, this.deletions);
  }

  /** The bounds of the queues have been saved; the save began after so many deletions. */
  boundsSaved(deletions: number): void {
    for (const [topic, at] of this.#unbound) if (at <= deletions) this.#unbound.delete(topic);
  }

  /** A save that failed may have come as far as the rename, and what goes on as before must not be found deleted by the next start. */
  #putBack(): void {
    try {
      this.#save(this.#ends);
    } catch {
      // Then it is as the caller was told: the disk may have it.
    }
  }

  /** The log was cut: what will be appended from `logEnd` on is of the present life. @throws GantryError IO, DISK_FULL. */
  lowerTo(logEnd: number): void {
    const lowered = [...this.#ends].filter(([, end]) => end > logEnd);
    if (lowered.length === 0) return;
    // Once the end is lower nothing tells files of the earlier life by their units any more: their removal is made durable first.
    for (const kind of QUEUE_FOLDERS) {
      for (const topic of ['', ...lowered.map(([name]) => name)]) this.#syncFolder(`${this.#root}/${kind}/${topic}`);
    }
    this.#save(new Map([...this.#ends].map(([topic, end]) => [topic, Math.min(end, logEnd)])));
  }

  #syncFolder(path: string): void {
    if (this.#fs.stat(path)?.isDirectory === true) this.#fs.syncDirectory(path);
  }

  #save(ends: Map<string, number>): void {
    const saved: Saved = { version: 1, ends: Object.fromEntries(ends) };
    saveDurably(this.#fs, this.#path, JSON.stringify(saved));
    this.#ends = ends;
  }
}

/** undefined if the bytes are not such a file. */
function parse(bytes: Uint8Array): Map<string, number> | undefined {
  try {
    const { version, ends } = JSON.parse(Buffer.from(bytes).toString('utf8')) as Saved;
    if (version !== 1) return undefined;
    const entries = Object.entries(ends);
    return entries.every(([, end]) => Number.isSafeInteger(end)) ? new Map(entries) : undefined;
  } catch {
    return undefined;
  }
}
