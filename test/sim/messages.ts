// The messages that the simulation sends: sizes, keys, tags and queues from the seed, no two alike.

import type { Random } from '../../src/common/index.ts';
import { encodeBatch, hostField } from '../../src/message/index.ts';
import { PutRequest } from '../../src/store/index.ts';
import type { Entry } from './model.ts';

export const QUEUES: ReadonlyArray<readonly [topic: string, queueId: number]> = [
  ['Orders', 0],
  ['Orders', 1],
  ['Payments', 0],
  ['%RETRY%audit', 0],
];

const TAGS = ['', '', 'TagA', 'TagB', 'refund'];
const KEYS = ['k1', 'k2', 'k3', 'k4', 'Aa', 'BB'];
const HOST = hostField('127.0.0.1', 10911);

export type Draft = Omit<Entry, 'queueOffset' | 'position' | 'size' | 'storeTimestamp' | 'propertyCrc'>;

/** A message without a place yet. */
export function draft(random: Random, id: number, topic: string, queueId: number, now: number): Draft {
  const kind = random.int(10);
  const size = kind < 6 ? random.int(120) : kind < 9 ? random.int(900) : random.int(4000);
  const body = Buffer.alloc(Math.max(size, 12));
  for (let i = 0; i < body.length; i++) body[i] = 33 + random.int(90);
  body.write(`#${id}.`);
  const plain = random.int(8) === 0;
  const uniqueKey = plain ? '' : `U${id}`;
  const keys = plain ? [] : KEYS.filter(() => random.int(6) === 0);
  const tags = plain ? '' : TAGS[random.int(TAGS.length)]!;
  let properties = uniqueKey === '' ? '' : `UNIQ_KEY\u0001${uniqueKey}\u0002`;
  if (keys.length > 0) properties += `KEYS\u0001${keys.join(' ')}\u0002`;
  if (tags !== '') properties += `TAGS\u0001${tags}\u0002`;
  return { id, topic, queueId, flag: random.int(1000), bornTimestamp: now, body, properties, uniqueKey, keys, tags };
}

/** As `draft`, with a body of several sectors: one that is torn inside can look whole from outside. */
export function longDraft(random: Random, id: number, topic: string, queueId: number, now: number): Draft {
  const body = Buffer.alloc(1500 + random.int(5000), 46);
  body.write(`#${id}.`);
  return { ...draft(random, id, topic, queueId, now), body };
}

/**
 * A message of the same size as all others made here: what lies behind a record that was cut then begins exactly where the record that takes
 * its place ends, which is how bytes that were not made dead come back.
 */
export function uniformDraft(random: Random, id: number, queueId: number, now: number): Draft {
  const body = Buffer.alloc(100);
  for (let i = 0; i < body.length; i++) body[i] = 33 + random.int(90);
  body.write(`#${id}.`);
  const uniqueKey = `U${String(id).padStart(6, '0')}`;
  const properties = `UNIQ_KEY\u0001${uniqueKey}\u0002`;
  const topic = QUEUES[0]![0];
  return { id, topic, queueId, flag: id, bornTimestamp: now, body, properties, uniqueKey, keys: [], tags: '' };
}

/** The request that sends one draft, or several as a batch (of one topic and queue). */
export function requestOf(drafts: readonly Draft[], wait: boolean): PutRequest {
  const first = drafts[0]!;
  const request = new PutRequest();
  request.topic = first.topic;
  request.topicBytes = Buffer.from(first.topic);
  request.queueId = first.queueId;
  request.bornTimestamp = first.bornTimestamp;
  request.bornHost = HOST;
  request.storeHost = HOST;
  request.waitStoreMsgOK = wait;
  if (drafts.length > 1) {
    request.batch = true;
    request.body = encodeBatch(
      drafts.map(({ flag, body, properties }) => ({ flag, body, properties: Buffer.from(properties) })),
    );
  } else {
    request.flag = first.flag;
    request.body = first.body;
    request.properties = Buffer.from(first.properties);
    request.propertiesEnd = request.properties.length;
  }
  request.bodyEnd = request.body.length;
  return request;
}
