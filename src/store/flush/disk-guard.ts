// How full the disk is: until when sends are refused for it, and from when on old files may go. A full disk is never final: it is asked
// again by itself, and what was refused meanwhile was never stored. Probing has a timer of its own, apart from deletion, so that a slow
// deletion does not blind the broker. RocketMQ: CleanCommitLogService#isSpaceToDelete, which deletes and probes in turn.
//
//        diskMaxUsedSpaceRatio     diskSpaceCleanForciblyRatio    diskSpaceWarningLevelRatio
//   0 % ----------- 75 % --------------------- 85 % ----------------------- 90 % ---------- 100 %
//     ROOM          EXPIRED: expired files go  FORCED: the oldest go        FULL: and sends are refused
//                   at any hour
//
// With replicasPerDiskPartition above 1 the first two limits are of an equal share of the partition and of what this store has on it:
// the neighbours' files must not make it remove its own.

import { type Clock, type Logger, SeldomWarning } from '../../common/index.ts';
import { type FileSystem, writeWhole } from '../../io/index.ts';
import type { MessageStoreConfig } from '../store-config.ts';

/** Below the 10 s in which sends must be taken again once there is space. */
const PROBE_MS = 9000;
const RETRY_WRITE_MS = 1000;
const PROBE_BYTES = 64 * 1024;

/** What the used part of the disk allows; each one includes those before it. */
export const DiskLevel = {
  ROOM: 0,
  /** Expired files may go at any hour. */
  EXPIRED: 1,
  /** The oldest files may go before their time. */
  FORCED: 2,
  /** Nothing may be written. */
  FULL: 3,
} as const;
export type DiskLevel = (typeof DiskLevel)[keyof typeof DiskLevel];

export interface DiskGuardOptions {
  fs: FileSystem;
  clock: Clock;
  logger: Logger;
  /** Root of the store. */
  root: string;
  /** Folders whose partitions count: the fullest decides. */
  folders: readonly string[];
  /** Read at each probe: the limits may change while the store runs. */
  config: Pick<
    MessageStoreConfig,
    | 'gantryDiskFullRatio'
    | 'diskMaxUsedSpaceRatio'
    | 'diskSpaceCleanForciblyRatio'
    | 'diskSpaceWarningLevelRatio'
    | 'replicasPerDiskPartition'
    | 'logicalDiskSpaceCleanForciblyThreshold'
  >;
  /** Bytes of this store's files. */
  storedBytes: () => number;
}

export class DiskGuard {
  /** Used fraction at the last probe; -1 if the system does not tell. */
  used = 0;
  /** A write failed; sends are refused until one succeeds. */
  #writeFault: string | undefined;
  #full: string | undefined;
  #closed = false;
  #timer: { cancel(): void } | undefined;
  readonly #options: DiskGuardOptions;
  readonly #seldom: SeldomWarning;

  constructor(options: DiskGuardOptions) {
    this.#options = options;
    this.#seldom = new SeldomWarning(options.clock, options.logger);
  }

  /** Why nothing may be written, in words, with what was measured; undefined if there is no reason. */
  get reason(): string | undefined {
    return this.#writeFault ?? this.#full;
  }

  /** What kind of reason that is. */
  get fault(): 'writeFailed' | 'diskFull' | undefined {
    if (this.#writeFault !== undefined) return 'writeFailed';
    return this.#full === undefined ? undefined : 'diskFull';
  }

  start(): void {
    this.#timer = this.#options.clock.every(PROBE_MS, () => this.probe());
    this.probe();
  }

  stop(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  /** A write of the log failed; from now on the disk is tried each second. */
  writeFailed(reason: string): void {
    const isTried = this.#writeFault !== undefined;
    this.#writeFault = reason;
    this.#seldom.warn('write', `${reason}; sends are refused until it can be again`);
    if (!isTried) this.#options.clock.after(RETRY_WRITE_MS, () => this.#tryWrite());
  }

  #tryWrite(): void {
    if (this.#closed) return;
    const { fs, root, clock, logger } = this.#options;
    const path = `${root}/gantry/probe`;
    try {
      writeWhole(fs, path, new Uint8Array(PROBE_BYTES), true);
      fs.remove(path);
    } catch {
      clock.after(RETRY_WRITE_MS, () => this.#tryWrite());
      return;
    }
    this.#writeFault = undefined;
    logger.info('the disk takes writes again; sends are accepted');
    this.probe();
  }

  /** Looks at the disk now; what it allows. */
  probe(): DiskLevel {
    const { fs, folders, logger } = this.#options;
    this.used = Math.max(...folders.map((folder) => fs.usedFraction(folder)));
    const { setting, full, forced, expired } = this.#limits();
    if (this.used > full) {
      this.#full = `the disk is full: ${percent(this.used)} of the partition is used, the limit ${setting} is ${percent(full)}`;
      this.#seldom.warn('full', `${this.#full}; sends are refused until there is space`);
      return DiskLevel.FULL;
    }
    // A disk that does not tell any more keeps what it said last.
    if (this.#full !== undefined && this.used >= 0) {
      this.#full = undefined;
      logger.info(`the disk has space again (${percent(this.used)} used); sends are accepted`);
    }
    if (this.used > forced) return DiskLevel.FORCED;
    if (this.#options.config.replicasPerDiskPartition > 1) return this.#levelOfShare(expired);
    return this.used < 0 || this.used > expired || this.#writeFault !== undefined ? DiskLevel.EXPIRED : DiskLevel.ROOM;
  }

  /** RocketMQ: isSpaceToDelete, for several brokers of one partition. A partition that does not tell its length has room. */
  #levelOfShare(expired: number): DiskLevel {
    const { config, folders, fs, storedBytes } = this.#options;
    const share = fs.partitionBytes(folders[0]!) / config.replicasPerDiskPartition;
    const part = share > 0 ? storedBytes() / share : 0;
    if (part > config.logicalDiskSpaceCleanForciblyThreshold) return DiskLevel.FORCED;
    return part > expired || this.#writeFault !== undefined ? DiskLevel.EXPIRED : DiskLevel.ROOM;
  }

  /** RocketMQ: the bounds beyond which the settings count no more. */
  #limits(): { setting: string; full: number; forced: number; expired: number } {
    const { config } = this.#options;
    const own = config.gantryDiskFullRatio;
    return {
      setting: own === null ? 'diskSpaceWarningLevelRatio' : 'gantryDiskFullRatio',
      full: own ?? between(0.35, config.diskSpaceWarningLevelRatio / 100, 0.9),
      forced: between(0.3, config.diskSpaceCleanForciblyRatio / 100, 0.85),
      expired: between(0.1, config.diskMaxUsedSpaceRatio / 100, 0.95),
    };
  }
}

function between(least: number, value: number, most: number): number {
  return Math.min(most, Math.max(least, value));
}

function percent(fraction: number): string {
  return `${(fraction * 100).toFixed(1)} %`;
}
