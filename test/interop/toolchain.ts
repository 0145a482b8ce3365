// What the suite needs and the repository does not hold: RocketMQ's artifacts from Maven Central, the Go client from the
// module proxy, the Python client from PyPI. They come through mvn, go and pip into a cache folder, once for each version of
// pom.xml, go.mod, requirements.txt and sources. Without java, mvn, go or python3 the scenarios that need them are skipped;
// with CI=true the tools are installed, or the run fails.

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { InteropError } from './wait.ts';

/** A tool set that a scenario can ask for. */
export type Need = 'java' | 'go' | 'python';

/** Java: the command, and a class path with RocketMQ and the suite's own program. */
export interface JavaTools {
  java: string;
  classPath: string;
}

/** Python: the interpreter of the client's environment, and the suite's own program. */
export interface PythonTools {
  python: string;
  program: string;
}

/** What could be prepared; `missing` says why the rest could not. */
export interface Tools {
  java: JavaTools | undefined;
  go: string | undefined;
  python: PythonTools | undefined;
  missing: Partial<Record<Need, string>>;
}

const MAVEN_GOAL = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies';
const PACKAGES: Record<string, string> = {
  java: 'default-jdk-headless',
  javac: 'default-jdk-headless',
  mvn: 'maven',
  go: 'golang',
  python3: 'python3-venv',
};

/** Where the Python client has a library of its own. */
const PYTHON_HERE = process.platform === 'linux' && process.arch === 'x64';

/** The repository's root. */
export const ROOT: string = findRoot(import.meta.dirname);

/** Where downloads and builds are kept: GANTRY_INTEROP_CACHE, or a folder in the user's cache. */
export function cacheDir(): string {
  return process.env['GANTRY_INTEROP_CACHE'] ?? join(homedir(), '.cache', 'gantry-interop');
}

/** Prepares what is asked for. @throws with CI=true if that is not possible. */
export function prepareTools(needs: ReadonlySet<Need>, log: (line: string) => void): Tools {
  const tools: Tools = { java: undefined, go: undefined, python: undefined, missing: {} };
  if (needs.has('java')) {
    const lacking = lackingCommands(['java', 'javac', 'mvn'], log);
    if (lacking === undefined) tools.java = prepareJava(log);
    else tools.missing.java = lacking;
  }
  if (needs.has('go')) {
    const lacking = lackingCommands(['go'], log);
    if (lacking === undefined) tools.go = prepareGo(log);
    else tools.missing.go = lacking;
  }
  if (needs.has('python')) {
    const lacking = PYTHON_HERE ? lackingCommands(['python3'], log) : 'the Python client runs on Linux on x86-64 only';
    if (lacking === undefined) tools.python = preparePython(log);
    else tools.missing.python = lacking;
  }
  return tools;
}

/** RocketMQ's jars and the compiled program of `java/`, downloaded and compiled unless the cache has them. */
export function prepareJava(log: (line: string) => void): JavaTools {
  const source = join(ROOT, 'test/interop/java');
  const pom = join(source, 'pom.xml');
  const lib = join(cacheDir(), `java-lib-${hashOf([pom])}`);
  once(lib, (part) => {
    log(`downloading RocketMQ's artifacts by Maven into ${lib}`);
    run('mvn', ['-q', '-B', '-f', pom, MAVEN_GOAL, `-DoutputDirectory=${part}`, '-DincludeScope=runtime'], source);
  });
  const sources = readdirSync(join(source, 'src/gantry/interop'))
    .sort()
    .map((name) => join(source, 'src/gantry/interop', name));
  const classes = join(cacheDir(), `java-classes-${hashOf([pom, ...sources])}`);
  once(classes, (part) => {
    log('compiling the Java program');
    run('javac', ['-nowarn', '-encoding', 'UTF-8', '-cp', `${lib}/*`, '-d', part, ...sources], source);
  });
  return { java: 'java', classPath: `${classes}:${lib}/*` };
}

