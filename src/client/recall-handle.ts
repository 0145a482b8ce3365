// What the handle of a timer message says to who sent it.

import { GantryError } from '../common/index.ts';
import { decodeRecallHandle, encodeRecallHandle } from '../message/index.ts';

/** What a recall handle says. */
export interface RecallHandle {
  topic: string;
  brokerName: string;
  /** When the message is due as the broker reckons it: ms since the Unix epoch. */
  timestamp: number;
  /** The message's UNIQ_KEY. */
  msgId: string;
}

/** Reads a recall handle (`SendResult.recallHandle`). Stricter than a broker: nothing may stand behind the id. @throws GantryError MESSAGE */
export function parseRecallHandle(text: string): RecallHandle {
  const handle = decodeRecallHandle(text);
  const timestamp = Number(handle?.timestamp);
  const isWhole = handle !== undefined && unpadded(encodeRecallHandle(handle)) === unpadded(text);
  if (!isWhole || !handle.topic || !handle.brokerName || !handle.messageId || !Number.isSafeInteger(timestamp)) {
    throw new GantryError('MESSAGE', `"${text}" is no recall handle`);
  }
  const { topic, brokerName, messageId: msgId } = handle;
  return { topic, brokerName, timestamp, msgId };
}

function unpadded(text: string): string {
  return text.replace(/=+$/, '');
}
