// The threads that parse shares of the log when much is to be looked at (RocketMQ: enableBuildConsumeQueueConcurrently). They are made with the
// first share and end with the start. A thread that cannot be made, or dies, costs its help and nothing else: the loop then parses.

import { SHARE_ENV, Worker } from 'node:worker_threads';
import { errorText, type Logger } from '../../common/index.ts';
import type { Verify } from '../../message/index.ts';
import { SHARE_BYTES, type Share, type ShareMemory } from './share.ts';

export interface ShareTask {
  id: number;
  memory: ShareMemory;
  base: number;
  length: number;
  verify: Verify;
}

export interface ShareAnswer {
  id: number;
  count: number;
}

/** Beside the loop there is seldom more than one free core; a second thread fills the gaps. */
const THREADS = 2;

interface Waiting {
  share: Share;
  done: () => void;
  thread: number;
}

export class ShareParser {
  readonly shareBytes: number;
  /** A scan of fewer bytes goes without threads. */
  readonly leastBytes: number;
  /** Shares that threads have parsed. */
  parsed = 0;
  readonly #logger: Logger;
  readonly #workers: Array<Worker | undefined> = [];
  readonly #waiting = new Map<number, Waiting>();
  #next = 0;

  constructor(logger: Logger, shareBytes: number = SHARE_BYTES, leastBytes: number = 4 * shareBytes) {
    this.#logger = logger;
    this.shareBytes = shareBytes;
    this.leastBytes = leastBytes;
  }

  /** Resolves when the share's records are known. Never fails. */
  parse(share: Share): Promise<void> {
    const id = this.#next++;
    const thread = id % THREADS;
    return new Promise((resolve) => {
      try {
        if (!(thread in this.#workers)) this.#workers[thread] = this.#start(thread);
        const worker = this.#workers[thread];
        if (worker !== undefined) {
          this.#waiting.set(id, { share, done: resolve, thread });
          const { memory, base, length, verify } = share;
          worker.postMessage({ id, memory, base, length, verify } satisfies ShareTask);
          return;
        }
      } catch (error) {
        this.#waiting.delete(id);
        this.#lost(thread, error);
      }
      share.parse();
      resolve();
    });
  }

  async close(): Promise<void> {
    const workers = this.#workers.splice(0);
    await Promise.all(workers.map((worker) => worker?.removeAllListeners('exit').terminate()));
  }

  #start(thread: number): Worker {
    const worker = new Worker(new URL('./share-worker.js', import.meta.url), {
      name: 'gantry-parse',
      execArgv: [],
      env: SHARE_ENV,
    });
    worker.on('message', ({ id, count }: ShareAnswer) => {
      const waiting = this.#waiting.get(id);
      if (waiting === undefined) return;
      this.#waiting.delete(id);
      waiting.share.count = count;
      this.parsed++;
      waiting.done();
    });
    let cause: unknown = 'it ended';
    worker.on('error', (error) => {
      cause = error;
    });
    worker.on('exit', () => this.#lost(thread, cause));
    return worker;
  }

  #lost(thread: number, cause: unknown): void {
    this.#workers[thread] = undefined;
    this.#logger.warn(`a thread that parses the log is not there (${errorText(cause)}): the loop does its share`);
    for (const [id, waiting] of this.#waiting) {
      if (waiting.thread !== thread) continue;
      this.#waiting.delete(id);
      waiting.share.parse();
      waiting.done();
    }
  }
}
