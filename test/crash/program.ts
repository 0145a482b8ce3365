// A child process of the crash suite: the broker, the sender, a load generator. Standard output is kept as text, so that a line in it
// is a condition to wait for; standard error goes to a file. No child outlives the suite, however it ends.

import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { systemClock } from '../../src/common/index.ts';

/** How a child ended. */
export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** A fault of what is tested, or of its surroundings; the run is over. */
export class CrashError extends Error {
  override name = 'CrashError';
}

/** Runs `command` and remembers what it said. */
export class Program {
  readonly name: string;
  readonly pid: number;
  readonly exited: Promise<Exit>;
  readonly #child: ChildProcess;
  readonly #logFile: string;
  #stdout = '';
  #exit: Exit | undefined;
  #wake: () => void = () => {};

  constructor(name: string, command: string, args: readonly string[], logFile: string) {
    const log = openSync(logFile, 'a');
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', log] });
    closeSync(log);
    this.name = name;
    this.#child = child;
    this.#logFile = logFile;
    this.pid = child.pid ?? -1;
    const killIt = (): void => void child.kill('SIGKILL');
    process.once('exit', killIt);
    child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text;
      this.#wake();
    });
    this.exited = new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code, signal) => {
        process.off('exit', killIt);
        this.#exit = { code, signal };
        resolve(this.#exit);
        this.#wake();
      });
    });
    this.exited.catch(() => {});
  }

  /** What it has printed so far. */
  get stdout(): string {
    return this.#stdout;
  }

  get exit(): Exit | undefined {
    return this.#exit;
  }

  /** Waits until standard output contains `text`; false if the child ended before. @throws CrashError after `limitMs` */
  async prints(text: string, limitMs: number): Promise<boolean> {
    const printed = new Promise<boolean>((resolve) => {
      this.#wake = () => {
        if (this.#stdout.includes(text)) resolve(true);
        else if (this.#exit !== undefined) resolve(false);
      };
      this.#wake();
    });
    return await this.#within(limitMs, `did not print "${text}"`, printed);
  }

  /** Waits for the end. @throws CrashError after `limitMs` */
  async ended(limitMs: number): Promise<Exit> {
    return await this.#within(limitMs, 'did not end', this.exited);
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Ends it at once and waits for that. */
  async kill(): Promise<Exit> {
    this.#child.kill('SIGKILL');
    return await this.exited;
  }

  /** The last lines of standard error. */
  tail(lines = 20): string {
    return readFileSync(this.#logFile, 'utf8').trimEnd().split('\n').slice(-lines).join('\n');
  }

  async #within<T>(limitMs: number, what: string, promise: Promise<T>): Promise<T> {
    return await new Promise((resolve, reject) => {
      const timer = systemClock.after(limitMs, () => {
        reject(new CrashError(`${this.name} ${what} within ${limitMs} ms\n${this.tail()}`));
      });
      promise.then(resolve, reject).finally(() => timer.cancel());
    });
  }
}
