// The program as a person and a script use it: start, produce, consume, stop. All processes, on ports that the system chooses.

import assert from 'node:assert/strict';
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { after, describe, test } from 'node:test';
import { lockStore } from './store-lock.ts';

const program = new URL('../bin/gantry.js', import.meta.url).pathname;
const base = fs.mkdtempSync(`${tmpdir()}/gantry-cli-`);
after(() => fs.rmSync(base, { recursive: true, force: true }));

const runs: Run[] = [];
after(() => {
  for (const run of runs) run.child.kill('SIGKILL');
});

/** A running command with all that it has written. */
class Run {
  readonly child: ChildProcessWithoutNullStreams;
  stdout = '';
  stderr = '';
  readonly #closed: Promise<number | null>;

  constructor(args: readonly string[], environment: Record<string, string> = {}) {
    this.child = spawn(process.execPath, [program, ...args], {
      cwd: base,
      env: { PATH: process.env['PATH'], HOME: base, ...environment },
      timeout: 60_000,
    });
    this.child.stdout.setEncoding('utf8').on('data', (text) => {
      this.stdout += text;
    });
    this.child.stderr.setEncoding('utf8').on('data', (text) => {
      this.stderr += text;
    });
    this.child.stdin.on('error', () => {});
    runs.push(this);
    this.#closed = new Promise((resolve) => this.child.on('close', (code) => resolve(code)));
  }

  /** Resolves with the match once stdout or stderr holds it. Fails when the command ends before. */
  async until(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.stdout) ?? pattern.exec(this.stderr);
      if (match !== null) return match;
      const more = [once(this.child.stdout, 'data'), once(this.child.stderr, 'data')];
      const ended = await Promise.race([...more.map((wait) => wait.then(() => false)), this.#closed.then(() => true)]);
      assert.ok(
        !ended || pattern.test(this.stdout + this.stderr),
        `ended without ${pattern}: ${this.stdout}${this.stderr}`,
      );
    }
  }

  end(): Promise<number | null> {
    return this.#closed;
  }

  stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    this.child.kill(signal);
    return this.#closed;
  }
}

async function succeed(args: readonly string[], input?: string): Promise<string> {
  const run = new Run(args);
  run.child.stdin.end(input);
  assert.equal(await run.end(), 0, run.stderr);
  return run.stdout;
}

async function startServer(store: string, ...more: string[]): Promise<{ run: Run; namesrv: string }> {
  const run = new Run(['start', '--store', store, '--port', '0', '--namesrv-port', '0', ...more]);
  const [, namesrv] = await run.until(/name server +(\S+:\d+)[\s\S]*Ctrl-C stops it/);
  return { run, namesrv: namesrv! };
}

