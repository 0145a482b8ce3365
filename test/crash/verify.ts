// What a broker must hold after it was killed and started again, asked through its own door: every queue is pulled from its first
// to its last message, and each message is compared with the one that was sent.
//
//   always      a message is one that was sent, whole and unchanged, once; queue offsets have no gap; a queue goes forward in the log,
//               and what one connection sent to it lies in the order of sending; no refused message is there
//   promised    every acknowledged message is there, at the offsets that its acknowledgement named, and is found by its keys
//   and then    sends go on: they get the next offsets and come back

import { crc32, silentLogger, systemClock } from '../../src/common/index.ts';
import { decodeMessages, type StoredMessage } from '../../src/message/index.ts';
import {
  type ExtFields,
  RemotingClient,
  type RemotingResponse,
  RequestCode,
  ResponseCode,
} from '../../src/remoting/index.ts';
import { callerOf, type DeleterState, verifyDeleted } from './deleter.ts';
import type { Expectation } from './manifest.ts';
import { type Draft, draftOf, GROUP, idOf, QUEUES, topicNames } from './messages.ts';
import { CrashError } from './program.ts';
import { placesOf, sendDraft } from './send.ts';

/** What a verification saw. */
export interface Verified {
  /** Messages in the queues, and how many of them nobody was promised. */
  found: number;
  unpromised: number;
}

const PULL_MESSAGES = 1000;
const CALL_MS = 30_000;
const KEYS_ASKED = 10;
const FAULTS_TOLD = 10;
const VISIBLE_WITHIN_MS = 10_000;

interface Queue {
  topic: string;
  queueId: number;
  /** Next offset to pull. */
  next: number;
  /** End of the last message in the log. */
  end: number;
  /** Last request of each connection and life that was seen. */
  last: Map<string, number>;
}

/** Verifies one start of the broker. */
export class Verifier {
  readonly #addr: string;
  readonly #expected: Expectation;
  readonly #client = new RemotingClient({ clock: systemClock, logger: silentLogger });
  readonly #queues: Queue[] = [];
  readonly #seen = new Set<string>();
  readonly #faults: string[] = [];
  #draft: { key: string; draft: Draft } | undefined;

  constructor(addr: string, expected: Expectation) {
    this.#addr = addr;
    this.#expected = expected;
    for (const topic of topicNames()) {
      for (let queueId = 0; queueId < QUEUES; queueId++) {
        this.#queues.push({ topic, queueId, next: 0, end: 0, last: new Map() });
      }
    }
  }

