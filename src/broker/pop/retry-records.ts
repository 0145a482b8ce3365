// Messages of a retry topic as a pop hands them out: under the topic that was asked for, with the whole receipt handle in POP_CK, since their
// topic no longer says where they lie. RocketMQ: popMsgFromQueue, MessageDecoder#encode (V1, whatever the stored record is).
//
// One whose properties leave no room for the handle goes out as it is stored, in its retry topic: clients make the handle of its place and the
// answer's startOffsetInfo then, as of any message. RocketMQ: leaves it out of the answer, each time that it comes back.

import { copyBytes, viewOf } from '../../common/index.ts';
import {
  MAGIC_V1,
  MAX_PROPERTIES_BYTES,
  nameBytes,
  PropertyName,
  PropertyTable,
  RecordOutcome,
  RecordView,
  readRecord,
  Verify,
} from '../../message/index.ts';

export class RetryRecords {
  readonly #record = new RecordView();
  readonly #table = new PropertyTable();
  readonly #handle = nameBytes(PropertyName.POP_CK);
  readonly #crc = nameBytes(PropertyName.CRC32);

  /**
   * The records in `bytes[start, end)` anew; `handlePrefix` is their handle up to the queue (the last two numbers are each message's own). A
   * record that cannot be read is left out.
   */
  recode(bytes: Uint8Array, start: number, end: number, topic: string, handlePrefix: string): Uint8Array {
    const view = viewOf(bytes);
    const record = this.#record;
    const table = this.#table;
    const topicBytes = Buffer.from(topic, 'utf8');
    const parts: Uint8Array[] = [];
    for (let at = start; at < end; at += record.totalSize) {
      if (readRecord(bytes, view, at, end, Verify.STRUCTURE, record) !== RecordOutcome.RECORD) break;
      table.read(bytes, record.propertiesStart, record.propertiesEnd);
      const crc = table.find(this.#crc);
      if (crc >= 0) table.remove(crc);
      if (table.find(this.#handle) < 0) {
        const handle = `${handlePrefix} ${record.queueId} ${record.queueOffset}`;
        table.put(this.#handle, Buffer.from(handle, 'utf8'));
      }
      const propertyBytes = table.bytes();
      if (propertyBytes > MAX_PROPERTIES_BYTES) {
        parts.push(copyBytes(bytes, at, at + record.totalSize));
        continue;
      }
      const head = record.bodyEnd - at;
      const part = new Uint8Array(head + 1 + topicBytes.length + 2 + propertyBytes);
      const partView = viewOf(part);
      part.set(bytes.subarray(at, record.bodyEnd));
      partView.setInt32(0, part.length);
      partView.setInt32(4, MAGIC_V1);
      partView.setInt8(head, topicBytes.length);
      part.set(topicBytes, head + 1);
      partView.setInt16(head + 1 + topicBytes.length, propertyBytes);
      table.write(part, head + 1 + topicBytes.length + 2);
      parts.push(part);
    }
    return Buffer.concat(parts);
  }
}
