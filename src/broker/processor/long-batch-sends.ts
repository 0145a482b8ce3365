// Sends of batches that would hold up everybody else: encoded between other work, then put and answered. What their sender sends behind
// one waits until it is put.

import { OffsetMessageIds } from '../../message/index.ts';
import { type Request, type Responder, ResponseCode } from '../../remoting/index.ts';
import { type LongBatch, PutMessageStatus, type PutRequest, PutResult } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import type { BatchKeys, SendDeduplication } from '../dedup/send-deduplication.ts';
import type { LogicQueue } from '../statictopic/mapping-context.ts';
import { looseLogicOffset } from '../statictopic/topic-queue-mapping.ts';
import { LongBatches } from './long-batches.ts';
import { answerPut, refuse } from './send-outcome.ts';
import type { SendTopic, SendTopics } from './send-topics.ts';

/** Longer batches are encoded in shares. */
export const LONG_BATCH_BYTES: number = 256 * 1024;
/**
 * Bytes of batches that one connection gets put in a ms while others send, too: a quarter to a third of what the loop could do, and 256
 * MiB a second. With the whole loop for one peer, eight others' slowest sends took three to six times as long.
 */
const SHARED_BYTES_PER_MS = 256 * 1024;

export class LongBatchSends {
  readonly #context: BrokerContext;
  readonly #topics: SendTopics;
  readonly #batches: LongBatches;
  readonly #once: SendDeduplication | undefined;

  constructor(context: BrokerContext, topics: SendTopics, once: SendDeduplication | undefined) {
    this.#context = context;
    this.#once = once;
    this.#topics = topics;
    this.#batches = new LongBatches(context.clock, context.logger);
  }

  /** Takes a batch; `put` is all of it but its body, and the batch's own. `keys`: what it is to be remembered by; `logic` as in SlowSends. */
  send(
    request: Request,
    put: PutRequest,
    topic: SendTopic,
    transactionId: string | undefined,
    keys: BatchKeys | undefined,
    logic: LogicQueue | undefined,
  ): void {
    const body = request.keepBody();
    put.body = body.bytes;
    put.bodyStart = 0;
    put.bodyEnd = put.body.length;
    const { channel, oneway } = request;
    const bytes = put.bodyEnd;
    const responder = request.defer();
    channel.holdInput();
    this.#batches.add(this.#context.store.beginBatch(put), (batch, fault) => {
      body.release();
      this.#put(batch, topic, fault, transactionId, oneway ? undefined : responder, keys, logic);
      channel.resumeInput(Math.floor(bytes / SHARED_BYTES_PER_MS));
    });
  }

  #put(
    batch: LongBatch,
    topic: SendTopic,
    fault: string | undefined,
    transactionId: string | undefined,
    responder: Responder | undefined,
    keys: BatchKeys | undefined,
    logic: LogicQueue | undefined,
  ): void {
    const { stats, store, storeHost, topics } = this.#context;
    if (fault === undefined && topics.isUnsaved(topic.name)) {
      topics.afterSave(topic.name, (failure) => {
        this.#put(batch, topic, failure?.message, transactionId, responder, keys, logic);
      });
      return;
    }
    const { queueId, waitStoreMsgOK } = batch.request;
    const result = new PutResult();
    if (topic.version !== topics.version) this.#topics.refresh(topic);
    if (fault !== undefined || queueId >= topic.queueNums) {
      batch.release();
      if (responder === undefined) return;
      const gone = `topic[${topic.name}] was deleted or made smaller while the batch came`;
      if (fault === undefined) refuse(this.#context, responder, ResponseCode.TOPIC_NOT_EXIST, gone);
      else refuse(this.#context, responder, ResponseCode.SYSTEM_ERROR, fault);
      return;
    }
    // Another connection may have sent the same while this one waited.
    const firsts = keys && this.#once!.foundBatch(keys);
    if (firsts !== undefined) {
      batch.release();
      if (responder !== undefined)
        this.#once!.answerFirsts(responder, topic.mapping, firsts, waitStoreMsgOK, transactionId);
      return;
    }
    store.putBatch(batch, result);
    if (keys !== undefined) this.#once!.keepBatch(keys, result, queueId);
    if (result.status === PutMessageStatus.PUT_OK) stats.stored(topic.puts, result);
    else stats.putFailed++;
    if (responder === undefined) return;
    const answer = (status: PutMessageStatus, reason: string): void => {
      answerPut(this.#context, responder, status, reason, () => ({
        msgId: Buffer.from(new OffsetMessageIds(storeHost).write(result.batchOffsets)).toString('latin1'),
        queueId: logic?.globalId ?? queueId,
        queueOffset: logic === undefined ? result.queueOffset : looseLogicOffset(logic.leader!, result.queueOffset),
        transactionId,
      }));
    };
    if (result.status !== PutMessageStatus.PUT_OK) answer(result.status, result.reason);
    else store.whenDurable(result.wroteOffset + result.wroteBytes, waitStoreMsgOK, answer);
  }
}
