// How a send is answered off the fast way: with its place, or refused, in RocketMQ's words and behind them what was measured.

import { type ExtFields, type HeldInput, type Request, type Responder, ResponseCode } from '../../remoting/index.ts';
import { isStored, PutMessageStatus } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { timerRemark } from '../timer/timer-put.ts';
import { ackCode } from './send-acks.ts';

const NOT_STORED_REMARK =
  "service not available now. It may be caused by one of the following reasons: the broker's disk is full, messages are put to the slave, message store has been shut down, etc.";

/** Answers a send whose put has come to its end: with `place`, if it is stored. */
export function answerPut(
  context: BrokerContext,
  responder: Responder,
  status: PutMessageStatus,
  reason: string,
  place: () => ExtFields,
): void {
  const code = ackCode(status);
  if (isStored(status)) responder.respond(code, reason === '' ? null : reason, { ...common(context), ...place() });
  else refuse(context, responder, code, remarkOf(context, status, reason));
}

export function refuse(context: BrokerContext, responder: Responder, code: number, remark: string): void {
  responder.respond(code, remark, common(context));
}

/** What every answer to a send names. */
function common({ config }: BrokerContext): ExtFields {
  return { MSG_REGION: config.regionId, TRACE_ON: config.traceOn };
}

/**
 * Refuses a send that waited longer than it may for a store that still does not keep up; true if it did. RocketMQ: BrokerFastFailure,
 * which refuses what waited so long even if nothing is in its way any more (B29).
 */
export function isTooLate(context: BrokerContext, request: Request, held: HeldInput): boolean {
  const { config, store, stats } = context;
  const { waitTimeMillsInSendQueue: limit } = config;
  if (!config.brokerFastFailureEnable || held.heldMs < limit || !store.pressed) return false;
  stats.putFailed++;
  stats.putTooLate++;
  const remark =
    `[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: ${held.heldMs}ms, ` +
    `size of queue: ${held.heldConnections} (waitTimeMillsInSendQueue is ${limit} ms; ${store.pressedBy})`;
  refuse(context, request, ResponseCode.SYSTEM_BUSY, remark);
  return true;
}

/** Refuses a send with what the store said of its put. */
export function refuseStatus(context: BrokerContext, request: Request, status: PutMessageStatus, reason: string): void {
  context.stats.putFailed++;
  // RocketMQ: rejectRequest, asked before a send is decoded.
  if (context.store.remainTransientStoreBufferNumbs === 0) {
    const remark = `[REJECTREQUEST]system busy, start flow control for a while (${reason})`;
    return refuse(context, request, ResponseCode.SYSTEM_BUSY, remark);
  }
  refuse(context, request, ackCode(status), remarkOf(context, status, reason));
}

/** Java's remark, and behind it what was measured. */
function remarkOf(context: BrokerContext, status: PutMessageStatus, reason: string): string {
  switch (status) {
    case PutMessageStatus.MESSAGE_ILLEGAL:
    case PutMessageStatus.PROPERTIES_SIZE_EXCEEDED:
      return (
        'the message is illegal, maybe msg body or properties length not matched. ' +
        `msg body length limit ${context.store.config.maxMessageSize}B, msg properties length limit 32KB. (${reason})`
      );
    case PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL:
    case PutMessageStatus.WHEEL_TIMER_FLOW_CONTROL:
    case PutMessageStatus.WHEEL_TIMER_NOT_ENABLE:
      return `${timerRemark(context.config, status)} (${reason})`;
    case PutMessageStatus.SERVICE_NOT_AVAILABLE:
      return `${NOT_STORED_REMARK} (${reason})`;
    case PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED:
      return `[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]lmq consume queue num exceeded. (${reason})`;
    case PutMessageStatus.CREATE_MAPPED_FILE_FAILED:
      return `create mapped file failed, server is busy or broken. (${reason})`;
    case PutMessageStatus.OS_PAGE_CACHE_BUSY:
      return `[PC_SYNCHRONIZED]broker busy, start flow control for a while (${reason})`;
    default:
      return reason === '' ? 'UNKNOWN_ERROR' : `UNKNOWN_ERROR (${reason})`;
  }
}