  /** Looks at everything. @throws CrashError that names what is wrong */
  async everything(): Promise<Verified> {
    await Promise.all(this.#queues.map((queue) => this.#drain(queue)));
    this.#complete();
    if (this.#faults.length === 0) await Promise.all([this.#keys(), this.#progress()]);
    this.#judge();
    const { acknowledged } = this.#expected;
    return { found: this.#seen.size, unpromised: this.#seen.size - acknowledged.size };
  }

  /** Sends go on: `count` requests of a life of their own, one after the other, and each comes back. @throws CrashError */
  async sendsGoOn(life: number, count: number): Promise<void> {
    const channel = await this.#client.connect(this.#addr);
    this.#expected.sent.set(life, [count]);
    for (let n = 0; n < count; n++) {
      const draft = draftOf(this.#expected.seed, life, n);
      const queue = this.#queues.find(({ topic, queueId }) => topic === draft.topic && queueId === draft.queueId)!;
      const response = await new Promise<RemotingResponse>((resolve, reject) => {
        sendDraft(channel, draft, systemClock.now(), (error, answer) => (answer ? resolve(answer) : reject(error)));
      });
      if (response.code !== ResponseCode.SUCCESS) {
        throw new CrashError(`a send after the restart is answered ${response.code}: ${response.remark}`);
      }
      const { queueOffset, physicalOffsets } = placesOf(response);
      if (queueOffset !== queue.next) {
        this.#fault(
          `a send after the restart gets offset ${queueOffset} of ${nameOf(queue)}, which ended at ${queue.next}`,
        );
      }
      this.#expected.acknowledge(life, n, queueOffset, physicalOffsets);
      const wanted = queueOffset + draft.members.length;
      const limit = systemClock.monotonic() + VISIBLE_WITHIN_MS;
      while (queue.next < wanted && this.#faults.length === 0) {
        await this.#drain(queue);
        if (systemClock.monotonic() > limit)
          this.#fault(`a send after the restart does not appear in ${nameOf(queue)}`);
      }
      this.#judge();
    }
    this.#complete();
    this.#judge();
  }

  /** The topic that was deleted under the load. @throws CrashError */
  async deleted(state: DeleterState): Promise<void> {
    await verifyDeleted(callerOf(await this.#client.connect(this.#addr)), state);
  }

  async close(): Promise<void> {
    await this.#client.close();
  }

  async #drain(queue: Queue): Promise<void> {
    const { topic, queueId } = queue;
    const first = await this.#number(RequestCode.GET_MIN_OFFSET, { topic, queueId }, 'offset');
    const max = await this.#number(RequestCode.GET_MAX_OFFSET, { topic, queueId }, 'offset');
    if (first !== 0) this.#fault(`${nameOf(queue)} begins at ${first}`);
    while (queue.next < max && this.#faults.length === 0) {
      const response = await this.#call(RequestCode.PULL_MESSAGE, {
        consumerGroup: 'crash-verifier',
        topic,
        queueId,
        queueOffset: queue.next,
        maxMsgNums: PULL_MESSAGES,
        sysFlag: 4,
        commitOffset: 0,
        suspendTimeoutMillis: 0,
        subscription: '*',
        subVersion: 0,
        expressionType: 'TAG',
      });
      const messages = response.code === ResponseCode.SUCCESS ? decodeMessages(response.body) : [];
      const bytes = messages.reduce((sum, message) => sum + message.storeSize, 0);
      if (messages.length === 0 || bytes !== response.body.length) {
        this.#fault(
          `a pull at ${queue.next} of ${nameOf(queue)} (maximum ${max}) is answered ${response.code} ${response.remark}, ` +
            `${bytes} of ${response.body.length} bytes are messages`,
        );
        return;
      }
      for (const message of messages) this.#message(queue, message);
    }
  }

  #message(queue: Queue, message: StoredMessage): void {
    const { queueOffset, physicalOffset, body } = message;
    const where = `${nameOf(queue)} offset ${queueOffset} at ${physicalOffset}`;
    if (message.topic !== queue.topic || message.queueId !== queue.queueId) {
      this.#fault(`${where}: belongs to ${message.topic}/${message.queueId}`);
    }
    if (queueOffset !== queue.next) this.#fault(`${where}: expected offset ${queue.next}`);
    if (physicalOffset < queue.end) this.#fault(`${where}: lies before its predecessor's end ${queue.end}`);
    queue.next = queueOffset + 1;
    queue.end = physicalOffset + message.storeSize;
    if (crc32(body) !== message.bodyCrc) this.#fault(`${where}: the body does not match its CRC`);
    const id = idOf(body);
    const sent = id === undefined ? undefined : this.#expected.sent.get(id.life);
    if (id === undefined || sent === undefined) return this.#fault(`${where}: was never sent`);
    const { life, n, member } = id;
    const connection = n % sent.length;
    const { topic, queueId, members } = this.#draftOf(life, n);
    const draft = members[member];
    if (draft === undefined || Math.floor(n / sent.length) >= sent[connection]!) {
      return this.#fault(`${where}: ${life}.${n}.${member} was never sent`);
    }
    if (topic !== queue.topic || queueId !== queue.queueId) {
      this.#fault(`${where}: ${draft.id} was sent to ${topic}/${queueId}`);
    }
    if (!draft.body.equals(body)) this.#fault(`${where}: ${draft.id} has another body`);
    if (draft.flag !== message.flag) this.#fault(`${where}: ${draft.id} has flag ${message.flag}, not ${draft.flag}`);
    for (const [name, value] of draft.properties) {
      const stored = message.properties.get(name);
      if (stored !== value) this.#fault(`${where}: ${draft.id} has ${name} ${stored}, not ${value}`);
    }
    if (this.#seen.has(draft.id)) this.#fault(`${where}: ${draft.id} is there twice`);
    this.#seen.add(draft.id);
    if (this.#expected.refused.has(`${life}.${n}`)) this.#fault(`${where}: ${draft.id} was refused and is stored`);
    const source = `${life}.${connection}`;
    const before = queue.last.get(source) ?? -1;
    const number = n * 64 + member;
    if (number <= before) this.#fault(`${where}: ${draft.id} lies behind a later message of its connection`);
    queue.last.set(source, number);
    const place = this.#expected.acknowledged.get(draft.id);
    if (place === undefined) return;
    if (place.queueOffset !== queueOffset || place.physicalOffset !== physicalOffset) {
      this.#fault(`${where}: ${draft.id} was acknowledged for offset ${place.queueOffset} at ${place.physicalOffset}`);
    }
  }

  #complete(): void {
    for (const [id, place] of this.#expected.acknowledged) {
      if (this.#seen.has(id)) continue;
      const queue = this.#queues.find(({ topic, queueId }) => topic === place.topic && queueId === place.queueId)!;
      this.#fault(
        `${id} was acknowledged for ${nameOf(queue)} offset ${place.queueOffset} at ${place.physicalOffset} and is missing ` +
          `(the queue ends at ${queue.next})`,
      );
    }
  }

  /** Some acknowledged messages are looked for by their keys. */
  async #keys(): Promise<void> {
    const ids = [...this.#expected.acknowledged.keys()];
    const step = Math.max(1, Math.floor(ids.length / KEYS_ASKED));
    for (let i = 0; i < ids.length; i += step) {
      // From the end: what came last is what a restart could lack.
      const id = ids[ids.length - 1 - i]!;
      const { topic, physicalOffset } = this.#expected.acknowledged.get(id)!;
      const [life, n, member] = id.split('.').map(Number);
      const { properties } = this.#draftOf(life!, n!).members[member!]!;
      for (const [key, indexType] of [
        [properties.get('UNIQ_KEY'), 'U'],
        [properties.get('KEYS')?.split(' ')[0], 'K'],
      ] as const) {
        if (key === undefined) continue;
        const response = await this.#call(RequestCode.QUERY_MESSAGE, {
          topic,
          key,
          maxNum: 32,
          beginTimestamp: 0,
          endTimestamp: Number.MAX_SAFE_INTEGER,
          indexType,
          _UNIQUE_KEY_QUERY: indexType === 'U',
        });
        const places = decodeMessages(response.body).map((message) => message.physicalOffset);
        if (places.filter((place) => place === physicalOffset).length !== 1) {
          this.#fault(
            `the key ${key} of ${topic} finds [${places.join()}] (answer ${response.code}), not ${physicalOffset}`,
          );
        }
      }
    }
  }

  /** A consumer's progress is one that was sent, or older; never beyond the queue. */
  async #progress(): Promise<void> {
    for (const { topic, queueId, next } of this.#queues) {
      const sent = this.#expected.progress.get(`${topic}/${queueId}`) ?? 0;
      const fields = { consumerGroup: GROUP, topic, queueId, setZeroIfNotFound: false };
      const response = await this.#call(RequestCode.QUERY_CONSUMER_OFFSET, fields);
      if (response.code === ResponseCode.QUERY_NOT_FOUND) continue;
      const offset = Number(response.ext['offset'] ?? -1);
      if (response.code !== ResponseCode.SUCCESS || offset < 0 || offset > sent || offset > next) {
        this.#fault(
          `the progress of ${GROUP} in ${topic}/${queueId} is ${offset} (answer ${response.code}); ${sent} was sent, the queue ends at ${next}`,
        );
      }
    }
  }

  #draftOf(life: number, n: number): Draft {
    const key = `${life}.${n}`;
    if (this.#draft?.key !== key) this.#draft = { key, draft: draftOf(this.#expected.seed, life, n) };
    return this.#draft.draft;
  }

  async #call(code: number, fields: ExtFields): Promise<RemotingResponse> {
    return await this.#client.invoke(this.#addr, code, fields, null, CALL_MS);
  }

  async #number(code: number, fields: ExtFields, name: string): Promise<number> {
    const response = await this.#call(code, fields);
    if (response.code === ResponseCode.SUCCESS) return Number(response.ext[name]);
    throw new CrashError(`request ${code} ${JSON.stringify(fields)} is answered ${response.code} ${response.remark}`);
  }

  #fault(text: string): void {
    this.#faults.push(text);
  }

  #judge(): void {
    const faults = this.#faults;
    if (faults.length === 0) return;
    const more = faults.length > FAULTS_TOLD ? `\nand ${faults.length - FAULTS_TOLD} more` : '';
    throw new CrashError(faults.slice(0, FAULTS_TOLD).join('\n') + more);
  }
}

function nameOf({ topic, queueId }: Queue): string {
  return `${topic}/${queueId}`;
}
