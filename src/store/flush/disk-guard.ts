// Whether the disk has room, and until when sends are refused for it. A full disk is never final: it is asked again by itself, and
// what was refused meanwhile was never stored. Probing is apart from deletion (a slow deletion must not blind the broker).

import { type Clock, type Logger, SeldomWarning } from '../../common/index.ts';
import { type FileSystem, writeWhole } from '../../io/index.ts';

const PROBE_MS = 10_000;
const RETRY_WRITE_MS = 1000;
const PROBE_BYTES = 64 * 1024;

export interface DiskGuardOptions {
  fs: FileSystem;
  clock: Clock;
  logger: Logger;
  /** Root of the store. */
  root: string;
  /** Fraction of the partition at which sends are refused. */
  fullRatio: number;
}

export class DiskGuard {
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

  start(): void {
    this.#timer = this.#options.clock.every(PROBE_MS, () => this.#probe());
    this.#probe();
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
    this.#probe();
  }

  #probe(): void {
    const { fs, root, fullRatio, logger } = this.#options;
    const used = fs.usedFraction(root);
    if (used < 0) return;
    const percent = (fraction: number): string => `${(fraction * 100).toFixed(1)} %`;
    if (used > fullRatio) {
      this.#full = `the disk is full: ${percent(used)} of the partition is used, the limit gantryDiskFullRatio is ${percent(fullRatio)}`;
      this.#seldom.warn('full', `${this.#full}; sends are refused until there is space`);
    } else if (this.#full !== undefined) {
      this.#full = undefined;
      logger.info(`the disk has space again (${percent(used)} used); sends are accepted`);
    }
  }
}
