// One topic of its own under the load: it is deleted, filled, deleted, … one request after the other, so that its state is known at
// every moment. After the kill its queue holds what was acknowledged since the last deletion, and nothing from before it.

import type { Channel } from '../../src/remoting/index.ts';
import { RequestCode, type ResponseCallback, ResponseCode } from '../../src/remoting/index.ts';
import { CrashError } from './program.ts';

const TOPIC = 'Crash-deleted';
const MOST_MESSAGES = 40;

/** What must be there. */
export interface DeleterState {
  /** Part of every body: `life.round`. A deletion begins a round. */
  round: string;
  /** Messages of the round that were acknowledged. */
  acknowledged: number;
  /** The request without an answer, if any: its effect may be there or not. */
  pending: 'send' | 'delete' | undefined;
  /** Deletions that were answered with success. */
  deletions: number;
}

/** What requests go through: the channel while it lives. */
export type Caller = (
  code: number,
  fields: Record<string, string | number>,
  body: Buffer,
  done: ResponseCallback,
) => void;

export function callerOf(channel: Channel): Caller {
  return (code, fields, body, done) => channel.request(code, fields, body, 30_000, done);
}

/** Goes on until its connection is lost. */
export class Deleter {
  readonly state: DeleterState;
  /** An answer other than success. */
  fault: string | undefined;
  readonly #call: Caller;
  readonly #life: number;
  #round = 0;

  /** `before`: what the last life left, which is there until the first deletion is done. */
  constructor(call: Caller, life: number, before: DeleterState | undefined) {
    this.#call = call;
    this.#life = life;
    this.state = { round: `${life}.0`, acknowledged: 0, pending: undefined, ...before, deletions: 0 };
    this.#delete();
  }

  #delete(): void {
    this.state.pending = 'delete';
    this.#call(RequestCode.DELETE_TOPIC_IN_BROKER, { topic: TOPIC }, Buffer.alloc(0), (_error, response) => {
      if (response === undefined) return;
      if (response.code !== ResponseCode.SUCCESS) return this.#failed('deletion', response.code, response.remark);
      this.state.round = `${this.#life}.${++this.#round}`;
      this.state.acknowledged = 0;
      this.state.deletions++;
      this.#send();
    });
  }

  #send(): void {
    this.state.pending = 'send';
    const n = this.state.acknowledged;
    this.#call(RequestCode.SEND_MESSAGE_V2, sendFields(), bodyOf(this.state, n), (_error, response) => {
      if (response === undefined) return;
      if (response.code !== ResponseCode.SUCCESS) return this.#failed('send', response.code, response.remark);
      if (response.ext['queueOffset'] !== String(n)) return this.#failed('place', n, response.ext['queueOffset']);
      this.state.acknowledged++;
      // The number of messages of a round differs from round to round.
      if (this.state.acknowledged > (this.#round * 7) % MOST_MESSAGES) this.#delete();
      else this.#send();
    });
  }

  #failed(what: string, code: number, remark: string | null | undefined): void {
    this.fault = `${TOPIC}, round ${this.state.round}: ${what} ${code} ${remark}`;
  }
}

/** Looks at the topic after a start and sends one more message to it. @throws CrashError that names what is wrong. */
export async function verifyDeleted(call: Caller, state: DeleterState): Promise<void> {
  const ask = async (code: number, fields: Record<string, string | number>, body: Buffer = Buffer.alloc(0)) =>
    await new Promise<Parameters<ResponseCallback>[1] & {}>((resolve, reject) => {
      call(code, fields, body, (error, response) => (response === undefined ? reject(error) : resolve(response)));
    });
  const maximum = await ask(RequestCode.GET_MAX_OFFSET, { topic: TOPIC, queueId: 0 });
  const count = Number(maximum.ext['offset'] ?? 0);
  const { acknowledged, pending } = state;
  const allowed = [acknowledged];
  if (pending === 'send') allowed.push(acknowledged + 1);
  if (pending === 'delete') allowed.push(0);
  if (!allowed.includes(count)) {
    throw new CrashError(
      `${TOPIC} holds ${count} messages after round ${state.round} with ${acknowledged} acknowledged (pending: ${pending})`,
    );
  }
  const sent = await ask(RequestCode.SEND_MESSAGE_V2, sendFields(), bodyOf(state, count));
  if (sent.code !== ResponseCode.SUCCESS || sent.ext['queueOffset'] !== String(count)) {
    throw new CrashError(
      `a send to ${TOPIC} is answered ${sent.code} ${sent.remark}, offset ${sent.ext['queueOffset']}`,
    );
  }
  state.acknowledged = count + 1;
  state.pending = undefined;
  for (let n = 0; n <= count; n++) {
    const pulled = await ask(RequestCode.PULL_MESSAGE, {
      consumerGroup: 'crash-verifier',
      topic: TOPIC,
      queueId: 0,
      queueOffset: n,
      maxMsgNums: 1,
      // The newest message may take a moment to be dispatched: the pull waits for it.
      sysFlag: 6,
      commitOffset: 0,
      suspendTimeoutMillis: 10_000,
      subscription: '*',
      subVersion: 0,
      expressionType: 'TAG',
    });
    if (!Buffer.from(pulled.body).includes(bodyOf(state, n))) {
      throw new CrashError(`${TOPIC} offset ${n} is answered ${pulled.code} ${pulled.remark}, not ${bodyOf(state, n)}`);
    }
  }
}

function bodyOf({ round }: DeleterState, n: number): Buffer {
  return Buffer.from(`<${round}:${n}>`);
}

function sendFields(): Record<string, string | number> {
  return {
    a: 'PID_crash',
    b: TOPIC,
    c: 'TBW102',
    d: 4,
    e: 0,
    f: 0,
    g: 1,
    h: 0,
    i: 'WAIT\u0001true\u0002',
    j: 0,
    k: 'false',
    m: 'false',
  };
}
