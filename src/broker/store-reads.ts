// The store's reads as promises, for requests that are rare enough to afford one. Pulls take the callbacks.

import { MATCH_ALL } from '../filter/index.ts';
import { decodeMessages, type StoredMessage } from '../message/index.ts';
import { GetMessageStatus, GetResult, type MessageStore } from '../store/index.ts';

/** Does what may have to be fetched first, until it is done. Takes no time if nothing is to be fetched. */
export async function repeated(attempt: (ready: (error?: Error) => void) => boolean): Promise<void> {
  for (;;) {
    let told: ((error?: Error) => void) | undefined;
    const ready = new Promise<void>((resolve, reject) => {
      told = (error) => (error === undefined ? resolve() : reject(error));
    });
    if (attempt((error) => told!(error))) return;
    await ready;
  }
}

/** Chooses records as `MessageStore.select` does, whatever must be fetched first. Rejects if it cannot be. */
export async function selectLater(
  store: MessageStore,
  topic: string,
  queueId: number,
  offset: number,
  maxMessages: number,
  maxBytes: number,
): Promise<GetResult> {
  const result = new GetResult();
  const request = { topic, queueId, offset, maxMessages, maxBytes, filter: MATCH_ALL };
  await repeated((ready) => store.select(request, result, ready));
  return result;
}

/** Whether a queue's first message is recent enough to be in memory: a group without an offset begins at it. */
export async function isYoungQueue(store: MessageStore, topic: string, queueId: number): Promise<boolean> {
  const first = await selectLater(store, topic, queueId, 0, 1, 1);
  return first.status === GetMessageStatus.FOUND && !first.suggestPullingFromSlave;
}

/** Copies chosen records as `MessageStore.copyRecords` does, whatever must be fetched first. Rejects if they cannot be read. */
export async function copyLater(store: MessageStore, result: GetResult, target: Uint8Array): Promise<void> {
  await repeated((ready) => store.copyRecords(result, target, 0, ready));
}

/** The chosen messages, decoded. Rejects if their bytes cannot be read. */
export async function messagesOf(store: MessageStore, result: GetResult): Promise<StoredMessage[]> {
  if (result.status !== GetMessageStatus.FOUND) return [];
  const bytes = new Uint8Array(result.totalBytes);
  await copyLater(store, result, bytes);
  return decodeMessages(bytes.subarray(0, result.totalBytes));
}
