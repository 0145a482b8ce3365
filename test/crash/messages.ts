// What the sender sends. A request is a function of (seed, life, number) and of nothing else, so that who verifies can make each
// message again and compare it, whether it was acknowledged or not. Topics are few at first and more with time: each comes into
// being by a send, in the middle of the load.

import { SeededRandom } from '../../src/common/index.ts';

/** The consumer group whose progress is sent. */
export const GROUP = 'crash-readers';
/** Queues of each topic. */
export const QUEUES = 4;
const MOST_TOPICS = 12;
/** Requests that one life may send: ids stay unambiguous. */
export const MOST_REQUESTS = 10_000_000;

const TAGS = ['', '', 'TagA', 'TagB', 'größer'];
const PATTERN = makePattern(128 * 1024);

/** One message of a request. */
export interface Member {
  /** `life.request.member`; the body begins with it. */
  id: string;
  flag: number;
  body: Buffer;
  properties: Map<string, string>;
}

/** One request. */
export interface Draft {
  topic: string;
  queueId: number;
  /** Sent as a batch, with the properties below in the header. */
  batch: boolean;
  members: Member[];
}

/** Names of all topics that a load may send to. */
export function topicNames(): string[] {
  return Array.from({ length: MOST_TOPICS }, (_, i) => `Crash-${i}`);
}

/** The request with number `n` of a life. */
export function draftOf(seed: number, life: number, n: number): Draft {
  const random = new SeededRandom(Math.imul(seed + life * 7919 + 1, 0x9e3779b1) ^ Math.imul(n + 1, 0x85ebca6b));
  const topics = Math.min(MOST_TOPICS, 2 + Math.floor(Math.log2(n + 1)));
  const topic = `Crash-${random.int(topics)}`;
  const queueId = random.int(QUEUES);
  const batch = random.int(100) < 15;
  const wait = random.int(10) > 0;
  const count = batch ? 2 + random.int(15) : 1;
  const members: Member[] = [];
  for (let i = 0; i < count; i++) {
    const id = `${life}.${n}.${i}`;
    members.push({
      id,
      flag: random.int(1000),
      body: body(random, id, batch),
      properties: properties(random, id, wait, batch),
    });
  }
  return { topic, queueId, batch, members };
}

/** Life, request and member of the id that a body begins with; undefined if it does not. */
export function idOf(body: Uint8Array): { life: number; n: number; member: number } | undefined {
  const head = Buffer.from(body.buffer, body.byteOffset, Math.min(body.length, 40)).toString('latin1');
  const match = /^#(\d+)\.(\d+)\.(\d+);/.exec(head);
  return match === null ? undefined : { life: Number(match[1]), n: Number(match[2]), member: Number(match[3]) };
}

/** Property text as a client sends it. */
export function propertyText(map: ReadonlyMap<string, string>): string {
  let text = '';
  for (const [name, value] of map) text += `${name}\u0001${value}\u0002`;
  return text;
}

function body(random: SeededRandom, id: string, small: boolean): Buffer {
  const kind = small ? 0 : random.int(1000);
  const size =
    kind < 800
      ? 24 + random.int(400)
      : kind < 960
        ? 400 + random.int(1600)
        : kind < 995
          ? 2000 + random.int(14_000)
          : 16_000 + random.int(44_000);
  const head = `#${id};`;
  const from = random.int(PATTERN.length - 60_000);
  const bytes = Buffer.from(PATTERN.subarray(from, from + Math.max(size, head.length)));
  bytes.write(head, 0, 'latin1');
  return bytes;
}

function properties(random: SeededRandom, id: string, wait: boolean, batch: boolean): Map<string, string> {
  const map = new Map<string, string>();
  const tag = TAGS[random.int(TAGS.length)]!;
  if (tag !== '') map.set('TAGS', tag);
  const keys = random.int(10);
  if (keys < 6) map.set('KEYS', keys < 3 ? `k${id}` : `k${id} order-${random.int(100)}`);
  if (batch || random.int(10) > 0) map.set('UNIQ_KEY', `U${id}`);
  map.set('WAIT', String(wait));
  if (random.int(20) === 0) map.set('note', 'a "quoted" \\ line\n of text');
  return map;
}

/** Bytes of all values: noise, with runs of zeros as a hole in a file would be. */
function makePattern(size: number): Buffer {
  const random = new SeededRandom(0x6d71);
  const bytes = Buffer.alloc(size);
  for (let i = 0; i < size; i++) bytes[i] = (i & 0x3fff) < 0x3800 ? random.int(256) : 0;
  return bytes;
}
