// Sends messages that become visible only when the sender's own transaction has succeeded. RocketMQ: TransactionMQProducer.
//
//   half message -> broker keeps it aside -> local transaction -> END_TRANSACTION (37): commit, rollback, or not known yet
//   a half message without a verdict -> the broker asks any producer of the group (39) -> check -> END_TRANSACTION on that connection

import { errorText, GantryError } from '../common/index.ts';
import { decodeOffsetMessageId, PropertyName, SysFlag } from '../message/index.ts';
import { type Channel, type ExtFields, RequestCode } from '../remoting/index.ts';
import { isDelayed, keysText } from './message-encoder.ts';
import type { Message, ReceivedMessage, SendResult } from './message-types.ts';
import { Producer, type ProducerOptions, type SendOptions } from './producer.ts';
import { queueText } from './queues.ts';

/** The verdict on a transaction. UNKNOW (RocketMQ's spelling) leaves it open: the broker asks again later. */
export type LocalTransactionState = 'COMMIT_MESSAGE' | 'ROLLBACK_MESSAGE' | 'UNKNOW';

/** The half message as it was stored, for the local transaction to note its ids. */
export type HalfMessage = Message & { readonly msgId: string; readonly transactionId: string };

/** Runs the local transaction. A rejection counts as UNKNOW. */
export type LocalTransaction = (message: HalfMessage) => Promise<LocalTransactionState>;

/** Tells what became of a local transaction, perhaps one of another process or of an earlier run. A rejection counts as UNKNOW. */
export type TransactionChecker = (message: ReceivedMessage) => Promise<LocalTransactionState>;

/** Settings of a TransactionProducer. */
export interface TransactionProducerOptions extends ProducerOptions {
  /** Answers the broker's questions after transactions without a verdict. */
  check: TransactionChecker;
  /** Most checks at once; the broker asks again for those beyond. Default 2000. */
  checkRequestHoldMax?: number;
}

/** The result of a transaction. */
export interface TransactionSendResult extends SendResult {
  transactionId: string;
  state: LocalTransactionState;
  /** What the local transaction threw; the state is UNKNOW then. */
  error: unknown;
}

/** What a broker says about a transaction that it asks after (CHECK_TRANSACTION_STATE, 39). */
export interface TransactionCheckRequest {
  message: ReceivedMessage;
  /** The header of the request. */
  ext: Record<string, string>;
  /** The connection that it came on, and that the answer goes back on. */
  channel: Channel;
}

const VERDICT: Record<LocalTransactionState, number> = {
  COMMIT_MESSAGE: SysFlag.TRANSACTION_COMMIT,
  ROLLBACK_MESSAGE: SysFlag.TRANSACTION_ROLLBACK,
  UNKNOW: 0,
};

/**
 * A producer whose messages take part in a transaction of the application. All members of its group must be able to check each other's.
 *
 * @example
 * const producer = new TransactionProducer({
 *   namesrvAddr: '127.0.0.1:9876',
 *   group: 'PID_payments',
 *   check: async (message) => ((await isPaid(message.keys[0])) ? 'COMMIT_MESSAGE' : 'ROLLBACK_MESSAGE'),
 * });
 * await producer.start();
 * await producer.sendInTransaction({ topic: 'payments', body: 'paid', keys: 'order-17' }, async () => {
 *   await pay('order-17');
 *   return 'COMMIT_MESSAGE';
 * });
 */
export class TransactionProducer extends Producer {
  readonly #check: TransactionChecker;
  readonly #holdMax: number;
  #checking = 0;

