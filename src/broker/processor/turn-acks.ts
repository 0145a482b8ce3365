// The answers of one loop turn: written when their messages are appended, and parked together at the turn's end, a connection's as one
// entry. What the log gives up before that, since a write failed in the middle of the turn, is refused at once: later bytes will lie in its place.

import type { Channel, FrameWriter } from '../../remoting/index.ts';
import { type MessageStore, PutMessageStatus } from '../../store/index.ts';
import type { SendAckPool, SendAcks } from './send-acks.ts';

export class TurnAcks {
  readonly #store: MessageStore;
  readonly #pool: SendAckPool;
  readonly #flush: boolean;
  readonly #acks = new Map<Channel, SendAcks>();
  #last: SendAcks | undefined;
  #end = 0;

  /** `flush`: the answers wait for the sync, where the settings ask for one. */
  constructor(store: MessageStore, pool: SendAckPool, flush: boolean) {
    this.#store = store;
    this.#pool = pool;
    this.#flush = flush;
    store.watchLog({ cut: (offset, reason) => this.#cut(offset, reason) });
  }

  /** Takes one answer, for a message that ends at `logEnd`. */
  writerOf(channel: Channel, logEnd: number): FrameWriter {
    this.#end = logEnd;
    let acks = this.#last;
    if (acks?.channel !== channel) {
      acks = this.#acks.get(channel);
      if (acks === undefined) {
        acks = this.#pool.take(channel);
        this.#acks.set(channel, acks);
      }
      this.#last = acks;
    }
    acks.count++;
    return acks.writer;
  }

  /** Hands the turn's answers over, to wait for all that the turn appended. */
  endTurn(): void {
    if (this.#acks.size === 0) return;
    for (const acks of this.#acks.values()) this.#store.park(this.#end, this.#flush, acks);
    this.#clear();
  }

  #cut(offset: number, reason: string): void {
    if (this.#acks.size === 0 || this.#end <= offset) return;
    const lost = [...this.#acks.values()];
    this.#clear();
    for (const acks of lost) acks.settle(PutMessageStatus.SERVICE_NOT_AVAILABLE, reason);
  }

  #clear(): void {
    this.#acks.clear();
    this.#last = undefined;
  }
}
