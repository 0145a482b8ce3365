// Pieces that several tests of the client share.

import type { StoredMessage } from '../message/index.ts';

/** A stored message with the given fields and plain values in all others. */
export function storedMessage(fields: Partial<StoredMessage> = {}): StoredMessage {
  return {
    topic: 'T',
    queueId: 0,
    queueOffset: 0,
    physicalOffset: 0,
    storeSize: 100,
    flag: 0,
    sysFlag: 0,
    bodyCrc: 0,
    bornTimestamp: 0,
    bornHost: '127.0.0.1:1',
    storeTimestamp: 0,
    storeHost: '127.0.0.1:10911',
    reconsumeTimes: 0,
    preparedTransactionOffset: 0,
    properties: new Map(),
    body: Buffer.from('x'),
    offsetMessageId: '7F00000100002A9F0000000000000000',
    messageId: 'M',
    ...fields,
  };
}
