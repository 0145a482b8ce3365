// How far each queue of a compaction topic is compacted: the queue offset of the last message whose key the last compaction looked at.
// `compaction/position-checkpoint`, RocketMQ's JSON to the letter. A position is saved behind the files that it speaks of; one that is lost makes
// the next compaction look at more, and no message less. RocketMQ: CompactionPositionMgr.

import type { Logger } from '../../common/index.ts';
import { type FileSystem, makeDirectoryDurably, readWhole, saveDurably } from '../../io/index.ts';
import { saveLater } from './waits.ts';

const NAME = 'position-checkpoint';

export class CompactionPositions {
  readonly path: string;
  readonly #fs: FileSystem;
  #positions = new Map<string, number>();
  #saving: Promise<void> = Promise.resolve();
  #changes = 0;
  #saved = 0;

  constructor(fs: FileSystem, folder: string) {
    this.#fs = fs;
    this.path = `${folder}/${NAME}`;
  }

  /** Reads the file, or its `.bak`; with neither every queue is compacted from its beginning. */
  load(logger: Logger): void {
    for (const path of [this.path, `${this.path}.bak`]) {
      const bytes = readWhole(this.#fs, path);
      if (bytes === undefined) continue;
      const positions = parsed(bytes);
      if (positions !== undefined) {
        this.#positions = positions;
        return;
      }
      logger.warn(`${path} cannot be read: it is no table of positions; what was compacted is looked at again`);
    }
  }

  /** -1: nothing is compacted. */
  get(name: string): number {
    return this.#positions.get(name) ?? -1;
  }

  set(name: string, offset: number): void {
    if (this.get(name) === Math.max(-1, offset)) return;
    if (offset < 0) this.#positions.delete(name);
    else this.#positions.set(name, offset);
    this.#changes++;
  }

  /** Whether something is set that no save has covered. */
  get changed(): boolean {
    return this.#changes !== this.#saved;
  }

  /** Saves what is set now, behind saves that are under way. @throws GantryError IO, DISK_FULL. */
  save(): Promise<void> {
    const saving = this.#saving.then(async () => {
      const covered = this.#changes;
      await saveLater(this.#fs, this.path, this.text(), true);
      this.#saved = Math.max(this.#saved, covered);
    });
    this.#saving = saving.catch(() => {});
    return saving;
  }

  /** As `save`, on the spot: before what a position speaks of goes. @throws GantryError IO, DISK_FULL. */
  saveNow(): void {
    makeDirectoryDurably(this.#fs, this.path.slice(0, this.path.lastIndexOf('/')));
    saveDurably(this.#fs, this.path, this.text());
    // A save that is under way may still put older ones into its place.
    void this.save().catch(() => {});
  }

  /** What the file holds: what fastjson2 makes of the manager, `empty` included. */
  text(): string {
    const entries = [...this.#positions].map(([name, offset]) => `\t\t${JSON.stringify(name)}:${offset}`);
    const map = entries.length === 0 ? '{}' : `{\n${entries.join(',\n')}\n\t}`;
    return `{\n\t"empty":${entries.length === 0},\n\t"queueOffsetMap":${map}\n}`;
  }
}

function parsed(bytes: Uint8Array): Map<string, number> | undefined {
  try {
    const { queueOffsetMap } = JSON.parse(Buffer.from(bytes).toString('utf8'));
    const positions = new Map<string, number>();
    for (const [name, offset] of Object.entries(queueOffsetMap as Record<string, unknown>))
      if (Number.isSafeInteger(offset)) positions.set(name, offset as number);
    return positions;
  } catch {
    return undefined;
  }
}
