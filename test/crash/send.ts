// One request on the wire, and its answer. The sender and the probes after a restart share it.

import { decodeOffsetMessageId, encodeBatch } from '../../src/message/index.ts';
import { type Channel, type RemotingResponse, RequestCode, type ResponseCallback } from '../../src/remoting/index.ts';
import { type Draft, propertyText, QUEUES } from './messages.ts';

/** Sends a draft; `done` is called once, with the answer or an error. */
export function sendDraft(channel: Channel, draft: Draft, now: number, done: ResponseCallback): void {
  const first = draft.members[0]!;
  const fields = {
    a: 'PID_crash',
    b: draft.topic,
    c: 'TBW102',
    d: QUEUES,
    e: draft.queueId,
    f: 0,
    g: now,
    h: draft.batch ? 0 : first.flag,
    i: draft.batch ? `WAIT\u0001${first.properties.get('WAIT')}\u0002` : propertyText(first.properties),
    j: 0,
    k: false,
    m: draft.batch,
  };
  const body = draft.batch
    ? encodeBatch(
        draft.members.map((member) => ({
          flag: member.flag,
          body: member.body,
          properties: Buffer.from(propertyText(member.properties)),
        })),
      )
    : first.body;
  const code = draft.batch ? RequestCode.SEND_BATCH_MESSAGE : RequestCode.SEND_MESSAGE_V2;
  channel.request(code, fields, body, 30_000, done);
}

/** Where an acknowledged request lies: queue offset of its first message, physical offset of each. */
export function placesOf(response: RemotingResponse): { queueOffset: number; physicalOffsets: number[] } {
  const ids = (response.ext['msgId'] ?? '').split(',');
  return {
    queueOffset: Number(response.ext['queueOffset'] ?? -1),
    physicalOffsets: ids.map((id) => decodeOffsetMessageId(id).offset),
  };
}
