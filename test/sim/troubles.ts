// What ails the disk in one life of a history: it is slow, full or faulty, and well again.

import type { Random } from '../../src/common/index.ts';
import type { Hold, InjectedFault } from '../../src/io/index.ts';
import type { World } from './world.ts';

export class Troubles {
  /** A sync has failed in this life: what the page cache holds is not what the disk holds, so only a power cut may follow. */
  syncFailed = false;
  /** A derived file has failed in this life: the index may have gaps until the next start. */
  derivedFailed = false;
  readonly #world: World;
  readonly #trace: (line: string) => void;
  /** So has a file of the gantry folder. */
  #gantryFailed = false;
  /** Faults that have not struck yet. */
  readonly #faults: InjectedFault[] = [];
  #hold: Hold | undefined;

  constructor(world: World, trace: (line: string) => void) {
    this.#world = world;
    this.#trace = trace;
  }

  /** The disk becomes slow, full or faulty, or well again. */
  strike(): void {
    const { fs, random } = this.#world;
    const kind = random.int(8);
    if (kind < 3) {
      if (this.#hold === undefined) {
        // Slow writes first: the store then writes off the loop, where they can be held.
        this.#world.stall('write', 'commitlog', 30);
        this.#hold = fs.hold(random.int(2) === 0 ? 'sync' : 'write', 'commitlog');
        this.#trace('the disk is slow');
      } else {
        this.#hold.end();
        this.#hold = undefined;
        this.#trace('the disk is quick again');
      }
    } else if (kind < 6) {
      if (random.int(2) === 0) {
        fs.fillAfter(random.int(6) * 4096);
        this.#trace('the disk is about to be full');
      } else {
        fs.freeSpace();
        this.#trace('the disk has space');
      }
    } else if (random.int(6) === 0) {
      fs.fail({ operation: 'sync', path: 'commitlog' });
      this.syncFailed = true;
      this.#trace('the next sync of the log fails');
    }
  }

  /** A file that is derived from the log, or a table, fails once; the log does not. */
  failDerived(random: Random): void {
    const path = [/consumequeue/, /index/, /checkpoint/, /config/, /gantry/][random.int(5)]!;
    // A deletion whose save fails, and then the taking back of it, too, may be found done: once is enough.
    if (path.source === 'gantry' && this.#gantryFailed) return;
    this.#gantryFailed ||= path.source === 'gantry';
    const operation = (['sync', 'write', 'syncDirectory', 'create', 'rename'] as const)[random.int(5)]!;
    this.#faults.push(this.#world.fs.fail({ operation, path, skip: random.int(3) }));
    // What the cache holds is then not what the disk holds: only a power cut may follow.
    if (operation === 'sync') this.syncFailed = true;
    this.derivedFailed = true;
    this.#trace(`the next ${operation} of ${path.source} fails`);
  }

  /** The disk is well, and what has not struck does not. */
  end(): void {
    this.#world.fs.freeSpace();
    this.#hold?.end();
    this.#hold = undefined;
    for (const fault of this.#faults.splice(0)) fault.clear();
  }
}
