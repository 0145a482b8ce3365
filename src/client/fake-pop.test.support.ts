// The pops of a fake broker: messages go out of sight, are acknowledged, or are brought back by the test. What a broker answers beyond that a
// test says itself.

import { type ExtFields, type Request, type Responder, ResponseCode } from '../remoting/index.ts';

/** Just enough of a request. */
interface Asked {
  ext: Record<string, string>;
  body: Buffer;
}

interface WaitingPop {
  responder: Responder;
  ext: Record<string, string>;
}

/** The state of all groups at one broker. */
export class FakePops {
  /** `group topic queueId offset` of what was popped and is not acknowledged. */
  readonly inFlight: Set<string> = new Set();
  /** The same of what was acknowledged, in order. */
  readonly acked: string[] = [];
  /** The same with the new time, of changes of the invisible time. */
  readonly changed: string[] = [];
  /** Time of the next pop. */
  now = 1_700_000_000_000;
  readonly #name: string;
  readonly #records: (topic: string) => Map<number, readonly Uint8Array[]>;
  readonly #next = new Map<string, number>();
  #waiting: WaitingPop[] = [];

  constructor(name: string, records: (topic: string) => Map<number, readonly Uint8Array[]>) {
    this.#name = name;
    this.#records = records;
  }

  /** Pops that wait for a message. */
  get waiting(): number {
    return this.#waiting.length;
  }

  pop(request: Request, ext: Record<string, string>): void {
    const found = this.#take(ext);
    if (found !== undefined) return request.respond(ResponseCode.SUCCESS, 'FOUND', found.ext, found.body);
    if (ext['pollTime'] === '0') return request.respond(ResponseCode.POLLING_TIMEOUT, 'no message');
    this.#waiting.push({ responder: request.defer(), ext });
  }

  /** A message was appended. */
  wake(): void {
    for (const waiting of this.#waiting.splice(0)) {
      const found = this.#take(waiting.ext);
      if (found === undefined) this.#waiting.push(waiting);
      else waiting.responder.respond(ResponseCode.SUCCESS, 'FOUND', found.ext, found.body);
    }
  }

  /** The time of those that wait is over. */
  expire(): void {
    for (const { responder } of this.#waiting.splice(0)) responder.respond(ResponseCode.POLLING_TIMEOUT, 'timeout');
  }

  /** Forgets the pops that wait. */
  drop(): void {
    this.#waiting = [];
  }

  ack({ ext }: Asked): number {
    return this.#done(`${ext['consumerGroup']} ${ext['topic']} ${ext['queueId']} ${ext['offset']}`);
  }

  ackAll({ body }: Asked): void {
    const { acks } = JSON.parse(body.toString()) as {
      acks: Array<{ c: string; t: string; r: string; so: number; q: number; b: string }>;
    };
    for (const { c, t, r, so, q, b } of acks) {
      const topic = r === '0' ? t : `%RETRY%${c}${r === '1' ? '_' : '+'}${t}`;
      const bits = Buffer.from(b, 'base64');
      for (let bit = 0; bit < 8 * bits.length; bit++) {
        if ((bits[bit >>> 3]! & (1 << (bit & 7))) !== 0) this.#done(`${c} ${topic} ${q} ${so + bit}`);
      }
    }
  }

  change({ ext }: Asked): ExtFields {
    const name = `${ext['consumerGroup']} ${ext['topic']} ${ext['queueId']} ${ext['offset']}`;
    this.changed.push(`${name}: ${ext['invisibleTime']}`);
    return { popTime: this.now++, invisibleTime: Number(ext['invisibleTime']), reviveQid: 3 };
  }

  #done(name: string): number {
    if (!this.inFlight.delete(name)) return ResponseCode.NO_MESSAGE;
    this.acked.push(name);
    return ResponseCode.SUCCESS;
  }

  #take(ext: Record<string, string>): { ext: ExtFields; body: Uint8Array } | undefined {
    const { consumerGroup: group, topic } = ext as { consumerGroup: string; topic: string };
    const only = Number(ext['queueId']);
    let left = Number(ext['maxMsgNums']);
    const starts: string[] = [];
    const offsets: string[] = [];
    const bodies: Uint8Array[] = [];
    for (const [queueId, records] of this.#records(topic)) {
      if (only >= 0 && queueId !== only) continue;
      const key = `${group} ${topic} ${queueId}`;
      const start = this.#next.get(key) ?? 0;
      const some = records.slice(start, start + left);
      if (some.length === 0) continue;
      left -= some.length;
      this.#next.set(key, start + some.length);
      for (const i of some.keys()) this.inFlight.add(`${key} ${start + i}`);
      starts.push(`0 ${queueId} ${start}`);
      offsets.push(`0 ${queueId} ${Array.from(some.keys(), (i) => start + i).join(',')}`);
      bodies.push(...some);
    }
    if (bodies.length === 0) return undefined;
    return {
      ext: {
        popTime: this.now++,
        invisibleTime: Number(ext['invisibleTime']),
        reviveQid: 5,
        restNum: 0,
        startOffsetInfo: starts.join(';'),
        msgOffsetInfo: offsets.join(';'),
        brokerName: this.#name,
      },
      body: Buffer.concat(bodies),
    };
  }
}