function prepareGo(log: (line: string) => void): string {
  const source = join(ROOT, 'test/interop/go');
  const files = ['go.mod', 'go.sum', 'main.go'].map((name) => join(source, name));
  const folder = join(cacheDir(), `go-${hashOf(files)}`);
  once(folder, (part) => {
    log('building the Go program');
    run('go', ['build', '-o', join(part, 'interop'), '.'], source);
  });
  return join(folder, 'interop');
}

/** An environment with the client, whose wheel holds RocketMQ's C++ library. */
function preparePython(log: (line: string) => void): PythonTools {
  const source = join(ROOT, 'test/interop/python');
  const requirements = join(source, 'requirements.txt');
  const folder = join(cacheDir(), `python-${hashOf([requirements])}`);
  once(folder, (part) => {
    log('installing the Python client by pip');
    run('python3', ['-m', 'venv', part], source);
    const words = ['-m', 'pip', 'install', '-q', '--no-deps', '--only-binary', ':all:', '--require-hashes', '-r'];
    run(join(part, 'bin/python'), [...words, requirements], source);
  });
  return { python: join(folder, 'bin/python'), program: join(source, 'main.py') };
}

/** True if a command can be started; of Python, if it can make environments. */
export function hasCommand(name: string): boolean {
  const words = { go: ['version'], python3: ['-c', 'import venv, ensurepip'] }[name] ?? ['-version'];
  const result = spawnSync(name, words, { stdio: 'ignore' });
  return result.error === undefined && (name !== 'python3' || result.status === 0);
}

/** Undefined if all commands are there, at the latest after an installation; else one line that says what is missing. */
function lackingCommands(names: readonly string[], log: (line: string) => void): string | undefined {
  let lacking = names.filter((name) => !hasCommand(name));
  if (lacking.length === 0) return undefined;
  if (process.env['CI'] === 'true') {
    const packages = [...new Set(lacking.map((name) => PACKAGES[name]!))];
    log(`installing ${packages.join(' ')}`);
    const sudo = process.getuid?.() === 0 ? [] : ['sudo', '-n'];
    for (const words of [
      ['apt-get', 'update'],
      ['apt-get', 'install', '-y', '--no-install-recommends', ...packages],
    ]) {
      const [command, ...args] = [...sudo, ...words];
      spawnSync(command!, args, {
        stdio: ['ignore', 'ignore', 'inherit'],
        env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
      });
    }
    lacking = names.filter((name) => !hasCommand(name));
    if (lacking.length === 0) return undefined;
    throw new InteropError(`${lacking.join(', ')} could not be installed`);
  }
  return `${lacking.join(', ')} not found (packages ${[...new Set(lacking.map((name) => PACKAGES[name]))].join(', ')})`;
}

/** Fills a folder by way of a partial one, so that an interrupted run leaves nothing that looks complete. */
function once(folder: string, fill: (part: string) => void): void {
  if (existsSync(folder)) return;
  const part = `${folder}.part-${process.pid}`;
  mkdirSync(part, { recursive: true });
  try {
    fill(part);
    if (!existsSync(folder)) renameSync(part, folder);
  } finally {
    rmSync(part, { recursive: true, force: true });
  }
}

function run(command: string, args: readonly string[], cwd: string): void {
  const result = spawnSync(command, args, { cwd, encoding: 'utf8', maxBuffer: 64 << 20 });
  if (result.status !== 0) {
    throw new InteropError(
      `${command} failed: ${result.error?.message ?? ''}\n${result.stdout ?? ''}${result.stderr ?? ''}`,
    );
  }
}

function hashOf(files: readonly string[]): string {
  const hash = createHash('sha256');
  for (const file of files) hash.update(readFileSync(file));
  return hash.digest('hex').slice(0, 16);
}

function findRoot(from: string): string {
  for (let dir = from; dir !== dirname(dir); dir = dirname(dir)) {
    if (existsSync(join(dir, 'package.json'))) return dir;
  }
  throw new InteropError('package.json not found');
}
