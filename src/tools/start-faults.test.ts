// Starts that must fail (the program itself, as a process): exit code 1 (2 for usage), one line on stderr that names the culprit,
// nothing on stdout, and a store that is as it was.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { after, before, describe, test } from 'node:test';
import { lockStore } from './store-lock.ts';

const program = new URL('../bin/gantry.js', import.meta.url).pathname;
const root = import.meta.dirname.replace(/\/(dist|\.build\/[^/]+)\/src\/tools$/, '');
const golden = `${root}/test/fixtures/stores/550-plain-clean.tar.gz`;

const base = fs.mkdtempSync(`${tmpdir()}/gantry-faults-`);
after(() => fs.rmSync(base, { recursive: true, force: true }));

interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

function gantry(args: readonly string[], environment: Record<string, string> = {}): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [program, ...args], {
      cwd: base,
      env: { PATH: process.env['PATH'], HOME: base, ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
      // A start that does not fail would run for ever.
      timeout: 60_000,
    });
    const ended: Ended = { code: null, stdout: '', stderr: '' };
    child.stdout.on('data', (data) => {
      ended.stdout += data;
      // It came up although it should not have.
      child.kill();
    });
    child.stderr.on('data', (data) => {
      ended.stderr += data;
    });
    child.on('error', reject);
    child.on('close', (code) => resolve({ ...ended, code }));
  });
}

/** Hash over all names and contents below a folder, but for those that match. */
function treeHash(folder: string, except?: RegExp): string {
  const hash = createHash('sha256');
  for (const name of fs.readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()) {
    if (except?.test(name) === true) continue;
    const path = `${folder}/${name}`;
    const stat = fs.lstatSync(path);
    hash.update(`${name}\0${stat.mode}\0`);
    if (stat.isFile()) hash.update(fs.readFileSync(path));
  }
  return hash.digest('hex');
}

/** A folder for one case, with a store that Java wrote in `store` and its settings in `broker.conf`. */
interface Case {
  readonly folder: string;
  readonly store: string;
  readonly conf: string;
}

const CONF: Readonly<Record<string, string>> = {
  brokerName: 'golden-a',
  brokerClusterName: 'GoldenCluster',
  bindAddress: '127.0.0.1',
  listenPort: '0',
  mappedFileSizeCommitLog: '65536',
  mappedFileSizeConsumeQueue: '2000',
  mappedFileSizeTimerLog: '1024',
  maxHashSlotNum: '100',
  maxIndexNum: '400',
};

let count = 0;
function newCase(changes: Record<string, string> = {}): Case {
  const folder = `${base}/${count++}`;
  const store = `${folder}/store`;
  fs.mkdirSync(store, { recursive: true });
  const untar = spawnSync('tar', ['-xzf', golden, '-C', store]);
  assert.equal(untar.status, 0, String(untar.stderr));
  const conf = `${folder}/broker.conf`;
  const settings = { storePathRootDir: store, ...CONF, ...changes };
  fs.writeFileSync(
    conf,
    Object.entries(settings)
      .map(([key, value]) => `${key}=${value}\n`)
      .join(''),
  );
  return { folder, store, conf };
}

async function fails(
  where: Case,
  args: readonly string[],
  culprits: readonly RegExp[],
  { exitCode = 1, except }: { exitCode?: number; except?: RegExp } = {},
): Promise<void> {
  const before = treeHash(where.folder, except);
  const ended = await gantry(args);
  assert.equal(ended.stdout, '', 'it prints nothing on stdout');
  assert.equal(ended.code, exitCode, ended.stderr);
  assert.match(ended.stderr, /^gantry: [^\n]+\n$/, `exactly one line: ${ended.stderr}`);
  for (const culprit of culprits) assert.match(ended.stderr, culprit);
  assert.equal(treeHash(where.folder, except), before, 'the store and the configuration are as they were');
}

const escaped = (text: string): RegExp => new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));

