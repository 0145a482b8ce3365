// Ends of transactions off the fast way: the half message is read from where it lies and becomes an object, and whatever is not in order with
// it is told. RocketMQ: EndTransactionProcessor.

import { PropertyName, type StoredMessage } from '../../message/index.ts';
import { type Request, type Responder, ResponseCode } from '../../remoting/index.ts';
import { PutMessageStatus, PutResult, putStatusName } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { toPutRequest } from '../internal-put.ts';
import { answerLater } from '../processor/registry.ts';
import { lookUp } from '../processor/send-back.ts';
import { TRANS_HALF_TOPIC } from '../topic/topic-names.ts';
import { isStored, refusalOf } from './end-outcome.ts';
import { committed, type HalfOrigin, immunityOf, nameOf, originOf } from './half-message.ts';

const NOT_FOUND = 'Find prepared transaction message failed';

/** What a request says, read before anything is waited for. */
export interface End {
  readonly group: string | undefined;
  readonly queueOffset: number;
  readonly commitLogOffset: number;
  readonly commit: boolean;
  readonly fromCheck: boolean;
  readonly oneway: boolean;
}

export class SlowEnds {
  readonly #context: BrokerContext;

  constructor(context: BrokerContext) {
    this.#context = context;
  }

  /** The producer does not know yet, or says something that is no outcome. */
  notEnded(request: Request, outcome: number): void {
    if (outcome !== 0) {
      request.respond(ResponseCode.SYSTEM_ERROR, `commitOrRollback field wrong: ${outcome} is none of 0, 8 and 12`);
      return;
    }
    // RocketMQ: no answer at all. The producer is asked later.
    request.takeOver();
    request.channel.drop(1);
  }

  end(request: Request, end: End): void {
    answerLater(request, async (responder) => {
      const half = await lookUp(this.#context, end.commitLogOffset);
      const refusal = this.#refusalOf(half, end);
      if (refusal !== undefined) this.#refuse(responder, refusal.code, refusal.remark, end);
      else this.#settle(responder, half!, end);
    });
  }

  #refusalOf(half: StoredMessage | undefined, end: End): { code: number; remark: string | null } | undefined {
    const { config, clock } = this.#context;
    if (half === undefined || half.topic !== TRANS_HALF_TOPIC) {
      return { code: ResponseCode.SYSTEM_ERROR, remark: NOT_FOUND };
    }
    const { transactionTimeOut } = config;
    const immunity = end.fromCheck ? undefined : immunityOf(half, transactionTimeOut);
    if (immunity !== undefined && clock.now() - half.bornTimestamp > Math.max(immunity, transactionTimeOut)) {
      return { code: ResponseCode.ILLEGAL_OPERATION, remark: null };
    }
    const fault = faultOf(half, end);
    return fault === undefined ? undefined : { code: ResponseCode.SYSTEM_ERROR, remark: fault };
  }

  #settle(responder: Responder, half: StoredMessage, end: End): void {
    const { transactions } = this.#context;
    // RocketMQ: stores a committed message once for each end that comes: the producer's own, late, and its answer to a check.
    if (transactions.queue(half.queueId).hasEnded(half.queueOffset)) {
      responder.respond(ResponseCode.SUCCESS);
      return;
    }
    const origin = originOf(half);
    if (origin === undefined) {
      this.#refuse(responder, ResponseCode.SYSTEM_ERROR, `${NOT_FOUND} (it does not tell its topic)`, end);
      return;
    }
    if (!transactions.ops.hasRoom(half.queueId)) {
      this.#refuse(responder, ResponseCode.SYSTEM_ERROR, 'the end of the transaction cannot be noted', end);
      return;
    }
    if (end.commit) {
      this.#commit(responder, half, origin, end);
      return;
    }
    transactions.ended(half.queueId, half.queueOffset);
    transactions.metrics.add(origin.topic, -1);
    responder.respond(ResponseCode.SUCCESS);
  }

  #commit(responder: Responder, half: StoredMessage, origin: HalfOrigin, end: End): void {
    const { transactions, store, storeHost, schedule, stats, traffic, logger } = this.#context;
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
    const puts = traffic.puts.of(origin.topic);
    puts.messages++;
    puts.bytes += result.wroteBytes;
    puts.requests++;
    // The record of its end comes behind it in the log: where one is lost, so is the other, and the half message is open again.
    transactions.ended(half.queueId, half.queueOffset);
    transactions.metrics.add(origin.topic, -1);
    if (end.oneway) return;
    store.whenDurable(result.wroteOffset + result.wroteBytes, false, (status, reason) => {
      if (isStored(status)) responder.respond(ResponseCode.SUCCESS);
      else refuseWith(status, reason);
    });
  }

  /** Most ends are one-way, so a refusal is told here, too. */
  #refuse(responder: Responder, code: number, remark: string | null, end: End): void {
    const what = end.commit ? 'commit' : 'rollback';
    const who = `group ${end.group}, ${responder.channel.remoteAddress}`;
    this.#context.logger.warn(
      `${what} of the half message at ${end.commitLogOffset} is refused: ${remark ?? 'its time is over'} (${who})`,
    );
    responder.respond(code, remark);
  }
}

/** RocketMQ: checkPrepareMessage. */
function faultOf(half: StoredMessage, end: End): string | undefined {
  if (half.properties.get(PropertyName.PGROUP) !== end.group) return 'The producer group wrong';
  if (half.queueOffset !== end.queueOffset) return 'The transaction state table offset wrong';
  if (half.physicalOffset !== end.commitLogOffset) return 'The commit log offset wrong';
  return undefined;
}
