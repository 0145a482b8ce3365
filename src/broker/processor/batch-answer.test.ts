import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createOffsetMessageId, hostField } from '../../message/index.ts';
import { FrameWriter, ResponseCode } from '../../remoting/index.ts';
import { PutResult } from '../../store/index.ts';
import { BatchAnswer } from './batch-answer.ts';

test("a batch's answer is what the general writer writes", () => {
  const host = hostField('192.168.0.1', 10_911);
  const answer = new BatchAnswer('Region "1"', true, host);
  fc.assert(
    fc.property(
      fc.integer({ min: -0x80000000, max: 0x7fffffff }),
      fc.array(fc.maxSafeNat(), { minLength: 1, maxLength: 300 }),
      fc.nat(100_000),
      fc.maxSafeNat(),
      fc.option(fc.string({ maxLength: 60 }), { nil: undefined }),
      (opaque, offsets, queueId, queueOffset, transactionId) => {
        const general = new FrameWriter();
        general.response(ResponseCode.SUCCESS, opaque, null, {
          MSG_REGION: 'Region "1"',
          TRACE_ON: true,
          msgId: offsets.map((offset) => createOffsetMessageId(host, offset)).join(','),
          queueId,
          queueOffset,
          transactionId,
        });
        const result = new PutResult();
        result.queueOffset = queueOffset;
        result.batchOffsets = offsets;
        const short = new FrameWriter();
        answer.write(short, opaque, queueId, result, transactionId);
        assert.deepEqual(short.take().bytes.toString('latin1'), general.take().bytes.toString('latin1'));
      },
    ),
  );
});
