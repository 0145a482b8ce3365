// The programs that talk to a broker and that we did not write: the Java client, mqadmin, the Go and the Python client, each run as a
// process of its own. Rows are their JSON lines.

import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { Child, type Row } from './child.ts';
import { JAVA_OPENS } from './java-system.ts';
import type { JavaTools, PythonTools } from './toolchain.ts';
import { InteropError } from './wait.ts';

/** Options of a sub-command: `--name value`. */
export type Options = Record<string, string | number | boolean>;

/** A rebalance each second, so that a topic made a moment ago is not found 20 s late. */
const QUICK_JVM = [
  '-XX:+UseSerialGC',
  '-XX:TieredStopAtLevel=1',
  '-Xms32m',
  '-Xmx256m',
  '-Drocketmq.client.rebalance.waitInterval=1000',
];

/** RocketMQ's Java client and admin tools. */
export class JavaClient {
  readonly #tools: JavaTools;
  readonly #dir: string;

  constructor(tools: JavaTools, dir: string) {
    this.#tools = tools;
    this.#dir = dir;
  }

  /** Runs a sub-command of the suite's program to its end. */
  async run(command: string, options: Options, jvm: readonly string[] = []): Promise<Row[]> {
    return await this.start(command, options, jvm).finish();
  }

  /** Starts a sub-command; consumers run until `close`. */
  start(command: string, options: Options, jvm: readonly string[] = []): Child {
    return Child.client(
      `java ${command}`,
      this.#tools.java,
      [...this.#jvm(), ...jvm, '-cp', this.#tools.classPath, 'gantry.interop.Main', command, ...words(options)],
      { cwd: this.#dir, logFile: join(this.#dir, 'java-client.log') },
    );
  }

  /** Runs an mqadmin command; its output. @throws if it ended with an error, or printed one. */
  async mqadmin(args: readonly string[]): Promise<string> {
    const { status, output } = await this.#output([
      ...this.#jvm(),
      ...JAVA_OPENS,
      '-cp',
      this.#tools.classPath,
      'org.apache.rocketmq.tools.command.MQAdminStartup',
      ...args,
    ]);
    // mqadmin ends with 0 whatever happens and prints the stack of what it caught.
    if (status !== 0 || /Exception|^\s+at [\w.$]+\(|not exist|parse command line failed/im.test(output)) {
      throw new InteropError(`mqadmin ${args.join(' ')} (${status}):\n${output}`);
    }
    return output;
  }

  async #output(args: readonly string[]): Promise<{ status: number | null; output: string }> {
    const child = spawn(this.#tools.java, args, {
      cwd: this.#dir,
      env: { ...process.env, ROCKETMQ_HOME: this.#dir, TZ: 'UTC' },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 120_000,
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => (output += text));
    const status = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    });
    // The logging library tells of its own start.
    return { status, output: output.replaceAll(/^.*\|-(INFO|WARN) in .*\n/gm, '') };
  }

  #jvm(): string[] {
    return [
      ...QUICK_JVM,
      `-Duser.home=${this.#dir}`,
      // Some mqadmin commands leave files there.
      `-Djava.io.tmpdir=${this.#dir}`,
      `-Drocketmq.home.dir=${this.#dir}`,
      `-Drocketmq.log.root=${this.#dir}/logs`,
    ];
  }
}

/** The Go client. */
export class GoClient {
  readonly #binary: string;
  readonly #dir: string;

  constructor(binary: string, dir: string) {
    this.#binary = binary;
    this.#dir = dir;
  }

  async run(command: string, options: Options): Promise<Row[]> {
    return await this.start(command, options).finish();
  }

  start(command: string, options: Options): Child {
    return Child.client(`go ${command}`, this.#binary, [command, ...flags(options)], {
      cwd: this.#dir,
      env: { ...process.env, HOME: this.#dir },
      logFile: join(this.#dir, 'go-client.log'),
    });
  }
}

/** The Python client, and in it the C++ client. */
export class PythonClient {
  readonly #tools: PythonTools;
  readonly #dir: string;

  constructor(tools: PythonTools, dir: string) {
    this.#tools = tools;
    this.#dir = dir;
  }

  async run(command: string, options: Options): Promise<Row[]> {
    return await this.start(command, options).finish();
  }

  start(command: string, options: Options): Child {
    return Child.client(`python ${command}`, this.#tools.python, [this.#tools.program, command, ...words(options)], {
      cwd: this.#dir,
      env: { ...process.env, HOME: this.#dir, PYTHONDONTWRITEBYTECODE: '1' },
      logFile: join(this.#dir, 'python-client.log'),
    });
  }
}

function words(options: Options): string[] {
  return Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
}

/** Go takes the value of a boolean flag only behind an equals sign. */
function flags(options: Options): string[] {
  return Object.entries(options).map(([name, value]) => `--${name}=${value}`);
}
