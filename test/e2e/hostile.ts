// Hostile peers against a broker and its name server, while eight well-behaved connections send and read back: every request must be
// answered or its connection closed, and nobody else may notice. `npm test` runs some thousand frames (hostile.test.ts); a longer run
// starts a broker process of its own, watches its memory and says what it saw:
//
//   npm run fuzz -- --frames 1000000 [--seed 1] [--port 25100] [--namesrv 1]

import { type Random, SeededRandom } from '../../src/common/index.ts';
import { RequestCode } from '../../src/remoting/index.ts';
import { HostileFrames } from './hostile-frames.ts';
import { type Fields, type Frame, jsonRequest, ONEWAY, RESPONSE, sendFields, until, WirePeer } from './wire-peer.ts';

export interface HostileRunOptions {
  /** `host:port` of the broker. */
  broker: string;
  /** `host:port` of its name server. */
  namesrv: string;
  /** How many of five attackers attack the name server. Default 1. */
  namesrvOfFive?: number;
  frames: number;
  seed: number;
  /** Connections that attack. */
  attackers?: number;
  /** Connections that behave. */
  others?: number;
  /** Called now and then with the number of frames sent so far. */
  progress?: (frames: number) => void;
}

export interface HostileReport {
  frames: number;
  answers: number;
  /** Connections of attackers that the servers closed. */
  closed: number;
  /** Connections that attackers left in the middle of things. */
  left: number;
  /** Messages that each of the well-behaved sent and read back. */
  messages: number[];
  /** Milliseconds that each of the well-behaved requests took, in order of size. */
  waits: number[];
  /** What should not have been; empty if all is well. */
  faults: string[];
  /** How often each kind of frame was sent. */
  kinds: Map<string, number>;
}

/** Frames that one attacker has under way. */
const BURST = 48;
/** Opaques of one connection; those of another are told from them. */
const OPAQUES = 1 << 24;
const FAULTS_KEPT = 20;

export async function runHostile(options: HostileRunOptions): Promise<HostileReport> {
  const report: HostileReport = {
    frames: 0,
    answers: 0,
    closed: 0,
    left: 0,
    messages: [],
    waits: [],
    faults: [],
    kinds: new Map(),
  };
  const random = new SeededRandom(options.seed);
  const attackers = Array.from({ length: options.attackers ?? 8 }, (_, i) => {
    const address = i % 5 >= 5 - (options.namesrvOfFive ?? 1) ? options.namesrv : options.broker;
    return new Attacker(i, address, new SeededRandom(random.int(2 ** 31)), options, report);
  });
  const others = Array.from({ length: options.others ?? 8 }, (_, i) => new WellBehaved(i, options.broker, report));
  let attacking = true;
  const behaving = Promise.all(others.map((other) => other.run(() => attacking)));
  const attack = Promise.all(attackers.map((attacker) => attacker.run())).finally(() => {
    attacking = false;
  });
  await Promise.all([attack, behaving]);
  report.waits.sort((a, b) => a - b);
  return report;
}

function complain(report: HostileReport, fault: string): void {
  if (report.faults.length < FAULTS_KEPT) report.faults.push(fault);
}

class Attacker {
  readonly #index: number;
  readonly #address: string;
  readonly #random: Random;
  readonly #options: HostileRunOptions;
  readonly #report: HostileReport;
  readonly #frames: HostileFrames;
  #opaque = 0;
  #peer: WirePeer | undefined;
  /** Opaque and kind of what must still be answered. */
  #open = new Map<number, string>();
  /** Opaques of this connection that may be answered. */
  #known = new Set<number>();
  /** Whether a frame has gone out whose opaque may be any. */
  #bytesChanged = false;

  constructor(index: number, address: string, random: Random, options: HostileRunOptions, report: HostileReport) {
    this.#index = index;
    this.#address = address;
    this.#random = random;
    this.#options = options;
    this.#report = report;
    this.#frames = new HostileFrames(random);
  }