describe('start, produce, consume', { concurrency: 2 }, () => {
  test('a message goes in and comes out, and a stop leaves the store closed in order', async () => {
    const store = `${base}/one`;
    const { run, namesrv } = await startServer(store);
    assert.match(run.stdout, /^Gantry \d+\.\d+\.\d+ is ready after/);
    assert.match(run.stdout, new RegExp(`store +${store} \\(ASYNC_FLUSH\\)`));
    assert.match(run.stdout, /clients +connect to 127\.0\.0\.1:\d+, since the ports listen on this machine only/);
    assert.match(run.stdout, new RegExp(`npx gantry produce greetings "hello" -n ${namesrv}`));
    assert.ok(fs.existsSync(`${store}/abort`));
    assert.throws(() => lockStore(store), /in use by process/);

    const sent = await succeed(['produce', 'greetings', 'hello', '-n', namesrv, '--tags', 'a', '--property', 'x=y']);
    assert.match(sent, /^[0-9A-F]{32} {2}broker-a queue \d offset 0\n$/);
    const first = await succeed([
      'consume',
      'greetings',
      '-n',
      namesrv,
      '--group',
      'g',
      '--from-start',
      '--count',
      '1',
    ]);
    assert.equal(first, 'hello\n');

    // Stopped by a signal: exit code 0, everything saved, and nothing holds the store.
    assert.equal(await run.stop('SIGTERM'), 0);
    assert.ok(!fs.existsSync(`${store}/abort`));
    assert.ok(!fs.existsSync(`${store}/gantry/pid`));
    lockStore(store).release();
    assert.match(fs.readFileSync(`${store}/config/consumerOffset.json`, 'utf8'), /greetings@g/);

    // The group goes on where it stopped.
    const again = await startServer(store);
    await succeed(['produce', 'greetings', 'again', '-n', again.namesrv]);
    const next = await succeed(['consume', 'greetings', '-n', again.namesrv, '--group', 'g', '--count', '1', '--json']);
    const message = JSON.parse(next) as { body: string; brokerName: string; properties: Record<string, string> };
    assert.equal(message.body, 'again');
    assert.equal(await again.run.stop('SIGINT'), 0);
  });

  test('lines go in and the same lines come out', async () => {
    const { run, namesrv } = await startServer(`${base}/lines`);
    const lines = Array.from({ length: 500 }, (_, i) => `line ${i} \u00e9`);
    const results = await succeed(['produce', 'lines', '-n', namesrv, '--json'], `${lines.join('\n')}\n\n`);
    const parsed = results
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { status: string });
    assert.equal(parsed.length, lines.length);
    assert.ok(parsed.every(({ status }) => status === 'SEND_OK'));
    const out = await succeed(['consume', 'lines', '-n', namesrv, '--group', 'g', '--from-start', '--count', '500']);
    assert.deepEqual(out.trimEnd().split('\n').sort(), [...lines].sort());
    await run.stop();
  });

  test('a group that pops gets each line once, and the next run none of them', async () => {
    const { run, namesrv } = await startServer(`${base}/pops`);
    await succeed(['produce', 'jobs', '-n', namesrv, '--quiet'], 'a\nb\nc\n');
    const pop = ['consume', 'jobs', '-n', namesrv, '--group', 'w', '--from-start', '--pop'];
    const out = await succeed([...pop, '--count', '3']);
    assert.deepEqual(out.trimEnd().split('\n').sort(), ['a', 'b', 'c']);
    const waiting = new Run(pop);
    await succeed(['produce', 'jobs', 'd', '-n', namesrv]);
    await waiting.until(/d/);
    assert.equal(await waiting.stop('SIGINT'), 0, waiting.stderr);
    assert.equal(waiting.stdout, 'd\n');
    await run.stop();
  });

  test('tags choose, and a consumer that waits sees what is sent later', async () => {
    const { run, namesrv } = await startServer(`${base}/tags`);
    await succeed(['produce', 'tagged', 'no', '-n', namesrv, '--tags', 'other', '--quiet']);
    const consumer = new Run([
      'consume',
      'tagged',
      '-n',
      namesrv,
      '--group',
      'g',
      '--from-start',
      '--tags',
      'new || paid',
    ]);
    await succeed(['produce', 'tagged', 'yes', '-n', namesrv, '--tags', 'paid', '--quiet']);
    await consumer.until(/^yes$/m);
    assert.equal(await consumer.stop('SIGINT'), 0);
    assert.equal(consumer.stdout, 'yes\n');
    await run.stop();
  });

  test('logs are lines of JSON with --log-json, and nothing goes to stdout', async () => {
    const run = new Run(['start', '--store', `${base}/json`, '--port', '0', '--namesrv-port', '0', '--log-json']);
    await run.until(/"msg":"ready"/);
    assert.equal(await run.stop(), 0);
    assert.equal(run.stdout, '');
    const lines = run.stderr.trim().split('\n');
    const parsed = lines.map(
      (line) => JSON.parse(line) as { msg: string; namesrv?: string; broker?: { store: string } },
    );
    const ready = parsed.find(({ msg }) => msg === 'ready');
    assert.match(ready?.namesrv ?? '', /^127\.0\.0\.1:\d+$/);
    assert.equal(ready?.broker?.store, `${base}/json`);
    assert.equal(parsed.at(-1)?.msg, 'stopped');
  });

  test('name server and broker run alone, and the broker says what it tells clients', async () => {
    const namesrv = new Run(['namesrv', '--host', '127.0.0.1', '--port', '0']);
    const [, address] = await namesrv.until(/name server +(\S+)[\s\S]*Try: {2}npx gantry broker -n \S+\n/);
    const broker = new Run(
      ['broker', '-n', address!, '--host', '127.0.0.1', '--port', '0', '--store', `${base}/alone`],
      { GANTRY_ADVERTISE: 'localhost' },
    );
    await broker.until(/connect to 127\.0\.0\.1:\d+, as the environment variable GANTRY_ADVERTISE says/);
    await broker.until(new RegExp(`registers +with ${address}`));
    const sent = await succeed(['produce', 'topic', 'hello', '-n', address!, '--json']);
    assert.equal((JSON.parse(sent) as { status: string }).status, 'SEND_OK');
    assert.equal(await broker.stop(), 0);
    assert.equal(await namesrv.stop(), 0);
  });
});

