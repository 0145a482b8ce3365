// What the sender of a timer message is given to cancel it with: base64url of `v1 TOPIC BROKER TIME UNIQ_KEY`, where TIME lies 1 ms behind
// the start of the slot. RocketMQ: RecallMessageHandle.

import { PropertyName } from './property-names.ts';

export interface RecallHandle {
  readonly topic: string;
  readonly brokerName: string;
  /** Text as it was given. */
  readonly timestamp: string;
  readonly messageId: string;
}

export function encodeRecallHandle({ topic, brokerName, timestamp, messageId }: RecallHandle): string {
  const text = Buffer.from(['v1', topic, brokerName, timestamp, messageId].join(' '), 'utf8').toString('base64url');
  return text + '='.repeat((4 - (text.length % 4)) % 4);
}

/** undefined if it is none. */
export function decodeRecallHandle(text: string): RecallHandle | undefined {
  if (!/^[\w-]+={0,2}$/.test(text)) return undefined;
  const items = Buffer.from(text, 'base64url').toString('utf8').split(' ');
  if (items[0] !== 'v1' || items.length < 5) return undefined;
  // A broker's name may hold spaces.
  const time = items.length > 5 && /^\d+$/.test(items.at(-2)!) ? items.length - 2 : 3;
  const brokerName = items.slice(2, time).join(' ');
  return { topic: items[1]!, brokerName, timestamp: items[time]!, messageId: items[time + 1]! };
}

/** The handle of a message that went to the timer's topic; undefined if it did not, or waits for a retry. */
export function recallHandleOf(properties: ReadonlyMap<string, string>, brokerName: string): string | undefined {
  const out = properties.get(PropertyName.TIMER_OUT_MS);
  const topic = properties.get(PropertyName.REAL_TOPIC);
  if (out === undefined || topic === undefined || topic.startsWith('%RETRY%') || !/^\d{1,15}$/.test(out))
    return undefined;
  const messageId = properties.get(PropertyName.UNIQ_KEY) ?? '';
  return encodeRecallHandle({ topic, brokerName, timestamp: String(Number(out) + 1), messageId });
}
