// The handle by which a timer message can be recalled before it is delivered, as the broker writes it: base64url of
// "v1 TOPIC BROKER TIME ID", separated by blanks. RocketMQ: RecallMessageHandle.HandleV1.

import { GantryError } from '../common/index.ts';

/** What a recall handle says. */
export interface RecallHandle {
  topic: string;
  brokerName: string;
  /** When the message is due as the broker reckons it: ms since the Unix epoch. */
  timestamp: number;
  /** The message's UNIQ_KEY. */
  msgId: string;
}

/** Reads a recall handle (`SendResult.recallHandle`). @throws GantryError MESSAGE */
export function parseRecallHandle(handle: string): RecallHandle {
  const [version, topic, brokerName, time, msgId, more] = Buffer.from(handle, 'base64url').toString('utf8').split(' ');
  const timestamp = Number(time);
  if (version !== 'v1' || !topic || !brokerName || !msgId || more !== undefined || !Number.isSafeInteger(timestamp)) {
    throw new GantryError('MESSAGE', `"${handle}" is no recall handle`);
  }
  return { topic, brokerName, timestamp, msgId };
}
