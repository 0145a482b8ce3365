// Child processes of the suite: servers, whose output goes to a log file, and client programs, which answer in JSON lines.
// Every child is known here, so that none survives the suite, however it ends.

import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { InteropError, until, within } from './wait.ts';

/** A JSON line of a client program. */
export type Row = Record<string, unknown>;

/** How a child ended. */
export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

const living = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of living) child.kill('SIGKILL');
});

/** What a child is started with besides its command line. */
export interface ChildOptions {
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  /** Gets standard error, and standard output too unless that is JSON lines. */
  logFile: string;
}

/** A running child process. */
export class Child {
  readonly pid: number;
  readonly exited: Promise<Exit>;
  /** JSON lines that came so far (client programs). */
  readonly rows: Row[] = [];
  readonly #process: ChildProcess;
  readonly #name: string;
  readonly #logFile: string;
  #exit: Exit | undefined;

  private constructor(child: ChildProcess, name: string, logFile: string, output: Promise<unknown>) {
    this.#process = child;
    this.#name = name;
    this.#logFile = logFile;
    this.pid = child.pid ?? -1;
    living.add(child);
    this.exited = new Promise((resolve, reject) => {
      child.once('error', (error) => {
        living.delete(child);
        reject(error);
      });
      child.once('exit', (code, signal) => {
        living.delete(child);
        // The last lines may come after the exit.
        void output.then(() => {
          this.#exit = { code, signal };
          resolve(this.#exit);
        });
      });
    });
    this.exited.catch(() => {});
  }

  /** Starts a server: both outputs go to the log file. */
  static server(name: string, command: string, args: readonly string[], options: ChildOptions): Child {
    const log = openLog(options.logFile);
    const child = spawn(command, args, { cwd: options.cwd, env: options.env, stdio: ['ignore', log, log] });
    closeSync(log);
    return new Child(child, name, options.logFile, Promise.resolve());
  }

  /** Starts a client program: JSON lines come on standard output. */
  static client(name: string, command: string, args: readonly string[], options: ChildOptions): Child {
    const log = openLog(options.logFile);
    const child = spawn(command, args, { cwd: options.cwd, env: options.env, stdio: ['pipe', 'pipe', log] });
    closeSync(log);
    child.stdin?.on('error', () => {});
    const lines = createInterface({ input: child.stdout! });
    const ended = new Promise((resolve) => lines.once('close', resolve));
    const result = new Child(child, name, options.logFile, ended);
    lines.on('line', (line) => {
      if (line.startsWith('{')) result.rows.push(JSON.parse(line) as Row);
    });
    return result;
  }

  get hasExited(): boolean {
    return this.#exit !== undefined;
  }

  /** Waits for an exit with code 0 and returns the rows. */
  async finish(limitMs = 180_000): Promise<Row[]> {
    const exit = await within(this.#name, this.exited, limitMs).catch(async (error: unknown) => {
      await this.kill();
      throw new InteropError(`${String(error)}\n${this.tail()}`);
    });
    if (exit.code !== 0) {
      const error = this.rows.find((row) => row['error'] !== undefined)?.['error'];
      throw new InteropError(`${this.#name} ended with ${exit.code ?? exit.signal}: ${error ?? ''}\n${this.tail()}`);
    }
    return this.rows;
  }

  /** Writes a line to standard input. */
  write(line: string): void {
    this.#process.stdin?.write(`${line}\n`);
  }

  /** Closes standard input, which tells a client program to stop, and waits for its end. */
  async close(): Promise<Row[]> {
    this.#process.stdin?.end();
    return await this.finish();
  }

  /** Waits until the rows satisfy a condition, or fails as soon as the child has ended without. */
  async until<T>(what: string, condition: (rows: Row[]) => T | undefined | false, limitMs?: number): Promise<T> {
    return await until(
      `${this.#name}: ${what}`,
      () => {
        const value = condition(this.rows);
        if (value !== undefined && value !== false) return value;
        if (this.#exit !== undefined) throw new InteropError(`${this.#name} ended before: ${what}\n${this.tail()}`);
        return undefined;
      },
      limitMs,
    );
  }

  /** Sends a signal and waits for the end; SIGKILL and an error if that takes longer than `limitMs`. */
  async signal(signal: NodeJS.Signals, limitMs = 90_000): Promise<Exit> {
    if (this.#exit !== undefined) return this.#exit;
    this.#process.kill(signal);
    try {
      return await within(`${this.#name} after ${signal}`, this.exited, limitMs);
    } catch (error) {
      this.#process.kill('SIGKILL');
      throw error;
    }
  }

  /** Ends the child at once. */
  async kill(): Promise<void> {
    await this.signal('SIGKILL');
  }

  /** The last lines of the log file, without what a logging library says of its own start. */
  tail(lines = 25): string {
    const all = readFileSync(this.#logFile, 'utf8').trimEnd().split('\n');
    return all
      .filter((line) => !line.includes('|-INFO'))
      .slice(-lines)
      .join('\n');
  }
}

function openLog(file: string): number {
  mkdirSync(dirname(file), { recursive: true });
  return openSync(file, 'a');
}
