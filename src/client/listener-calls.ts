// Calls of one consumer's listener, in whatever order its service makes them: what the listener says, what it throws, the notes for the trace,
// and the counts by topic.

import { type Clock, errorText, type Logger } from '../common/index.ts';
import { type MessageTrace, TraceResult } from './message-trace.ts';
import type { ReceivedMessage } from './message-types.ts';
import { type MessageQueue, queueText } from './queues.ts';

/** Messages of a topic that were consumed with success, and that failed. */
export interface ConsumeCounts {
  ok: number;
  failed: number;
}

/** What the calls need. */
export interface ListenerCallsOptions<C, S extends string> {
  listener: (messages: readonly ReceivedMessage[], context: C) => Promise<S>;
  /** The answer for success, and the one for failure, which a rejection and anything else count as. */
  success: S;
  failure: S;
  group: string;
  /** Ms after which a call is noted as timed out. */
  timeoutMs: number;
  trace: MessageTrace | undefined;
  clock: Clock;
  logger: Logger;
}

/** The listener of one consumer. */
export class ListenerCalls<C extends { readonly queue: MessageQueue }, S extends string> {
  readonly #options: ListenerCallsOptions<C, S>;
  readonly #counts = new Map<string, ConsumeCounts>();

  constructor(options: ListenerCallsOptions<C, S>) {
    this.#options = options;
  }

  /** By topic. */
  get counts(): ReadonlyMap<string, ConsumeCounts> {
    return this.#counts;
  }

  /** Calls the listener; whether it answered with success. Failures are logged. */
  async call(messages: readonly ReceivedMessage[], context: C): Promise<boolean> {
    const { listener, success, failure, group, trace, clock, logger, timeoutMs } = this.#options;
    const since = clock.now();
    const traced = trace?.before(messages);
    let status: S | undefined;
    let failed = false;
    try {
      status = await listener(messages, context);
      if (status !== success && status !== failure) {
        logger.warn(`${group}: the listener answered ${errorText(status)}, which counts as ${failure}`);
      }
    } catch (error) {
      failed = true;
      logger.warn(
        `${group}: the listener failed on ${messages[0]!.msgId} of ${queueText(context.queue)}: ${errorText(error)}`,
      );
    }
    const ok = status === success;
    if (traced !== undefined) {
      // RocketMQ: how its consume hooks sort the end of a call.
      let result: number = ok ? TraceResult.SUCCESS : TraceResult.FAILED;
      if (failed) result = TraceResult.EXCEPTION;
      else if (status === undefined) result = TraceResult.RETURNNULL;
      else if (clock.now() - since >= timeoutMs) result = TraceResult.TIME_OUT;
      trace!.after(traced, result);
    }
    return ok;
  }

  count(topic: string, ok: number, failed: number): void {
    const counts = this.#counts.get(topic);
    if (counts === undefined) this.#counts.set(topic, { ok, failed });
    else {
      counts.ok += ok;
      counts.failed += failed;
    }
  }
}
