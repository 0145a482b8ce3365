import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createOffsetMessageId, hostField } from '../../message/index.ts';
import { FrameWriter, ResponseCode } from '../../remoting/index.ts';
import { SendAnswer } from './send-answer.ts';

test('the short way writes what the general writer writes', () => {
  const host = hostField('192.168.0.1', 10_911);
  const answer = new SendAnswer('Region "1"', true, host);
  fc.assert(
    fc.property(
      fc.integer({ min: -0x80000000, max: 0x7fffffff }),
      fc.maxSafeNat(),
      fc.nat(100_000),
      fc.maxSafeNat(),
      fc.string({ unit: 'binary-ascii', minLength: 1, maxLength: 60 }),
      (opaque, offset, queueId, queueOffset, id) => {
        const general = new FrameWriter();
        general.response(ResponseCode.SUCCESS, opaque, null, {
          MSG_REGION: 'Region "1"',
          TRACE_ON: true,
          msgId: createOffsetMessageId(host, offset),
          queueId,
          queueOffset,
          transactionId: id,
        });
        const bytes = Buffer.from(`--${id}--`);
        const short = new FrameWriter();
        const written = answer.write(short, opaque, offset, queueId, queueOffset, bytes, 2, bytes.length - 2);
        assert.equal(written, /^[ !#-[\]-~]*$/.test(id));
        if (!written) assert.equal(short.length, 0);
        else assert.deepEqual(short.take().bytes.toString('latin1'), general.take().bytes.toString('latin1'));
      },
    ),
  );
});
