// The body of BATCH_ACK_MESSAGE: acknowledgements by check point, their offsets as the bits of a Java BitSet in base64 (bit i is bit i % 8 of
// byte i / 8). RocketMQ: BatchAckMessageRequestBody, BatchAck, BitSetSerializerDeserializer.

import { wholeNumber } from './java-numbers.ts';

/** The acknowledged messages of one check point. */
export interface BatchAck {
  group: string;
  /** The topic that was popped from; `retryFlag` says in which one the messages lie. */
  topic: string;
  retryFlag: string;
  startOffset: number;
  queueId: number;
  reviveQueueId: number;
  popTime: number;
  invisibleTimeMs: number;
  /** Offsets less `startOffset`, ascending. */
  bits: number[];
}

export interface BatchAckBody {
  brokerName: string | undefined;
  acks: BatchAck[];
}

/** Bits of one set that are read, and messages that a body names, at most: far more than a check point has messages, or than a client can have popped at once. */
const MAX_BITS = 65_536;

export function encodeBatchAcks({ brokerName, acks }: BatchAckBody): string {
  const texts = acks.map((ack) => {
    const { group, topic, retryFlag, startOffset, queueId, reviveQueueId, popTime, invisibleTimeMs, bits } = ack;
    return (
      `{"b":"${encodeBits(bits)}","c":${JSON.stringify(group)},"it":${invisibleTimeMs},"pt":${popTime},"q":${queueId},` +
      `"r":${JSON.stringify(retryFlag)},"rq":${reviveQueueId},"so":${startOffset},"t":${JSON.stringify(topic)}}`
    );
  });
  const name = brokerName === undefined ? '' : `,"brokerName":${JSON.stringify(brokerName)}`;
  return `{"acks":[${texts.join(',')}]${name}}`;
}

/** Answers what is wrong with a body that cannot be read. An empty one, or one without acknowledgements, has none. */
export function decodeBatchAcks(json: string): BatchAckBody | string {
  if (json === '') return { brokerName: undefined, acks: [] };
  let body: unknown;
  try {
    body = JSON.parse(json);
  } catch (error) {
    return `the body is no JSON: ${(error as Error).message}`;
  }
  if (body === null) return { brokerName: undefined, acks: [] };
  if (typeof body !== 'object' || Array.isArray(body)) return 'the body is no JSON object';
  const { brokerName, acks } = body as Record<string, unknown>;
  const name = typeof brokerName === 'string' ? brokerName : undefined;
  if (acks === undefined || acks === null) return { brokerName: name, acks: [] };
  if (!Array.isArray(acks)) return 'acks is no list';
  const read: BatchAck[] = [];
  let messages = 0;
  for (const [index, fields] of acks.entries()) {
    const ack = readAck(fields as Record<string, unknown> | null);
    if (typeof ack === 'string') return `acks[${index}]: ${ack}`;
    messages += ack.bits.length;
    // A bit here is a number of several digits in the log.
    if (messages > MAX_BITS) return `acks[${index}]: more than ${MAX_BITS} acknowledged messages`;
    read.push(ack);
  }
  return { brokerName: name, acks: read };
}

function readAck(fields: Record<string, unknown> | null): BatchAck | string {
  if (typeof fields !== 'object' || fields === null) return 'an object is expected';
  const of = (short: string, long: string): unknown => fields[short] ?? fields[long];
  const text = (short: string, long: string): string | undefined => {
    const value = of(short, long);
    return typeof value === 'string' ? value : undefined;
  };
  const group = text('c', 'consumerGroup');
  const topic = text('t', 'topic');
  const retryFlag = text('r', 'retry');
  if (group === undefined || topic === undefined || retryFlag === undefined) return 'c, t and r are texts';
  const startOffset = wholeNumber(of('so', 'startOffset'), 0);
  const queueId = wholeNumber(of('q', 'queueId'), 0);
  const reviveQueueId = wholeNumber(of('rq', 'reviveQueueId'), 0);
  const popTime = wholeNumber(of('pt', 'popTime'), 0);
  const invisibleTimeMs = wholeNumber(of('it', 'invisibleTime'), 0);
  if (startOffset === undefined || queueId === undefined || reviveQueueId === undefined) {
    return 'so, q and rq are whole numbers';
  }
  if (popTime === undefined || invisibleTimeMs === undefined) return 'pt and it are whole numbers';
  const bits = decodeBits(text('b', 'bitSet') ?? '');
  return { group, topic, retryFlag, startOffset, queueId, reviveQueueId, popTime, invisibleTimeMs, bits };
}

/** A bit set in base64; `bits` are not negative. */
export function encodeBits(bits: readonly number[]): string {
  const bytes = new Uint8Array(bits.length === 0 ? 0 : Math.floor(Math.max(...bits) / 8) + 1);
  for (const bit of bits) bytes[bit >> 3]! |= 1 << (bit & 7);
  return Buffer.from(bytes).toString('base64');
}

/** The bits that are set, ascending; of a set that goes on for ever, the first 65,536. */
export function decodeBits(base64: string): number[] {
  const bytes = Buffer.from(base64.slice(0, MAX_BITS / 4), 'base64');
  const bits: number[] = [];
  const end = Math.min(bytes.length * 8, MAX_BITS);
  for (let bit = 0; bit < end; bit++) if (((bytes[bit >> 3]! >> (bit & 7)) & 1) === 1) bits.push(bit);
  return bits;
}
