// Sends whose topic is not durable yet: nothing of them is stored before it is. Each waits as a copy of its request, and is handled
// anew when the topic is saved, in the order in which they came; with many new topics in a turn all wait for one save.

import { type Request, ResponseCode } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { LONG_BATCH_BYTES } from './long-batch-sends.ts';
import { refuse } from './send-outcome.ts';

/** Bytes of requests that wait; who sends one beyond them sends no more until it is done. */
const MOST_BYTES = 16 * 1024 * 1024;

export class HeldSends {
  readonly #context: BrokerContext;
  #bytes = 0;

  constructor(context: BrokerContext) {
    this.#context = context;
  }

  /** Takes a request over until `topic` is saved; refuses it if that fails. */
  hold(topic: string, request: Request): void {
    const context = this.#context;
    const held = request.hold();
    const { bytes, channel } = held;
    this.#bytes += bytes;
    // A long batch joins the log turns after it is handled, and what is sent behind it waits for that.
    const isAlone = this.#bytes > MOST_BYTES || bytes > LONG_BATCH_BYTES;
    if (isAlone) channel.holdInput();
    context.topics.afterSave(topic, (failure) => {
      this.#bytes -= bytes;
      // Its input goes on behind this turn, unless the request holds it anew.
      if (isAlone) channel.resumeInput();
      if (failure === undefined) {
        held.again();
        return;
      }
      context.stats.putFailed++;
      const remark = `topic[${topic}] cannot be saved, and nothing was stored: ${failure.message}`;
      refuse(context, held, ResponseCode.SYSTEM_ERROR, remark);
    });
  }
}
