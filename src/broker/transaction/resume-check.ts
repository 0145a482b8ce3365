// RESUME_CHECK_HALF_MESSAGE (323): an operator wants a half message, or a parked one, to be asked about anew. RocketMQ:
// AdminBrokerProcessor#resumeCheckHalfMessage.

import { decodeOffsetMessageId } from '../../message/index.ts';
import { type Request, RequestCode, ResponseCode } from '../../remoting/index.ts';
import { PutMessageStatus, putStatusName } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { answerLater, type HandlerRegistry } from '../processor/registry.ts';
import { lookUp } from '../processor/send-back.ts';

const RESUME_FAILED = 'Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed.';
const RESUME_THROWN = 'Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC.';

export function registerResumeCheck(registry: HandlerRegistry, context: BrokerContext): void {
  registry.register(RequestCode.RESUME_CHECK_HALF_MESSAGE, (request) => resumeCheck(context, request));
}

function resumeCheck(context: BrokerContext, request: Request): void {
  const id = request.header.required('msgId');
  let offset: number;
  try {
    ({ offset } = decodeOffsetMessageId(id));
  } catch {
    request.respond(ResponseCode.SYSTEM_ERROR, RESUME_THROWN);
    return;
  }
  answerLater(request, async (responder) => {
    const half = await lookUp(context, offset);
    if (half === undefined) {
      responder.respond(ResponseCode.SYSTEM_ERROR, RESUME_THROWN);
      return;
    }
    const resumed = context.transactions.resume(half, (status, reason) => {
      if (status === PutMessageStatus.PUT_OK) responder.respond(ResponseCode.SUCCESS);
      else responder.respond(ResponseCode.SYSTEM_ERROR, `${RESUME_FAILED} (${putStatusName(status)} ${reason})`);
    });
    if (!resumed) {
      responder.respond(ResponseCode.SYSTEM_ERROR, `${RESUME_FAILED} (it is no half message, or it has ended)`);
    }
  });
}
