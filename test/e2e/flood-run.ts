// What one flooding peer does to eight others: their sends one at a time, alone, then beside a peer that sends one-way messages as fast
// as the socket takes them, then beside batches of 1 MiB. Some of each in turn, so that a noisy machine shows. The flooding peer is a
// process of its own (`--flood`), and nobody who is measured polls: what is measured is the broker.
//
//   node dist/test/e2e/flood-run.js [--port 25120] [--seconds 5] [--rounds 2] [--members 1024] [--store DIRECTORY]
//
// `--members` is how many messages make up the 1 MiB: 1,024 of 1 KiB by default; 47,662 is the most (all empty). `--store` is where the
// store's folder is made, the system's folder for such things by default. `node --cpu-prof` profiles the broker, too. It ends with 1 if its
// broker does not start, or ends.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { encodeBatch } from '../../src/message/index.ts';
import { RequestCode } from '../../src/remoting/index.ts';
import { Program } from '../crash/program.ts';
import { jsonRequest, ONEWAY, sendFields, WirePeer } from './wire-peer.ts';

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '25120' },
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '2' },
    members: { type: 'string', default: '1024' },
    store: { type: 'string', default: tmpdir() },
    kinds: { type: 'string', default: 'oneway,batches' },
    flood: { type: 'string' },
  },
});
const port = Number(values.port);
const seconds = Number(values.seconds);
const address = `127.0.0.1:${port}`;
const OTHERS = 8;
const START_LIMIT_MS = 60_000;
const MIB = 1024 * 1024;

/** One message after the other on one connection; each one's milliseconds go to `waits`. */
async function behave(index: number, more: () => boolean, waits: number[]): Promise<void> {
  const peer = await WirePeer.open(address);
  const body = Buffer.alloc(1024, index);
  let answered = (): void => {};
  peer.onFrame = (frame) => {
    if (frame.code !== 0) throw new Error(`a send was answered ${frame.code} ${frame.remark}`);
    answered();
  };
  for (let opaque = 1; more(); opaque++) {
    const began = performance.now();
    await new Promise<void>((resolve) => {
      answered = resolve;
      peer.write(jsonRequest(RequestCode.SEND_MESSAGE_V2, opaque, sendFields(`Other-${index}`), body));
    });
    waits.push(performance.now() - began);
    // Some hundred messages a second each: what is measured is waiting, not the machine's limit.
    await new Promise((resolve) => setTimeout(resolve, 3));
  }
  await peer.close();
}

const members = Number(values.members);
const NAMES: Record<string, string> = { oneway: 'one-way flood', batches: 'batches of 1 MiB' };

/** What the flooding peer writes again and again, and how many messages that is. */
function floodPiece(kind: string): { piece: Buffer; messages: number } {
  if (kind === 'oneway') {
    const oneway = jsonRequest(RequestCode.SEND_MESSAGE_V2, 1, sendFields('Flood'), Buffer.alloc(128), ONEWAY);
    return { piece: Buffer.concat(Array.from({ length: 200 }, () => oneway)), messages: 200 };
  }
  const body = Buffer.alloc(Math.max(0, Math.floor(MIB / members) - 22));
  const batch = encodeBatch(Array.from({ length: members }, () => ({ flag: 0, body, properties: Buffer.alloc(0) })));
  return {
    piece: jsonRequest(RequestCode.SEND_BATCH_MESSAGE, 1, sendFields('Flood', { m: 'true' }), batch),
    messages: members,
  };
}

/** Writes as fast as the broker takes it until the parent ends our input; then says how many messages that were. */
async function flood(kind: string): Promise<void> {
  const { piece, messages } = floodPiece(kind);
  const peer = await WirePeer.open(address);
  peer.onFrame = () => {};
  let proceed = (): void => {};
  peer.socket.on('drain', () => proceed());
  peer.socket.once('close', () => proceed());
  let ended = false;
  process.stdin.resume().once('end', () => {
    ended = true;
  });
  let count = 0;
  while (!ended && !peer.closed) {
    for (; peer.socket.writableLength < 4 * MIB; count++) peer.write(piece);
    await new Promise<void>((resolve) => {
      proceed = resolve;
    });
  }
  console.log(count * messages);
  await peer.close();
}

/** Most memory that the broker has held so far; where the system does not tell, nothing. */
function memory(pid: number): string {
  try {
    const kib = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'));
    return `; broker's most ${Math.round(Number(kib![1]) / 1024)} MiB`;
  } catch {
    return '';
  }
}

async function measure(name: string, kind: string | undefined, pid: number): Promise<void> {
  let flooder: ChildProcess | undefined;
  let flooded = '0';
  if (kind !== undefined) {
    const args = [process.argv[1]!, '--flood', kind, '--port', values.port, '--members', values.members];
    flooder = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    flooder.stdout!.on('data', (text) => {
      flooded = `${text}`;
    });
    // It takes a while to start; then its first messages are on their way.
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  const until = performance.now() + seconds * 1000;
  const waits: number[] = [];
  await Promise.all(Array.from({ length: OTHERS }, (_, i) => behave(i, () => performance.now() < until, waits)));
  if (flooder !== undefined) {
    const gone = once(flooder, 'exit');
    flooder.stdin!.end();
    await gone;
  }
  waits.sort((a, b) => a - b);
  const at = (fraction: number): string => waits[Math.floor((waits.length - 1) * fraction)]!.toFixed(2);
  const rate = (Number(flooded) / seconds).toFixed(0);
  console.log(
    `${name}: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, longest ${at(1)} ms of ${waits.length}; flood ${rate} messages/s${memory(pid)}`,
  );
}

async function main(): Promise<void> {
  const dir = mkdtempSync(join(values.store, 'gantry-flood-'));
  const gantry = join(dirname(dirname(import.meta.dirname)), 'src', 'bin', 'gantry.js');
  const place = ['--store', join(dir, 'store'), '--host', '127.0.0.1', '--port', `${port}`];
  const args = [
    ...process.execArgv,
    gantry,
    'start',
    ...place,
    '--namesrv-port',
    `${port + 1}`,
    '--log-level',
    'error',
  ];
  const broker = new Program('the broker', process.execPath, args, join(dir, 'log'));
  const died = broker.exited.then(({ code, signal }) => {
    throw new Error(`the broker ended with ${code ?? signal}:\n${broker.tail()}`);
  });
  died.catch(() => {});
  try {
    // Not until somebody answers: that may be another broker on the same port.
    await Promise.race([broker.prints(' is ready after ', START_LIMIT_MS), died]);
    await Promise.race([rounds(broker.pid), died]);
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  } finally {
    broker.signal('SIGTERM');
    await broker.exited;
    rmSync(dir, { recursive: true, force: true });
  }
  // Those that wait for an answer of a broker that is gone would keep this process.
  process.exit();
}

async function rounds(pid: number): Promise<void> {
  await measure('warm-up', 'oneway', pid);
  for (let round = 1; round <= Number(values.rounds); round++) {
    await measure(`alone ${round}`, undefined, pid);
    for (const kind of values.kinds.split(',')) await measure(`${NAMES[kind] ?? kind} ${round}`, kind, pid);
  }
}

await (values.flood === undefined ? main() : flood(values.flood));
