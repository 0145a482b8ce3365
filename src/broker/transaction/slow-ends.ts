// Ends of transactions off the fast way: the half message is read from where it lies and becomes an object, and whatever is not in order with
// it is told. RocketMQ: EndTransactionProcessor.

import { decodeMessages, PropertyName, type StoredMessage, SysFlag } from '../../message/index.ts';
import { type Request, type Responder, ResponseCode } from '../../remoting/index.ts';
import { isStored, PutMessageStatus, putStatusName } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { putInternal } from '../internal-put.ts';
import { answerLater, NO_REMARK_SET } from '../processor/registry.ts';
import { lookUp } from '../processor/send-back.ts';
import { TRANS_HALF_TOPIC } from '../topic/topic-names.ts';
import { refusalOf } from './end-outcome.ts';
import { committed, type HalfOrigin, immunityOf, nameOf, originOf } from './half-message.ts';

/** Transactions that ended here, of those that an earlier life of this broker began. */
const MOST_KNOWN = 20_000;
/** Records that are looked at for a message that may have been stored already. */
const MOST_CANDIDATES = 32;
const NOT_FOUND = 'Find prepared transaction message failed';

/** What a request says, read before anything is waited for. */
export interface End {
  readonly group: string | undefined;
  readonly queueOffset: number;
  readonly commitLogOffset: number;
  readonly commit: boolean;
  readonly fromCheck: boolean;
}

export class SlowEnds {
  readonly #context: BrokerContext;
  /** What is not in the index yet, by `identityOf`. */
  readonly #known = new Set<string>();

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
      if (refusal !== undefined) {
        this.#refuse(responder, refusal.code, refusal.remark, end);
        return;
      }
      const doubtful = end.commit && this.#isDoubtful(half!);
      const isInIndex = doubtful && (await this.#isInIndex(half!));
      this.#settle(responder, half!, end, doubtful, isInIndex);
    });
  }

  /** Whether the message may have been stored without that being remembered: before this start, or for an elder of this copy. */
  #isDoubtful(half: StoredMessage): boolean {
    const { recovery } = this.#context.store;
    return half.physicalOffset < recovery.end || half.properties.has(PropertyName.TRANSACTION_CHECK_TIMES);
  }

  /** Whether the index knows of a message that a commit of this transaction has stored. */
  async #isInIndex(half: StoredMessage): Promise<boolean> {
    const { store } = this.#context;
    const topic = half.properties.get(PropertyName.REAL_TOPIC);
    if (topic === undefined) return false;
    const { records } = await store.queryMessage(
      topic,
      half.messageId,
      MOST_CANDIDATES,
      0,
      Number.MAX_SAFE_INTEGER,
      'U',
    );
    const identity = identityOf(half);
    return records.some((record) => {
      const [message] = decodeMessages(record);
      return message !== undefined && isCommitted(message) && identityOf(message) === identity;
    });
  }

  #know(half: StoredMessage): void {
    if (this.#known.size >= MOST_KNOWN) this.#known.delete(this.#known.values().next().value!);
    this.#known.add(identityOf(half));
  }

  #refusalOf(half: StoredMessage | undefined, end: End): { code: number; remark: string } | undefined {
    const { config, clock } = this.#context;
    if (half === undefined || half.topic !== TRANS_HALF_TOPIC) {
      return { code: ResponseCode.SYSTEM_ERROR, remark: NOT_FOUND };
    }
    const { transactionTimeOut } = config;
    const immunity = end.fromCheck ? undefined : immunityOf(half, transactionTimeOut);
    if (immunity !== undefined && clock.now() - half.bornTimestamp > Math.max(immunity, transactionTimeOut)) {
      return { code: ResponseCode.ILLEGAL_OPERATION, remark: NO_REMARK_SET };
    }
    const fault = faultOf(half, end);
    return fault === undefined ? undefined : { code: ResponseCode.SYSTEM_ERROR, remark: fault };
  }

  #settle(responder: Responder, half: StoredMessage, end: End, doubtful: boolean, isInIndex: boolean): void {
    const { transactions } = this.#context;
    // RocketMQ: stores a committed message once for each end that comes: the producer's own, late, and its answer to a check.
    if (transactions.queue(half.queueId).hasEnded(half.queueOffset)) {
      responder.respond(ResponseCode.SUCCESS, end.commit ? null : NO_REMARK_SET);
      return;
    }
    if (isInIndex || (doubtful && this.#known.has(identityOf(half)))) {
      // So that nobody is asked about this copy either.
      transactions.passOver(half.queueId, half.queueOffset);
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
      if (this.#commit(responder, half, origin) && doubtful) this.#know(half);
      return;
    }
    transactions.ended(half.queueId, half.queueOffset, origin.topic);
    responder.respond(ResponseCode.SUCCESS, NO_REMARK_SET);
  }

  /** False if it was refused. */
  #commit(responder: Responder, half: StoredMessage, origin: HalfOrigin): boolean {
    const { transactions, store, storeHost, schedule, stats, traffic, logger } = this.#context;
    const message = committed(half, origin, schedule.maxDelayLevel);
    const result = putInternal(store, message, storeHost, (status, _result, reason) => {
      if (isStored(status)) {
        responder.respond(ResponseCode.SUCCESS);
        return;
      }
      this.#known.delete(identityOf(half));
      logger.warn(`${nameOf(half)} is not committed: ${putStatusName(status)} ${reason}`);
      const { code, remark } = refusalOf(status, store.config.maxMessageSize);
      responder.respond(code, remark);
    });
    if (result.status !== PutMessageStatus.PUT_OK) return false;
    stats.stored(traffic.puts.of(origin.topic), result);
    const end = result.wroteOffset + result.wroteBytes;
    transactions.pending.addAlone(half.queueId, half.queueOffset, origin.topic, end);
    return true;
  }

  /** Most ends are one-way, so a refusal is told here, too. */
  #refuse(responder: Responder, code: number, remark: string, end: End): void {
    const what = end.commit ? 'commit' : 'rollback';
    const who = `group ${end.group}, ${responder.channel.remoteAddress}`;
    const why = code === ResponseCode.ILLEGAL_OPERATION ? 'its time is over' : remark;
    this.#context.logger.warn(`${what} of the half message at ${end.commitLogOffset} is refused: ${why} (${who})`);
    responder.respond(code, remark);
  }
}

/** What all copies of a half message and the message that its commit stores have in common. */
function identityOf(message: StoredMessage): string {
  return `${message.messageId} ${message.bornTimestamp} ${message.bornHost} ${message.bodyCrc}`;
}

function isCommitted({ sysFlag }: StoredMessage): boolean {
  return (sysFlag & SysFlag.TRANSACTION_MASK) === SysFlag.TRANSACTION_COMMIT;
}

/** RocketMQ: checkPrepareMessage. */
function faultOf(half: StoredMessage, end: End): string | undefined {
  if (half.properties.get(PropertyName.PGROUP) !== end.group) return 'The producer group wrong';
  if (half.queueOffset !== end.queueOffset) return 'The transaction state table offset wrong';
  if (half.physicalOffset !== end.commitLogOffset) return 'The commit log offset wrong';
  return undefined;
}
