// The members of a record that holds a whole batch (topics of batch queues): messages of their own, with the places that the record takes.
// RocketMQ: MessageDecoder#decodeMessage for NEED_UNWRAP_FLAG.

import { GantryError, viewOf } from '../common/index.ts';
import { BatchMember, readBatchMember } from './batch.ts';
import { SysFlag } from './layout.ts';
import type { StoredMessage } from './message.ts';
import { parsePropertyBytes } from './properties.ts';
import { PropertyName } from './property-names.ts';

const INNER = SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH;

/** Whether a record holds a batch. */
export function isInnerBatch(message: StoredMessage): boolean {
  return (message.sysFlag & INNER) === INNER;
}

/** `body`: the record's, not compressed. @throws GantryError FRAME if it is no batch. */
export function innerMessages(batch: StoredMessage, body: Uint8Array): StoredMessage[] {
  const view = viewOf(body);
  const member = new BatchMember();
  const messages: StoredMessage[] = [];
  for (let at = 0; at < body.length; at = member.end) {
    const fault = readBatchMember(view, at, body.length, member);
    if (fault !== undefined) throw new GantryError('FRAME', fault);
    const properties = parsePropertyBytes(body, member.propertiesStart, member.propertiesEnd);
    messages.push({
      ...batch,
      queueOffset: batch.queueOffset + messages.length,
      flag: member.flag,
      sysFlag: batch.sysFlag & ~(INNER | SysFlag.COMPRESSED),
      properties,
      body: body.slice(member.bodyStart, member.bodyEnd),
      messageId: properties.get(PropertyName.UNIQ_KEY) ?? batch.offsetMessageId,
    });
  }
  return messages;
}