describe('a start fails with one line', { concurrency: 3 }, () => {
  let taken: Server;
  let port = 0;
  before(async () => {
    taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    port = (taken.address() as { port: number }).port;
  });
  after(() => taken.close());

  test('the store that the other cases fail on opens when nothing is wrong', async () => {
    const where = newCase();
    const ended = await gantry(['broker', '-c', where.conf]);
    assert.match(ended.stdout, /golden-a in GoldenCluster/, ended.stderr);
    assert.equal(ended.code, 0);
  });

  test('the configuration file is missing', async () => {
    const where = newCase();
    await fails(where, ['broker', '-c', `${where.folder}/no.conf`], [/no\.conf/, /there is no such file/]);
  });

  test('the configuration file is a directory', async () => {
    const where = newCase();
    await fails(where, ['broker', '-c', where.folder], [escaped(where.folder), /is a directory/]);
  });

  test('the configuration file has a malformed escape', async () => {
    const where = newCase({ regionId: '\\u12' });
    await fails(where, ['broker', '-c', where.conf], [/broker\.conf line 11/, /hexadecimal/]);
  });

  for (const [key, value, allowed] of [
    ['flushDiskType', 'SYNCFLUSH', /ASYNC_FLUSH or SYNC_FLUSH/],
    ['mappedFileSizeCommitLog', '64K', /whole number/],
    ['autoCreateTopicEnable', 'yes', /true or false/],
    ['maxIndexNum', '200000000', /at most 2147483647/],
    ['messageDelayLevel', '1s,5s', /one blank/],
    ['namesrvAddr', '127.0.0.1', /host:port/],
  ] as const) {
    test(`${key} has the value ${value}`, async () => {
      const where = newCase({ [key]: value });
      await fails(where, ['broker', '-c', where.conf], [escaped(`${key}=${value}`), /broker\.conf line \d+/, allowed]);
    });
  }

  for (const [key, value] of [
    ['brokerRole', 'SLAVE'],
    ['enableDLegerCommitLog', 'true'],
    ['enableControllerMode', 'true'],
    ['storeType', 'defaultRocksDB'],
    ['authenticationEnabled', 'true'],
    ['tls.server.mode', 'enforcing'],
  ] as const) {
    test(`${key}=${value} is not supported and may not be ignored`, async () => {
      const where = newCase({ [key]: value });
      await fails(
        where,
        ['start', '-c', where.conf, '--namesrv-port', '0'],
        [escaped(`${key}=${value}`), /is not supported/],
      );
    });
  }

  test('an unknown setting, with --strict', async () => {
    const where = newCase({ brokerIp1: '10.0.0.5' });
    await fails(where, ['broker', '-c', where.conf, '--strict'], [/brokerIp1/, /did you mean brokerIP1/]);
  });

  test('the port of the broker is in use', async () => {
    const where = newCase();
    await fails(
      where,
      ['broker', '-c', where.conf, '--port', String(port)],
      [escaped(`port ${port} on 127.0.0.1 (listenPort, --port)`), /is in use/],
    );
  });

  test('the port of the name server is in use', async () => {
    const where = newCase();
    await fails(
      where,
      ['start', '-c', where.conf, '--namesrv-port', String(port)],
      [escaped(`port ${port}`), /--namesrv-port/],
    );
    await fails(
      where,
      ['namesrv', '--host', '127.0.0.1', '--port', String(port)],
      [escaped(`port ${port}`), /with --port/],
    );
  });

  test('the address to listen on is not of this machine', async () => {
    const where = newCase({ bindAddress: '192.0.2.77', listenPort: '19771' });
    await fails(where, ['broker', '-c', where.conf], [/192\.0\.2\.77/, /bindAddress/]);
  });

  test('the advertised host name does not resolve', async () => {
    const where = newCase({ brokerIP1: 'no-such-host.invalid' });
    await fails(
      where,
      ['broker', '-c', where.conf],
      [/no-such-host\.invalid/, /broker\.conf line 11/, /does not resolve/],
    );
  });

  test('the advertised address is one that nobody can dial', async () => {
    const where = newCase({ brokerIP1: '0.0.0.0' });
    await fails(where, ['broker', '-c', where.conf], [/brokerIP1=0\.0\.0\.0/, /cannot be dialled/]);
  });

  test('the store directory is a file, or lies below one', async () => {
    const where = newCase();
    fs.writeFileSync(`${where.folder}/file`, 'x');
    await fails(
      where,
      ['broker', '--port', '0', '--store', `${where.folder}/file`],
      [escaped(`${where.folder}/file (--store) is not a directory`)],
    );
    await fails(
      where,
      ['broker', '--port', '0', '--store', `${where.folder}/file/store`],
      [/\/file is not a directory/],
    );
  });

  test('the store directory cannot be written', {
    skip: process.getuid?.() === 0 ? 'root may write anywhere' : false,
  }, async () => {
    const where = newCase();
    fs.chmodSync(where.store, 0o555);
    await fails(where, ['broker', '-c', where.conf], [escaped(where.store), /cannot be written by/]);
    fs.chmodSync(where.store, 0o755);
  });

  test('another process has the store', async () => {
    const where = newCase();
    const lock = lockStore(where.store);
    await fails(
      where,
      ['broker', '-c', where.conf],
      [escaped(where.store), new RegExp(`in use by process ${process.pid}`)],
    );
    lock.release();
  });

  for (const [key, value] of [
    ['mappedFileSizeCommitLog', '131072'],
    ['mappedFileSizeConsumeQueue', '2400'],
    ['mappedFileSizeTimerLog', '2048'],
  ] as const) {
    test(`B20 ${key} differs from the files on disk`, async () => {
      const where = newCase({ [key]: value });
      await fails(where, ['broker', '-c', where.conf], [new RegExp(key), new RegExp(value), escaped(where.store)]);
    });
  }

  test('B05 a CommitLog file in the middle has the length 0', async () => {
    const where = newCase();
    const files = fs.readdirSync(`${where.store}/commitlog`).sort();
    assert.ok(files.length >= 3);
    fs.truncateSync(`${where.store}/commitlog/${files[1]}`, 0);
    await fails(where, ['broker', '-c', where.conf], [escaped(files[1]!), /65536/]);
  });

  for (const table of ['topics.json', 'topicQueueMapping.json']) {
    test(`B58 both copies of ${table} are damaged`, async () => {
      const where = newCase();
      fs.writeFileSync(`${where.store}/config/${table}`, '{ "dataVersion"');
      fs.writeFileSync(`${where.store}/config/${table}.bak`, Buffer.alloc(512));
      const names = [escaped(`config/${table}`), escaped(`${table}.bak`)];
      await fails(where, ['broker', '-c', where.conf], names, {
        // The store was looked through before its tables; what it knows then it may note.
        except: /^store\/(checkpoint|gantry)/,
      });
    });
  }
});

