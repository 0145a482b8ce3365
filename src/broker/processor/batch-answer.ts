// The answer to a stored batch. Its msgId names every record, 33 bytes each, and is most of the frame: it goes from digits to the frame
// without becoming a string. The bytes are what FrameWriter would write for the same fields (a test says so).

import { OffsetMessageIds } from '../../message/index.ts';
import { type FrameWriter, ResponseCode } from '../../remoting/index.ts';
import type { PutResult } from '../../store/index.ts';

export class BatchAnswer {
  /** The fields up to the ids. */
  readonly #head: Uint8Array;
  readonly #ids: OffsetMessageIds;

  constructor(regionId: string, traceOn: boolean, storeHost: Uint8Array) {
    this.#head = Buffer.from(`"MSG_REGION":${JSON.stringify(regionId)},"TRACE_ON":"${traceOn}"`);
    this.#ids = new OffsetMessageIds(storeHost);
  }

  /** Writes the frame; `transactionId` is the batch's own UNIQ_KEY, if it has one; `queueOffset` stands for the result's. */
  write(
    writer: FrameWriter,
    opaque: number,
    queueId: number,
    result: PutResult,
    transactionId: string | undefined,
    queueOffset: number = result.queueOffset,
  ): void {
    writer.begin(ResponseCode.SUCCESS, opaque);
    writer.fieldText(this.#head);
    writer.plainField('msgId', this.#ids.write(result.batchOffsets));
    writer.numberField('queueId', queueId);
    writer.numberField('queueOffset', queueOffset);
    if (transactionId !== undefined) writer.field('transactionId', transactionId);
    writer.endHeader();
    writer.endFrame();
  }
}
