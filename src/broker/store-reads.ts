// The store's reads as promises, for requests that are rare enough to afford one. Pulls take the callbacks.

import { MATCH_ALL } from '../filter/index.ts';
import { decodeMessages, type StoredMessage } from '../message/index.ts';
import { GetMessageStatus, GetResult, type MessageStore } from '../store/index.ts';

/** Chooses records as `MessageStore.select` does, whatever must be fetched first. Rejects if it cannot be. */
export function selectLater(
  store: MessageStore,
  topic: string,
  queueId: number,
  offset: number,
  maxMessages: number,
  maxBytes: number,
): Promise<GetResult> {
  const result = new GetResult();
  return new Promise((resolve, reject) => {
    const attempt = (): void => {
      const got = store.select(
        { topic, queueId, offset, maxMessages, maxBytes, filter: MATCH_ALL },
        result,
        (error) => {
          if (error === undefined) attempt();
          else reject(error);
        },
      );
      if (got) resolve(result);
    };
    attempt();
  });
}

/** Whether a queue's first message is recent enough to be in memory: a group without an offset begins at it. */
export async function isYoungQueue(store: MessageStore, topic: string, queueId: number): Promise<boolean> {
  const first = await selectLater(store, topic, queueId, 0, 1, 1);
  return first.status === GetMessageStatus.FOUND && !first.suggestPullingFromSlave;
}

/** The chosen messages, decoded. Rejects if their bytes cannot be read. */
export function messagesOf(store: MessageStore, result: GetResult): Promise<StoredMessage[]> {
  if (result.status !== GetMessageStatus.FOUND) return Promise.resolve([]);
  const bytes = new Uint8Array(result.totalBytes);
  return new Promise((resolve, reject) => {
    const attempt = (): void => {
      const got = store.copyRecords(result, bytes, 0, (error) => {
        if (error === undefined) attempt();
        else reject(error);
      });
      if (got) resolve(decodeMessages(bytes.subarray(0, result.totalBytes)));
    };
    attempt();
  });
}