  async run(): Promise<void> {
    while (this.#report.frames < this.#options.frames) await this.#burst();
    await this.#peer?.close();
  }

  async #burst(): Promise<void> {
    if (this.#peer === undefined || this.#peer.closed) await this.#connect();
    const peer = this.#peer!;
    const ending = this.#random.int(2) === 0;
    const bytes: Buffer[] = [];
    let mayClose = false;
    let mustClose = false;
    let last = '';
    for (let left = 1 + this.#random.int(BURST); left > 0; left--) {
      const opaque = this.#index * OPAQUES + (this.#opaque++ % OPAQUES);
      const frame = this.#frames.next(opaque, ending && left === 1);
      bytes.push(frame.bytes);
      this.#known.add(opaque);
      if (frame.due === 'answer') this.#open.set(opaque, frame.kind);
      mustClose = frame.due === 'close';
      mayClose = mustClose || frame.due === 'anything';
      if (frame.due === 'anything') this.#bytesChanged = true;
      last = frame.kind;
      const kind = frame.kind.replace(/[ -].*$/, '');
      this.#report.kinds.set(kind, (this.#report.kinds.get(kind) ?? 0) + 1);
    }
    this.#report.frames += bytes.length;
    this.#options.progress?.(this.#report.frames);
    this.#write(peer, Buffer.concat(bytes));
    if (this.#random.int(50) === 0) {
      // Gone in the middle of everything: whatever is being done for it, nobody waits.
      await peer.close();
    }
    await until(() => peer.closed || (!mustClose && this.#open.size === 0));
    if (peer.fault !== undefined) complain(this.#report, `${peer.fault.message} (last frame: ${last})`);
    if (peer.closed) {
      if (!peer.left && !mayClose) complain(this.#report, `closed after well-formed frames, the last of them ${last}`);
    } else if (mayClose) {
      // What may or may not be answered must not be mistaken for a later frame's answer.
      await peer.close();
    }
  }

  /** In pieces of any size, or at once. */
  #write(peer: WirePeer, bytes: Buffer): void {
    if (this.#random.int(3) > 0) return peer.write(bytes);
    for (let at = 0; at < bytes.length; ) {
      const end = Math.min(bytes.length, at + 1 + this.#random.int(1 + this.#random.int(bytes.length)));
      peer.write(bytes.subarray(at, end));
      at = end;
    }
  }

  async #connect(): Promise<void> {
    const peer = await WirePeer.open(this.#address);
    this.#known = new Set();
    this.#bytesChanged = false;
    this.#open = new Map();
    peer.onFrame = (frame) => this.#take(peer, frame);
    peer.socket.on('close', () => {
      if (peer.left) this.#report.left++;
      else this.#report.closed++;
    });
    this.#peer = peer;
  }

  #take(peer: WirePeer, frame: Frame): void {
    if ((frame.flag & RESPONSE) === 0) {
      // The broker asks whoever said that it is a consumer.
      if ((frame.flag & ONEWAY) === 0) peer.write(jsonRequest(0, frame.opaque, { 'a"b': 'c' }, undefined, RESPONSE));
      return;
    }
    this.#report.answers++;
    if (!this.#known.has(frame.opaque) && !this.#bytesChanged) {
      complain(
        this.#report,
        `attacker ${this.#index} got an answer to ${frame.opaque}, which it did not ask: ${frame.code}`,
      );
    }
    this.#open.delete(frame.opaque);
  }
}

/** Sends to a topic of its own, reads everything back, and looks at every byte. */
class WellBehaved {
  readonly #index: number;
  readonly #address: string;
  readonly #report: HostileReport;
  readonly #topic: string;
  #opaque = 1;
  #sent = 0;
  #read = 0;

  constructor(index: number, address: string, report: HostileReport) {
    this.#index = index;
    this.#address = address;
    this.#report = report;
    this.#topic = `Behaved-${index}`;
  }

  async run(more: () => boolean): Promise<void> {
    const peer = await WirePeer.open(this.#address);
    const local = `${peer.socket.localAddress}:${peer.socket.localPort}`;
    const waiting = new Map<number, (frame: Frame) => void>();
    peer.onFrame = (frame) => {
      const taker = waiting.get(frame.opaque);
      if (taker === undefined)
        return complain(this.#report, `${this.#topic} got frame ${frame.opaque}, which it did not ask for`);
      waiting.delete(frame.opaque);
      taker(frame);
    };
    const call = async (code: number, ext: Fields, body?: Uint8Array): Promise<Frame> => {
      const opaque = this.#opaque++;
      const began = performance.now();
      let answer: Frame | undefined;
      waiting.set(opaque, (frame) => {
        answer = frame;
      });
      peer.write(jsonRequest(code, opaque, ext, body));
      await until(() => answer !== undefined || peer.closed);
      this.#report.waits.push(performance.now() - began);
      if (answer === undefined)
        throw new Error(`the connection ${local} of ${this.#topic} was closed`, { cause: peer.fault });
      return answer;
    };
    do {
      const sends = Array.from({ length: 16 }, () => {
        const body = bodyOf(this.#topic, this.#sent++);
        return call(
          RequestCode.SEND_MESSAGE_V2,
          sendFields(this.#topic, { a: 'BehavedProducer', i: `N\u0001${this.#sent}\u0002` }),
          body,
        );
      });
      for (const answer of await Promise.all(sends)) {
        if (answer.code !== 0)
          complain(this.#report, `${this.#topic}: a send was answered ${answer.code} ${answer.remark}`);
      }
      while (this.#read < this.#sent)
        this.#verify(await call(RequestCode.PULL_MESSAGE, pullFields(this.#topic, this.#read)));
    } while (more() && this.#report.faults.length === 0);
    this.#report.messages[this.#index] = this.#read;
    await peer.close();
  }

  #verify(answer: Frame): void {
    // What was acknowledged a moment ago may not have been dispatched yet.
    if (answer.code === 19 || answer.code === 21) return;
    if (answer.code !== 0) throw new Error(`a pull was answered ${answer.code} ${answer.remark}`);
    for (const body of bodiesIn(answer.body)) {
      if (!body.equals(bodyOf(this.#topic, this.#read))) {
        complain(this.#report, `${this.#topic}: message ${this.#read} reads "${body.toString('latin1', 0, 80)}"`);
      }
      this.#read++;
    }
  }
}

/** What message `n` of a topic holds. */
function bodyOf(topic: string, n: number): Buffer {
  return Buffer.from(`${topic} ${n} ${'abcdefghijklmnopqrstuvwxyz'.repeat(n % 7)}`);
}

/** The bodies of the records in a pull's answer (docs/formats/commit-log.md; IPv4 hosts). */
function* bodiesIn(records: Buffer): Generator<Buffer> {
  for (let at = 0; at < records.length; at += records.readInt32BE(at)) {
    yield records.subarray(at + 88, at + 88 + records.readInt32BE(at + 84));
  }
}

/** How many messages of each well-behaved connection can still be read, in order and unchanged. */
export async function readBack(address: string, connections: number): Promise<number[]> {
  const peer = await WirePeer.open(address);
  const counts: number[] = [];
  let opaque = 1;
  for (let i = 0; i < connections; i++) {
    const topic = `Behaved-${i}`;
    let read = 0;
    for (;;) {
      const answer = await peer.call(RequestCode.PULL_MESSAGE, opaque++, pullFields(topic, read));
      if (answer.code !== 0) break;
      peer.frames.length = 0;
      for (const body of bodiesIn(answer.body)) {
        if (!body.equals(bodyOf(topic, read))) throw new Error(`${topic}: message ${read} is another one`);
        read++;
      }
    }
    counts.push(read);
  }
  await peer.close();
  return counts;
}

function pullFields(topic: string, offset: number): Record<string, string> {
  return {
    ...{ consumerGroup: 'BehavedGroup', topic, queueId: '0', queueOffset: String(offset), maxMsgNums: '32' },
    ...{ sysFlag: '4', commitOffset: '0', suspendTimeoutMillis: '0', subVersion: '0', subscription: '*' },
  };
}
