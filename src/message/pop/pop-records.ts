// What the records of the revive topic hold: check points, which say what a pop has handed out, and acknowledgements. JSON as fastjson2
// writes it: names in the order of the alphabet, what is null left out. RocketMQ: PopCheckPoint, AckMsg, BatchAckMsg, and the ids of
// PopMessageProcessor. docs/formats/pop.md

import { wholeNumber, wholeNumbers } from './java-numbers.ts';

/** What one pop has taken from one queue. */
export interface PopCheckPoint {
  /** Where the pop began to read. */
  startOffset: number;
  popTime: number;
  invisibleTimeMs: number;
  /** RocketMQ: never set in what is stored. */
  bitMap: number;
  /** Messages, 32 at most. */
  num: number;
  queueId: number;
  /** The topic that they lie in, which may be a retry topic. */
  topic: string;
  group: string;
  /** RocketMQ: 0 in what is stored; the reader sets it. */
  reviveOffset: number;
  /** Offset of each message, less `startOffset`; empty: they lie side by side. */
  offsetDiffs: number[];
  brokerName: string | undefined;
  /** How often the check point was stored again. */
  rePutTimes: string | undefined;
  /** Its messages come back without counting as tried once more. */
  suspend: boolean;
}

/** One acknowledged message. */
export interface AckMsg {
  /** -1 in the batches that clients send. */
  ackOffset: number;
  /** With the fields below, the name of the check point. */
  startOffset: number;
  group: string;
  topic: string;
  queueId: number;
  popTime: number;
  brokerName: string | undefined;
}

/** Several of one check point. */
export interface BatchAckMsg extends AckMsg {
  ackOffsets: number[];
}

/** When the messages come back, ms since the epoch. */
export function reviveTimeOf(ck: PopCheckPoint): number {
  return ck.popTime + ck.invisibleTimeMs;
}

/** Place of an offset among the messages of a check point; -1 if it is none of them. RocketMQ: indexOfAck. */
export function indexOfAck(ck: PopCheckPoint, ackOffset: number): number {
  const diff = ackOffset - ck.startOffset;
  if (diff < 0) return -1;
  if (ck.offsetDiffs.length === 0) return diff < ck.num ? diff : -1;
  return ck.offsetDiffs.indexOf(diff);
}

/** Queue offset of the message at `index`. RocketMQ: ackOffsetByIndex. */
export function offsetByIndex(ck: PopCheckPoint, index: number): number {
  return ck.startOffset + (ck.offsetDiffs.length === 0 ? index : ck.offsetDiffs[index]!);
}

/** RocketMQ: parseRePutTimes. */
export function rePutTimesOf(ck: PopCheckPoint): number {
  if (ck.rePutTimes === undefined) return 0;
  return /^[+-]?\d{1,9}$/.test(ck.rePutTimes) ? Number(ck.rePutTimes) : 127;
}

// --- Ids (UNIQ_KEY)

export function ckUniqueId(ck: PopCheckPoint): string {
  return `${ck.topic}@${ck.queueId}@${ck.startOffset}@${ck.group}@${ck.popTime}@${ck.brokerName}@ck`;
}

/** Of a single acknowledgement, and of a batch that a client has sent. */
export function ackUniqueId(ack: AckMsg): string {
  return `${ack.topic}@${ack.queueId}@${ack.ackOffset}@${ack.group}@${ack.popTime}@${ack.brokerName}@ack`;
}

/** Of a batch from the merge buffer. */
export function batchAckUniqueId(ack: BatchAckMsg): string {
  return `${ack.topic}@${ack.queueId}@[${ack.ackOffsets.join(', ')}]@${ack.group}@${ack.popTime}@bAck`;
}

/**
 * What a check point and its acknowledgements have in common. RocketMQ: mergeKey, without anything between the parts, so that the pops of
 * different groups may be taken for one.
 */
export function mergeKey(of: PopCheckPoint | AckMsg): string {
  return `${of.topic}@${of.group}@${of.queueId}@${of.startOffset}@${of.popTime}@${of.brokerName}`;
}

// --- JSON

/** Names of topics, groups and brokers mostly stand in JSON as they are. */
const PLAIN = /^[\w%|+.-]*$/;
const text = (value: string): string => (PLAIN.test(value) ? `"${value}"` : JSON.stringify(value));
const nameField = (brokerName: string | undefined): string =>
  brokerName === undefined ? '' : `"bn":${text(brokerName)},`;

