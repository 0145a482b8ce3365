// END_TRANSACTION (37), mostly one-way: a producer says what became of a half message. RocketMQ: EndTransactionProcessor.

import { decodeOffsetMessageId, PropertyName, type StoredMessage, SysFlag } from '../../message/index.ts';
import { type Request, RequestCode, type Responder, ResponseCode } from '../../remoting/index.ts';
import { PutMessageStatus, PutResult, putStatusName } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { toPutRequest } from '../internal-put.ts';
import { answerLater, type HandlerRegistry } from '../processor/registry.ts';
import { lookUp } from '../processor/send-back.ts';
import { TRANS_HALF_TOPIC } from '../topic/topic-names.ts';
import { committed, immunityOf, nameOf, originOf } from './half-message.ts';

const NOT_FOUND = 'Find prepared transaction message failed';
const RESUME_FAILED = 'Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed.';
const RESUME_THROWN = 'Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC.';

/** What a request says, read before anything is waited for. */
interface End {
  readonly group: string;
  readonly queueOffset: number;
  readonly commitLogOffset: number;
  readonly commit: boolean;
  readonly fromCheck: boolean;
  readonly oneway: boolean;
}

export function registerTransactions(registry: HandlerRegistry, context: BrokerContext): void {
  registry.register(RequestCode.END_TRANSACTION, (request) => endTransaction(context, request));
  registry.register(RequestCode.RESUME_CHECK_HALF_MESSAGE, (request) => resumeCheck(context, request));
}

function endTransaction(context: BrokerContext, request: Request): void {
  const { header } = request;
  const outcome = header.int('commitOrRollback');
  const end: End = {
    group: header.required('producerGroup'),
    queueOffset: header.long('tranStateTableOffset'),
    commitLogOffset: header.long('commitLogOffset'),
    commit: outcome === SysFlag.TRANSACTION_COMMIT,
    fromCheck: header.bool('fromTransactionCheck', false),
    oneway: request.oneway,
  };
  header.required('msgId');
  if (outcome !== SysFlag.TRANSACTION_COMMIT && outcome !== SysFlag.TRANSACTION_ROLLBACK) {
    // RocketMQ: no answer at all. The producer is asked later.
    request.takeOver();
    request.channel.drop(1);
    return;
  }
  answerLater(request, async (responder) => {
    const half = await lookUp(context, end.commitLogOffset);
    if (half === undefined || half.topic !== TRANS_HALF_TOPIC) {
      refuse(context, responder, ResponseCode.SYSTEM_ERROR, NOT_FOUND, end);
      return;
    }
    const { transactionTimeOut } = context.config;
    const immunity = end.fromCheck ? undefined : immunityOf(half, transactionTimeOut);
    if (immunity !== undefined && context.clock.now() - half.bornTimestamp > Math.max(immunity, transactionTimeOut)) {
      refuse(context, responder, ResponseCode.ILLEGAL_OPERATION, null, end);
      return;
    }
    const fault = faultOf(half, end);
    if (fault !== undefined) {
      refuse(context, responder, ResponseCode.SYSTEM_ERROR, fault, end);
      return;
    }
    settle(context, responder, half, end);
  });
}

/** RocketMQ: checkPrepareMessage. */
function faultOf(half: StoredMessage, end: End): string | undefined {
  if (half.properties.get(PropertyName.PGROUP) !== end.group) return 'The producer group wrong';
  if (half.queueOffset !== end.queueOffset) return 'The transaction state table offset wrong';
  if (half.physicalOffset !== end.commitLogOffset) return 'The commit log offset wrong';
  return undefined;
}