describe('settings on the command line', () => {
  test('-p and -m print what is in force and start nothing', async () => {
    const conf = `${base}/print.conf`;
    fs.writeFileSync(conf, 'flushDiskType=SYNC_FLUSH\nbrokerName=b1\n');
    const all = (await succeed(['broker', '-c', conf, '-n', '10.0.0.1:9876', '-p'])).split('\n');
    for (const line of [
      'flushDiskType=SYNC_FLUSH',
      'brokerName=b1',
      'namesrvAddr=10.0.0.1:9876',
      'fileReservedTime=72',
    ]) {
      assert.ok(all.includes(line), line);
    }
    const important = (await succeed(['start', '-c', conf, '-m'])).split('\n');
    assert.ok(important.includes('flushDiskType=SYNC_FLUSH') && important.length < all.length / 3);
    assert.ok((await succeed(['namesrv', '-p'])).includes('listenPort=9876\n'));
    assert.deepEqual(
      fs.readdirSync(base).filter((name) => name === 'gantry-data' || name === 'store'),
      [],
    );
  });

  test('config explain says value, source, default and whether it can be changed', async () => {
    const conf = `${base}/explain.conf`;
    fs.writeFileSync(conf, '# ours\nsyncFlushTimeout=4000\n');
    const facts = JSON.parse(await succeed(['config', 'explain', 'syncFlushTimeout', '-c', conf, '--json'])) as object;
    assert.deepEqual(
      { ...facts, meaning: '' },
      {
        key: 'syncFlushTimeout',
        value: 4000,
        source: `${conf} line 2`,
        default: 2500,
        rocketmqDefault: 5000,
        allowed: 'a whole number from 1 to 2147483647 (ms)',
        honoured: 'yes',
        changeable: 'at a start',
        meaning: '',
      },
    );
    const run = new Run(['config', 'explain', 'syncFlushTimeuot']);
    assert.equal(await run.end(), 1);
    assert.equal(run.stderr, 'gantry: syncFlushTimeuot is not a setting; did you mean syncFlushTimeout?\n');
  });

  test('B70 warnings about a file come with the start', async () => {
    const conf = `${base}/warn.conf`;
    fs.writeFileSync(
      conf,
      `brokerIp1=10.0.0.5\nhaSendHeartbeatInterval = 6000 \nstorePathRootDir=${base}/warned\nbindAddress=127.0.0.1\n`,
    );
    const run = new Run(['start', '-c', conf, '--port', '0', '--namesrv-port', '0']);
    await run.until(/unknown settings, ignored: brokerIp1 \(line 1; did you mean brokerIP1\?\)/);
    await run.until(/not honoured yet: haSendHeartbeatInterval=6000/);
    await run.until(/Ctrl-C stops it/);
    assert.equal(await run.stop(), 0);
  });
});

test('help has examples and the exit codes, and is answered on stdout with code 0', async () => {
  const help = await succeed(['--help']);
  assert.match(help, /Exit codes:/);
  for (const name of ['start', 'namesrv', 'broker', 'produce', 'consume', 'replay']) {
    assert.match(help, new RegExp(`^ {2}${name}`, 'm'));
    assert.match(await succeed([name, '--help']), /Examples:\n {2}gantry /);
  }
  assert.match(await succeed(['--version']), /^\d+\.\d+\.\d+\n$/);
});

test('a name server that is not there is one line with what to do', async () => {
  const run = new Run(['produce', 'topic', 'hello', '-n', '127.0.0.1:1']);
  assert.equal(await run.end(), 1);
  assert.match(run.stderr, /^gantry: [^\n]*127\.0\.0\.1:1[^\n]*gantry start[^\n]*\n$/);
});

test('a reader that goes away ends a consumer quietly', async () => {
  const { run, namesrv } = await startServer(`${base}/pipe`);
  await succeed(['produce', 'pipe', '-n', namesrv, '--quiet'], 'a\n'.repeat(2000));
  const consumer = new Run(['consume', 'pipe', '-n', namesrv, '--group', 'g', '--from-start']);
  await consumer.until(/a/);
  consumer.child.stdout.destroy();
  assert.equal(await consumer.end(), 0, consumer.stderr);
  assert.equal(consumer.stderr, '');
  await run.stop();
});
