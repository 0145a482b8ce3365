// What one flooding peer does to eight others: their sends one at a time, alone, then beside a peer that sends one-way messages as fast
// as the socket takes them, then beside batches of 1 MiB. Two of each in turn, so that a noisy machine shows.
//
//   node dist/test/e2e/flood-run.js [--port 25120] [--seconds 5] [--members 1024]
//
// `--members` is how many messages make up the 1 MiB: 1,024 of 1 KiB by default; 47,662 is the most (all empty).

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { encodeBatch } from '../../src/message/index.ts';
import { RequestCode } from '../../src/remoting/index.ts';
import { jsonRequest, ONEWAY, until, WirePeer } from './wire-peer.ts';

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '25120' },
    seconds: { type: 'string', default: '5' },
    members: { type: 'string', default: '1024' },
  },
});
const port = Number(values.port);
const seconds = Number(values.seconds);
const address = `127.0.0.1:${port}`;
const OTHERS = 8;
const MIB = 1024 * 1024;

const fields = (topic: string, batch: boolean): Record<string, string> => ({
  ...{ a: 'P', b: topic, c: 'TBW102', d: '4', e: '0', f: '0', g: '1700000000000', h: '0' },
  ...{ i: '', j: '0', k: 'false', m: String(batch) },
});

/** One message after the other on one connection; each one's milliseconds go to `waits`. */
async function behave(index: number, more: () => boolean, waits: number[]): Promise<void> {
  const peer = await WirePeer.open(address);
  const body = Buffer.alloc(1024, index);
  let opaque = 0;
  while (more()) {
    const began = performance.now();
    const sent = ++opaque;
    let answered = false;
    peer.onFrame = (frame) => {
      if (frame.code !== 0) throw new Error(`a send was answered ${frame.code} ${frame.remark}`);
      answered = frame.opaque === sent;
      if (answered) waits.push(performance.now() - began);
    };
    peer.write(jsonRequest(RequestCode.SEND_MESSAGE_V2, sent, fields(`Other-${index}`, false), body));
    await until(() => answered || peer.closed);
    // Some hundred messages a second each: what is measured is waiting, not the machine's limit.
    await new Promise((resolve) => setTimeout(resolve, 3));
  }
  await peer.close();
}

/** Writes `piece` as fast as the peer takes it; answers how often. */
async function flood(piece: Buffer, more: () => boolean): Promise<number> {
  const peer = await WirePeer.open(address);
  peer.onFrame = () => {};
  let count = 0;
  while (more() && !peer.closed) {
    for (; peer.socket.writableLength < 4 * MIB; count++) peer.write(piece);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await peer.close();
  return count;
}

async function measure(name: string, piece: Buffer | undefined, messages: number): Promise<void> {
  const until = performance.now() + seconds * 1000;
  const more = (): boolean => performance.now() < until;
  const waits: number[] = [];
  const others = Array.from({ length: OTHERS }, (_, i) => behave(i, more, waits));
  const flooded = piece === undefined ? 0 : await flood(piece, more);
  await Promise.all(others);
  waits.sort((a, b) => a - b);
  const at = (fraction: number): string => waits[Math.floor((waits.length - 1) * fraction)]!.toFixed(2);
  const rate = ((flooded * messages) / seconds).toFixed(0);
  console.log(
    `${name}: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, longest ${at(1)} ms of ${waits.length}; flood ${rate} messages/s`,
  );
}

const store = mkdtempSync(join(tmpdir(), 'gantry-flood-'));
const gantry = join(dirname(dirname(import.meta.dirname)), 'src', 'bin', 'gantry.js');
const args = [gantry, 'start', '--store', store, '--host', '127.0.0.1', '--port', `${port}`, '--log-level', 'warn'];
const child = spawn(process.execPath, [...args, '--namesrv-port', `${port + 1}`], { stdio: 'inherit' });
const ended = new Promise((resolve) => child.once('exit', resolve));
try {
  for (;;) {
    const peer = await WirePeer.open(address).catch(() => undefined);
    if (peer !== undefined) {
      await peer.close();
      break;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const oneway = jsonRequest(RequestCode.SEND_MESSAGE_V2, 1, fields('Flood', false), Buffer.alloc(128), ONEWAY);
  const onewayPiece = Buffer.concat(Array.from({ length: 200 }, () => oneway));
  const members = Number(values.members);
  const body = Buffer.alloc(Math.max(0, Math.floor(MIB / members) - 22));
  const batch = encodeBatch(Array.from({ length: members }, () => ({ flag: 0, body, properties: Buffer.alloc(0) })));
  const batchPiece = jsonRequest(RequestCode.SEND_BATCH_MESSAGE, 1, fields('Flood', true), batch);
  await measure('warm-up', onewayPiece, 200);
  for (let round = 1; round <= 2; round++) {
    await measure(`alone ${round}`, undefined, 0);
    await measure(`one-way flood ${round}`, onewayPiece, 200);
    await measure(`batches of 1 MiB ${round}`, batchPiece, members);
  }
} finally {
  child.kill('SIGTERM');
  await ended;
  rmSync(store, { recursive: true, force: true });
}
