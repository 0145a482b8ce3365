// What the selections of all kinds of queues share.

import { type GantryError, queueOffset } from '../../common/index.ts';
import type { Ready } from '../segment/index.ts';
import type { MessageStoreConfig } from '../store-config.ts';
import type { GetMessageStatus, GetResult } from './get.ts';

/** For a read that gives up where it would have to wait: what it has is an answer. */
export const NOBODY_WAITS: Ready = () => {};

/** A unit that claims more than maxMessageSize and so much is looked at before memory is taken for it. */
export const LARGEST_SLACK: number = 128 * 1024;

/** RocketMQ: isTheBatchFull, for a record of `messages` messages. The first record always goes, whatever its size. */
export function isFull(
  config: MessageStoreConfig,
  result: GetResult,
  size: number,
  messages: number,
  maxMessages: number,
  maxBytes: number,
  inMemory: boolean,
): boolean {
  if (result.count === 0) return false;
  const have = result.count + result.batched;
  if (have + messages > maxMessages) return true;
  const bytes = result.totalBytes + size;
  if (bytes > maxBytes) return true;
  return inMemory
    ? bytes > config.maxTransferBytesOnMessageInMemory || have >= config.maxTransferCountOnMessageInMemory
    : bytes > config.maxTransferBytesOnMessageInDisk || have >= config.maxTransferCountOnMessageInDisk;
}

export function answer(result: GetResult, status: GetMessageStatus, next: number): true {
  result.status = status;
  result.nextBeginOffset = queueOffset(next);
  return true;
}

/** Runs a step that may have to wait: true if it is done, false when it can be repeated. @throws the error that prevents it. */
export function settled(step: (ready: Ready) => boolean): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const done = step((error?: GantryError) => (error === undefined ? resolve(false) : reject(error)));
    if (done) resolve(true);
  });
}
