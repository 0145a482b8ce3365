// The index file that an unclean stop leaves to be looked at is scanned by a thread, while the loop looks at the log: with many keys the one takes
// as long as the other. Nothing is changed. A thread that cannot be made, or dies, costs its help and nothing else: the opening then scans.

import { SHARE_ENV, Worker } from 'node:worker_threads';
import { errorText, type Logger } from '../../common/index.ts';
import { firstDoubtful, type IndexOptions } from './index-load.ts';
import type { UnitScan } from './index-scan.ts';

/** A file with fewer units is scanned sooner than a thread is made. */
const LEAST_UNITS = 1_000_000;

/** What the thread is told. */
export interface ScanTask {
  path: string;
  slots: number;
  units: number;
  minOffset: number;
  maxOffset: number;
}

/** What it found, for whoever would scan the same. */
export interface ScannedAhead {
  path: string;
  minOffset: number;
  scan: UnitScan;
}

/** Begins with the scan if there is much to look at and the disk is a real one. @throws GantryError IO, STORE_FILE_SIZE. */
export function scanAhead(options: IndexOptions, leastUnits: number = LEAST_UNITS): ScanAhead | undefined {
  if (options.lastExitClean) return undefined;
  const first = firstDoubtful(options);
  if (first === undefined || first.units < leastUnits || !first.isReal) return undefined;
  const { slots, units } = options.layout;
  const { path, minOffset } = first;
  return new ScanAhead({ path, slots, units, minOffset, maxOffset: first.maxOffset }, options.logger);
}

export class ScanAhead {
  readonly #worker: Worker | undefined;
  readonly #scanned: Promise<ScannedAhead | undefined>;

  constructor(task: ScanTask, logger: Logger) {
    const lost = (cause: unknown): undefined => {
      logger.warn(`a thread that scans ${task.path} is not there (${errorText(cause)}): it is scanned later`);
    };
    try {
      const url = new URL('./scan-worker.js', import.meta.url);
      const worker = new Worker(url, { name: 'gantry-index', execArgv: [], env: SHARE_ENV, workerData: task });
      this.#worker = worker;
      this.#scanned = new Promise((resolve) => {
        const { path, minOffset } = task;
        worker.once('message', (scan: UnitScan) => resolve({ path, minOffset, scan }));
        worker.once('error', (error) => resolve(lost(error)));
        worker.once('exit', () => resolve(undefined));
      });
    } catch (error) {
      this.#scanned = Promise.resolve(lost(error));
    }
  }

  /** Waits for the thread; undefined if it was lost. */
  async end(): Promise<ScannedAhead | undefined> {
    const scanned = await this.#scanned;
    await this.close();
    return scanned;
  }

  async close(): Promise<void> {
    await this.#worker?.terminate();
  }
}