function settle(context: BrokerContext, responder: Responder, half: StoredMessage, end: End): void {
  const { transactions, store, storeHost, schedule, stats, logger } = context;
  const queue = transactions.queue(half.queueId);
  // RocketMQ: stores a committed message once for each end that comes: the producer's own, late, and its answer to a check.
  if (queue.hasEnded(half.queueOffset)) {
    responder.respond(ResponseCode.SUCCESS);
    return;
  }
  const origin = originOf(half);
  if (origin === undefined) {
    refuse(context, responder, ResponseCode.SYSTEM_ERROR, `${NOT_FOUND} (it does not tell its topic)`, end);
    return;
  }
  if (!transactions.ops.hasRoom(half.queueId)) {
    refuse(context, responder, ResponseCode.SYSTEM_ERROR, 'the end of the transaction cannot be noted', end);
    return;
  }
  if (!end.commit) {
    transactions.ended(half);
    transactions.metrics.add(origin.topic, -1);
    responder.respond(ResponseCode.SUCCESS);
    return;
  }
  const result = new PutResult();
  store.put(toPutRequest(committed(half, origin, schedule.maxDelayLevel), storeHost), result);
  const refuseWith = (status: PutMessageStatus, reason: string): void => {
    logger.warn(`${nameOf(half)} is not committed: ${putStatusName(status)} ${reason}`);
    const { code, remark } = refusalOf(status, store.config.maxMessageSize);
    responder.respond(code, remark);
  };
  if (result.status !== PutMessageStatus.PUT_OK) {
    refuseWith(result.status, result.reason);
    return;
  }
  stats.putMessages++;
  stats.putBytes += result.wroteBytes;
  // The record of its end comes behind it in the log: where one is lost, so is the other, and the half message is open again.
  transactions.ended(half);
  transactions.metrics.add(origin.topic, -1);
  if (end.oneway) return;
  store.whenDurable(result.wroteOffset + result.wroteBytes, false, (status, reason) => {
    if (isStored(status)) responder.respond(ResponseCode.SUCCESS);
    else refuseWith(status, reason);
  });
}

function isStored(status: PutMessageStatus): boolean {
  return (
    status === PutMessageStatus.PUT_OK ||
    status === PutMessageStatus.FLUSH_DISK_TIMEOUT ||
    status === PutMessageStatus.FLUSH_SLAVE_TIMEOUT ||
    status === PutMessageStatus.SLAVE_NOT_AVAILABLE
  );
}

/** RocketMQ: sendFinalMessage. */
function refusalOf(status: PutMessageStatus, maxMessageSize: number): { code: number; remark: string } {
  switch (status) {
    case PutMessageStatus.CREATE_MAPPED_FILE_FAILED:
      return { code: ResponseCode.SYSTEM_ERROR, remark: 'Create mapped file failed.' };
    case PutMessageStatus.MESSAGE_ILLEGAL:
    case PutMessageStatus.PROPERTIES_SIZE_EXCEEDED:
      return {
        code: ResponseCode.MESSAGE_ILLEGAL,
        remark:
          'The message is illegal, maybe msg body or properties length not matched. ' +
          `msg body length limit ${maxMessageSize}B, msg properties length limit 32KB.`,
      };
    case PutMessageStatus.SERVICE_NOT_AVAILABLE:
      return { code: ResponseCode.SERVICE_NOT_AVAILABLE, remark: 'Service not available now.' };
    case PutMessageStatus.OS_PAGE_CACHE_BUSY:
      return { code: ResponseCode.SYSTEM_ERROR, remark: 'OS page cache busy, please try another machine' };
    case PutMessageStatus.UNKNOWN_ERROR:
      return { code: ResponseCode.SYSTEM_ERROR, remark: 'UNKNOWN_ERROR' };
    default:
      return { code: ResponseCode.SYSTEM_ERROR, remark: 'UNKNOWN_ERROR DEFAULT' };
  }
}

/** Most ends are one-way, so a refusal is told here, too. */
function refuse(context: BrokerContext, responder: Responder, code: number, remark: string | null, end: End): void {
  const what = end.commit ? 'commit' : 'rollback';
  const who = `group ${end.group}, ${responder.channel.remoteAddress}`;
  context.logger.warn(
    `${what} of the half message at ${end.commitLogOffset} is refused: ${remark ?? 'its time is over'} (${who})`,
  );
  responder.respond(code, remark);
}

/** RESUME_CHECK_HALF_MESSAGE (323): an operator wants a half message, or a parked one, to be asked about anew. */
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
