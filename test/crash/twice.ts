// A producer that sends everything again after a kill -9, against a real broker process with send de-duplication: afterwards each message
// is there once, and those that had been acknowledged are answered with their first place.
//
//   node dist/test/crash/twice.js [--messages 20000] [--rounds 3] [--port 25140] [--flush SYNC_FLUSH] [--kill no]

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { RequestCode } from '../../src/remoting/index.ts';
import { jsonRequest, sendFields, WirePeer } from '../e2e/wire-peer.ts';

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '20000' },
    rounds: { type: 'string', default: '3' },
    port: { type: 'string', default: '25140' },
    flush: { type: 'string', default: 'ASYNC_FLUSH' },
    kill: { type: 'string', default: 'yes' },
  },
});
const messages = Number(values.messages);
const port = Number(values.port);
const gantry = join(dirname(dirname(import.meta.dirname)), 'src', 'bin', 'gantry.js');
const dir = mkdtempSync(join(tmpdir(), 'gantry-twice-'));
const conf = join(dir, 'broker.conf');
writeFileSync(conf, `gantrySendDeduplicationEnable=true\nflushDiskType=${values.flush}\n`);
const WINDOW = 256;

interface Broker {
  peer: WirePeer;
  pid: number;
  /** Ms until it answered. */
  startMs: number;
  log: () => string;
  end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void>;
}

async function start(): Promise<Broker> {
  const began = performance.now();
  const args = [gantry, 'start', '-c', conf, '--store', join(dir, 'store'), '--host', '127.0.0.1'];
  const child = spawn(process.execPath, [...args, '--port', `${port}`, '--namesrv-port', `${port + 1}`], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let log = '';
  child.stderr.on('data', (data: Buffer) => {
    log += data.toString();
  });
  let peer: WirePeer | undefined;
  while (peer === undefined) {
    if (child.exitCode !== null) throw new Error(`the broker ended with ${child.exitCode}:\n${log}`);
    peer = await WirePeer.open(`127.0.0.1:${port}`).catch(() => undefined);
    if (peer === undefined) await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const startMs = performance.now() - began;
  const end = async (signal: 'SIGKILL' | 'SIGTERM'): Promise<void> => {
    const exit = once(child, 'exit');
    child.kill(signal);
    await exit;
  };
  return { peer, pid: child.pid!, startMs, log: () => log, end };
}

/** Sends all messages of a round, some at a time; answers the places by message. `until` stops it after so many answers. */
async function sendAll(broker: Broker, round: number, until: number): Promise<Map<number, string>> {
  const places = new Map<number, string>();
  let sent = 0;
  const send = (): void => {
    const n = sent++;
    const properties = `UNIQ_KEY\u0001${`R${round}-${n}`.padStart(32, '0')}\u0002`;
    const ext = sendFields('Twice', { e: String(n % 4), i: properties });
    broker.peer.write(jsonRequest(RequestCode.SEND_MESSAGE_V2, n, ext, Buffer.from(`message ${n}`)));
  };
  await new Promise<void>((resolve) => {
    broker.peer.onFrame = ({ code, remark, opaque, ext }) => {
      if (code !== 0) throw new Error(`message ${opaque} was answered ${code} ${remark}`);
      places.set(opaque, `${ext['msgId']} ${ext['queueId']} ${ext['queueOffset']}`);
      if (places.size >= until) resolve();
      else if (sent < messages) send();
    };
    while (sent < Math.min(messages, WINDOW)) send();
  });
  broker.peer.onFrame = (frame) => broker.peer.frames.push(frame);
  return places;
}

async function stored(broker: Broker): Promise<number> {
  let sum = 0;
  for (let queueId = 0; queueId < 4; queueId++) {
    const ext = { topic: 'Twice', queueId: String(queueId), committed: 'false' };
    sum += Number((await broker.peer.call(RequestCode.GET_MAX_OFFSET, 1_000_000 + queueId, ext)).ext['offset']);
    broker.peer.frames.length = 0;
  }
  return sum;
}

let failed = 0;
try {
  for (let round = 0; round < Number(values.rounds); round++) {
    let broker = await start();
    const isKilled = values.kill === 'yes';
    const first = await sendAll(broker, round, isKilled ? Math.floor(messages * (0.3 + 0.2 * (round % 4))) : messages);
    await broker.end(isKilled ? 'SIGKILL' : 'SIGTERM');
    broker = await start();
    const again = await sendAll(broker, round, messages);
    const moved = [...first].filter(([n, place]) => again.get(n) !== place).length;
    const count = await stored(broker);
    const rss = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${broker.pid}/status`, 'utf8'))?.[1]) / 1024;
    console.log(
      `round ${round}: ${first.size} acknowledged before, ${moved} answered otherwise; ${count} stored of ${(round + 1) * messages}; ` +
        `start ${broker.startMs.toFixed(0)} ms, ${rss.toFixed(0)} MiB resident; ` +
        `${/send de-duplication: [^"\n]*/.exec(broker.log())?.[0]}`,
    );
    if (moved > 0 || count !== (round + 1) * messages) failed++;
    await broker.end('SIGTERM');
  }
} finally {
  rmSync(dir, { recursive: true, force: true });
}
process.exit(failed === 0 ? 0 : 1);
