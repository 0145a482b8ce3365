// A whole message as an object, for clients, tools and the broker's slower paths. The hot paths never make one.

import { copyBytes, viewOf } from '../common/index.ts';
import { createOffsetMessageId, hostText } from './message-id.ts';
import { parsePropertyBytes } from './properties.ts';
import { PropertyName } from './property-names.ts';
import { RecordOutcome, RecordView, readRecord, Verify } from './record-reader.ts';

/** A stored message. RocketMQ: MessageExt. */
export interface StoredMessage {
  topic: string;
  queueId: number;
  queueOffset: number;
  physicalOffset: number;
  /** Bytes of the record. */
  storeSize: number;
  flag: number;
  sysFlag: number;
  bodyCrc: number;
  bornTimestamp: number;
  /** `ip:port`. */
  bornHost: string;
  storeTimestamp: number;
  storeHost: string;
  reconsumeTimes: number;
  preparedTransactionOffset: number;
  properties: Map<string, string>;
  /** As stored: still compressed if the sysFlag says so. */
  body: Uint8Array;
  /** Hex of store host and physical offset. */
  offsetMessageId: string;
  /** UNIQ_KEY if there is one, else the offset message id. */
  messageId: string;
}

/** The message that `view` describes; copies what it needs out of `bytes`. */
export function toMessage(bytes: Uint8Array, view: RecordView): StoredMessage {
  const storeHost = copyBytes(bytes, view.storeHostStart, view.storeHostEnd);
  const properties = parsePropertyBytes(bytes, view.propertiesStart, view.propertiesEnd);
  const offsetMessageId = createOffsetMessageId(storeHost, view.physicalOffset);
  return {
    topic: Buffer.from(bytes.buffer, bytes.byteOffset + view.topicStart, view.topicEnd - view.topicStart).toString(
      'utf8',
    ),
    queueId: view.queueId,
    queueOffset: view.queueOffset,
    physicalOffset: view.physicalOffset,
    storeSize: view.totalSize,
    flag: view.flag,
    sysFlag: view.sysFlag,
    bodyCrc: view.bodyCrc,
    bornTimestamp: view.bornTimestamp,
    bornHost: hostText(copyBytes(bytes, view.bornHostStart, view.bornHostEnd)),
    storeTimestamp: view.storeTimestamp,
    storeHost: hostText(storeHost),
    reconsumeTimes: view.reconsumeTimes,
    preparedTransactionOffset: view.preparedTransactionOffset,
    properties,
    body: copyBytes(bytes, view.bodyStart, view.bodyEnd),
    offsetMessageId,
    messageId: properties.get(PropertyName.UNIQ_KEY) ?? offsetMessageId,
  };
}

/** Decodes whole records one behind the other (the body of a pull answer); stops at the first thing that is none. */
export function decodeMessages(bytes: Uint8Array): StoredMessage[] {
  const messages: StoredMessage[] = [];
  const dataView = viewOf(bytes);
  const view = new RecordView();
  let at = 0;
  while (readRecord(bytes, dataView, at, bytes.length, Verify.STRUCTURE, view) === RecordOutcome.RECORD) {
    messages.push(toMessage(bytes, view));
    at += view.totalSize;
  }
  return messages;
}
