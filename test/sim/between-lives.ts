// What happens to a store's files while no process runs: derived files are damaged or deleted, bits of units and records flip.

import assert from 'node:assert/strict';
import { type Logger, type Random, SeededRandom } from '../../src/common/index.ts';
import type { DamagedRecordPolicy, MessageStoreConfig } from '../../src/store/index.ts';
import { damageDerived, rotQueue } from './damage.ts';
import { openStore, smallConfig } from './engine.ts';
import type { HistoryOptions, HistoryReport } from './history-options.ts';
import { checkRefusal, contents, durableMark, invert, type Rot, rot } from './rot.ts';
import type { Ending, FlushDiskType } from './settings.ts';
import type { Tables } from './tables.ts';
import type { World } from './world.ts';

export class BetweenLives {
  readonly policy: DamagedRecordPolicy;
  /** What the disk claims of derived files is as the store left it: nothing was damaged since the last clean stop. */
  claimsHold = true;
  /** Index files were damaged: key look-ups may miss messages, until the operator removes the folder. */
  indexIsBlind = false;
  /** A bit of a queue has flipped since the last start. */
  isRotten = false;
  /** Damage that the next start meets. */
  rot: Rot | undefined;
  readonly #world: World;
  /** Decides on damage of derived files; undefined: there is none. */
  readonly #extra: Random | undefined;
  /** Decides on damage of the log. */
  readonly #rots: Random | undefined;
  /** Decides on bits of queues that flip after a clean stop. */
  readonly #rotten: Random;
  readonly #report: HistoryReport;
  readonly #trace: (line: string) => void;

  constructor(
    world: World,
    seed: number,
    { damage }: HistoryOptions,
    extra: Random | undefined,
    report: HistoryReport,
    trace: (line: string) => void,
  ) {
    this.#world = world;
    this.#rots = damage === undefined ? undefined : new SeededRandom(seed ^ 0x5eed);
    this.policy = damage ?? 'refuse';
    this.#extra = extra;
    this.#rotten = new SeededRandom(seed ^ 0x707e);
    this.#report = report;
    this.#trace = trace;
  }

  /** Whether records of the log are damaged in this history. */
  get damagesLog(): boolean {
    return this.#rots !== undefined;
  }

  /** Something happens to the files that are derived from the log, or to a table. */
  damage(ending: Ending, config: MessageStoreConfig, tables: Tables | undefined): void {
    const extra = this.#extra;
    // Of what rots after any other end, or where there are too many queues to look at, a start looks at nothing but the end.
    const isSummed = ending === 'clean' && this.claimsHold && config.gantryQueuesLookedAt > 0;
    if (extra !== undefined && isSummed && this.#rotten.int(6) === 0) {
      const what = rotQueue(this.#world.fs, this.#rotten);
      if (what === undefined) return;
      this.#trace(`damage: ${what}`);
      this.claimsHold = false;
      this.isRotten = true;
      this.#report.damages++;
      return;
    }
    if (extra === undefined || extra.int(4) > 0) return;
    if (extra.int(6) === 0) {
      const table = tables?.damage();
      if (table !== undefined) this.#trace(`damage: ${table}`);
      return;
    }
    const damage = damageDerived(this.#world.fs, extra);
    if (damage === undefined) return;
    this.#trace(`damage: ${damage.what}`);
    this.claimsHold = false;
    this.indexIsBlind ||= damage.blindsIndex;
    this.#report.damages++;
  }

  /** Some bits flip. With the policy `refuse` the next start is refused, and everything is as before once they are back. */
  async decay(ending: Ending, flushDiskType: FlushDiskType, logger: Logger): Promise<void> {
    const { fs } = this.#world;
    if (this.#rots === undefined || this.rot !== undefined || this.#rots.int(2) === 0) return;
    const made = rot(this.#rots, fs, this.policy, ending !== 'kill');
    if (made === undefined) return;
    this.#report.rotten++;
    const flips = made.flips.map(({ offset, mask }) => `${offset} ^ ${mask}`).join();
    this.#trace(`records at ${made.records.join()} are damaged (${flips}), durable to ${durableMark(fs)}`);
    if (made.policy !== 'refuse') {
      this.rot = made;
      return;
    }
    const before = contents(fs);
    this.#world.newLife();
    const config = smallConfig({ flushDiskType, messageIndexEnable: true });
    await assert.rejects(openStore(this.#world, config, { logger }), (error) => {
      checkRefusal(error, made);
      return true;
    });
    assert.deepEqual(contents(fs), before, 'a start that is refused changes nothing');
    invert(fs, made);
  }
}