export function encodeCheckPoint(ck: PopCheckPoint): string {
  const { bitMap, brokerName, group, offsetDiffs, invisibleTimeMs, num, popTime, queueId } = ck;
  const diffs = offsetDiffs.length === 0 ? '' : `"d":[${offsetDiffs.join(',')}],`;
  const rePut = ck.rePutTimes === undefined ? '' : `"rp":${text(ck.rePutTimes)},`;
  return (
    `{"bm":${bitMap},${nameField(brokerName)}"c":${text(group)},${diffs}"it":${invisibleTimeMs},"n":${num},"pt":${popTime},` +
    `"q":${queueId},"reviveTime":${reviveTimeOf(ck)},"ro":${ck.reviveOffset},${rePut}"so":${ck.startOffset},"sp":${ck.suspend},"t":${text(ck.topic)}}`
  );
}

export function encodeAckMsg(ack: AckMsg): string {
  return `{"ao":${ack.ackOffset},${tailOfAck(ack)}`;
}

export function encodeBatchAckMsg(ack: BatchAckMsg): string {
  return `{"ao":${ack.ackOffset},"aol":[${ack.ackOffsets.join(',')}],${tailOfAck(ack)}`;
}

function tailOfAck({ brokerName, group, popTime, queueId, startOffset, topic }: AckMsg): string {
  return `${nameField(brokerName)}"c":${text(group)},"pt":${popTime},"q":${queueId},"so":${startOffset},"t":${text(topic)}}`;
}

function parseObject(json: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

const isText = (value: unknown): value is string => typeof value === 'string';
const optionalText = (value: unknown): string | undefined => (isText(value) ? value : undefined);

/** undefined: it is none. */
export function decodeCheckPoint(json: string): PopCheckPoint | undefined {
  const fields = parseObject(json);
  if (fields === undefined) return undefined;
  const { bm, bn, c, d, it, n, pt, q, ro, so, sp, t, rp } = fields;
  const offsetDiffs = wholeNumbers(d);
  const numbers = [so, pt, it, bm, n, q, ro].map((value) => wholeNumber(value, 0));
  if (offsetDiffs === undefined || numbers.includes(undefined) || !isText(t) || !isText(c)) return undefined;
  const [startOffset, popTime, invisibleTimeMs, bitMap, num, queueId, reviveOffset] = numbers as number[];
  return {
    startOffset: startOffset!,
    popTime: popTime!,
    invisibleTimeMs: invisibleTimeMs!,
    bitMap: bitMap!,
    num: num!,
    queueId: queueId!,
    topic: t,
    group: c,
    reviveOffset: reviveOffset!,
    offsetDiffs,
    brokerName: optionalText(bn),
    rePutTimes: typeof rp === 'number' ? String(rp) : optionalText(rp),
    suspend: sp === true,
  };
}

/** Reads the long names of early versions, too. undefined: it is none. */
export function decodeAckMsg(json: string): AckMsg | undefined {
  const fields = parseObject(json);
  return fields === undefined ? undefined : ackOf(fields);
}

/** undefined: it is none. */
export function decodeBatchAckMsg(json: string): BatchAckMsg | undefined {
  const fields = parseObject(json);
  const ack = fields === undefined ? undefined : ackOf(fields);
  const ackOffsets = wholeNumbers(fields?.['aol'] ?? fields?.['ackOffsetList']);
  return ack === undefined || ackOffsets === undefined ? undefined : { ...ack, ackOffsets };
}

function ackOf(fields: Record<string, unknown>): AckMsg | undefined {
  const of = (short: string, long: string): unknown => fields[short] ?? fields[long];
  const topic = of('t', 'topic');
  const group = of('c', 'consumerGroup');
  const ackOffset = wholeNumber(of('ao', 'ackOffset'), 0);
  const startOffset = wholeNumber(of('so', 'startOffset'), 0);
  const queueId = wholeNumber(of('q', 'queueId'), 0);
  const popTime = wholeNumber(of('pt', 'popTime'), 0);
  if (!isText(topic) || !isText(group)) return undefined;
  if (ackOffset === undefined || startOffset === undefined || queueId === undefined || popTime === undefined) {
    return undefined;
  }
  return { ackOffset, startOffset, group, topic, queueId, popTime, brokerName: optionalText(of('bn', 'brokerName')) };
}
