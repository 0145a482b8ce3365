// The message that a producer is shown when it is asked: the half message as a record of its real topic. RocketMQ: MessageDecoder#encode.

import { viewOf } from '../../common/index.ts';
import { PropertyName, propertiesBytes, recordBytes, sysFlagWithHosts, writeRecord } from '../../message/index.ts';
import { type InternalMessage, toPutRequest } from '../internal-put.ts';

/** The body of CHECK_TRANSACTION_STATE for a half message that was stored at `place`. */
export function checkBody(
  half: InternalMessage,
  storeHost: Uint8Array,
  place: { wroteOffset: number; queueOffset: number; storeTimestamp: number },
): Uint8Array {
  const topic = half.properties.get(PropertyName.REAL_TOPIC) ?? half.topic;
  const queueId = Number(half.properties.get(PropertyName.REAL_QID) ?? half.queueId);
  const source = toPutRequest({ ...half, topic, queueId }, storeHost);
  const properties = propertiesBytes(source, false, false);
  const size = recordBytes(source, 1, properties);
  const bytes = new Uint8Array(size);
  const { queueOffset, wroteOffset, storeTimestamp } = place;
  const flags = sysFlagWithHosts(source);
  writeRecord(
    bytes,
    viewOf(bytes),
    0,
    source,
    flags,
    1,
    size,
    properties,
    false,
    queueOffset,
    wroteOffset,
    storeTimestamp,
  );
  return bytes;
}