  /** @throws GantryError CONFIG_VALUE */
  constructor(options: TransactionProducerOptions) {
    super(options);
    this.#check = options.check;
    this.#holdMax = options.checkRequestHoldMax ?? 2000;
    if (!(Number.isInteger(this.#holdMax) && this.#holdMax >= 1)) {
      throw new GantryError('CONFIG_VALUE', `checkRequestHoldMax is ${this.#holdMax}; it must be at least 1`);
    }
  }

  /** As Producer.start. @throws GantryError CLIENT_STATE, also when the instance has a transaction producer of this group already */
  override async start(): Promise<void> {
    const { transactionChecks } = this.client;
    if (transactionChecks.has(this.group)) {
      throw new GantryError('CLIENT_STATE', `this client instance has a transaction producer of ${this.group} already`);
    }
    transactionChecks.set(this.group, (request) => this.#answerCheck(request));
    try {
      await super.start();
    } catch (error) {
      transactionChecks.delete(this.group);
      throw error;
    }
  }

  override async close(): Promise<void> {
    const wasRunning = this.isRunning;
    await super.close();
    if (wasRunning) this.client.transactionChecks.delete(this.group);
  }

  /**
   * Sends a half message, runs the local transaction if it was stored as safely as asked, and tells the broker the verdict. If the verdict
   * does not arrive the broker will ask for it.
   * @throws as `send`, when the half message could not be stored; GantryError MESSAGE also for one that is delayed
   */
  async sendInTransaction(
    message: Message,
    execute: LocalTransaction,
    options: SendOptions = {},
  ): Promise<TransactionSendResult> {
    if (isDelayed(message)) throw new GantryError('MESSAGE', 'a message in a transaction cannot be delayed');
    const half = await this.sendAs(message, options, {
      properties: { [PropertyName.TRAN_MSG]: 'true', [PropertyName.PGROUP]: this.group },
      sysFlag: SysFlag.TRANSACTION_PREPARED,
    });
    const { msgId } = half;
    const transactionId = half.transactionId ?? msgId;
    // RocketMQ: a half message that a power cut may take is rolled back, and the local transaction is not run.
    let state: LocalTransactionState = half.status === 'SEND_OK' ? 'UNKNOW' : 'ROLLBACK_MESSAGE';
    let error: unknown;
    if (half.status === 'SEND_OK') {
      try {
        state = known(await execute({ ...message, msgId, transactionId }));
      } catch (thrown) {
        error = thrown;
        this.client.logger.warn(`${this.group}: the transaction of ${msgId} failed: ${errorText(thrown)}`);
      }
    }
    await this.#end(message, half, transactionId, state);
    return { ...half, transactionId, state, error };
  }

  async #end(message: Message, half: SendResult, transactionId: string, state: LocalTransactionState): Promise<void> {
    try {
      const address = await this.client.masterAddress(half.queue);
      const header = this.#header(state, {
        topic: message.topic,
        tranStateTableOffset: half.queueOffset,
        commitLogOffset: decodeOffsetMessageId(half.offsetMsgId).offset,
        msgId: half.msgId,
        transactionId,
        fromTransactionCheck: false,
        bname: half.queue.brokerName,
      });
      await this.client.connections.sendOneway(address, RequestCode.END_TRANSACTION, header, null);
      const keys = message.keys === undefined ? undefined : keysText(message.keys);
      const noted = { topic: message.topic, msgId: half.msgId, tags: message.tags, keys };
      this.trace?.ended(noted, address, transactionId, state, false);
    } catch (error) {
      this.client.logger.warn(
        `${this.group}: ${state} of ${half.msgId} on ${queueText(half.queue)} did not leave, the broker will ask: ${errorText(error)}`,
      );
    }
  }

  #answerCheck(request: TransactionCheckRequest): void {
    if (this.#checking >= this.#holdMax) {
      this.client.repeated.warn(
        `checks ${this.group}`,
        `${this.group}: more than ${this.#holdMax} transaction checks run`,
      );
      return;
    }
    this.#checking++;
    void this.#runCheck(request).finally(() => this.#checking--);
  }

  async #runCheck({ message, ext, channel }: TransactionCheckRequest): Promise<void> {
    let state: LocalTransactionState = 'UNKNOW';
    try {
      state = known(await this.#check(message));
    } catch (error) {
      this.client.logger.warn(`${this.group}: checking ${message.msgId} failed: ${errorText(error)}`);
    }
    channel.sendOneway(
      RequestCode.END_TRANSACTION,
      this.#header(state, {
        topic: ext['topic'],
        tranStateTableOffset: ext['tranStateTableOffset'],
        commitLogOffset: ext['commitLogOffset'],
        msgId: message.msgId,
        transactionId: ext['transactionId'],
        fromTransactionCheck: true,
        bname: ext['bname'],
      }),
    );
    if (this.trace === undefined) return;
    const { topic, msgId, tags, properties } = message;
    const noted = { topic, msgId, tags, keys: properties.get(PropertyName.KEYS) };
    this.trace.ended(noted, channel.remoteAddress, ext['transactionId'] ?? '', state, true);
  }

  #header(state: LocalTransactionState, rest: ExtFields): ExtFields {
    return { producerGroup: this.group, commitOrRollback: VERDICT[state], ...rest };
  }
}

/** What is no verdict counts as none. */
function known(state: LocalTransactionState): LocalTransactionState {
  return VERDICT[state] === undefined ? 'UNKNOW' : state;
}