test('the key-value settings of a name server are damaged', async () => {
  const folder = `${base}/${count++}`;
  fs.mkdirSync(folder);
  const conf = `${folder}/namesrv.conf`;
  fs.writeFileSync(`${folder}/kv.json`, '{"configTable":');
  fs.writeFileSync(conf, `kvConfigPath=${folder}/kv.json\n`);
  const args = ['namesrv', '-c', conf, '--host', '127.0.0.1', '--port', '0'];
  await fails({ folder, store: folder, conf }, args, [escaped(`${folder}/kv.json`)]);
});

describe('what cannot be understood ends with exit code 2', { concurrency: 3 }, () => {
  for (const [args, culprit] of [
    [['strat'], /unknown command 'strat' \(Did you mean start\?\)/],
    [['start', '--prot', '1'], /unknown option '--prot'/],
    [['consume', 'topic'], /--group/],
    [['consume', 'topic', '--group', 'g', '--count', '0'], /--count/],
    [['produce'], /'topic'/],
    [['start', '--log-level', 'loud'], /--log-level/],
  ] as Array<[string[], RegExp]>) {
    test(`gantry ${args.join(' ')}`, async () => {
      const folder = `${base}/${count++}`;
      fs.mkdirSync(folder);
      await fails({ folder, store: folder, conf: '' }, args, [culprit], { exitCode: 2 });
    });
  }
});

test('an option that is out of range is a failure of the start, and names itself', async () => {
  const ended = await gantry(['start', '--port', '99999']);
  assert.equal(ended.code, 1);
  assert.equal(ended.stderr, 'gantry: --port 99999 is not allowed: use a whole number from 0 to 65535 (port)\n');
});
