// Brings back what was popped and not acknowledged in time. Check points and acknowledgements come to the revive topic through the timer, when they
// are due; each of its queues is read from where the group CID_RMQ_SYS_REVIVE_GROUP is, a round every `reviveInterval`.
//
//   pop ─► check point ─┐                                    ┌─ acknowledged: nothing to do
//   ack ─► ack record ──┴► timer ─► revive topic ─► round ───┼─ still there: a copy goes into the retry topic of topic and group
//                                                            └─ gone, or its topic is: dropped with a line
//
// The saved position is, as RocketMQ's, the last record that nobody needs. It is handed to the offsets when all that it passes over, and what was
// put for that, is on disk. After a crash what was revived since the last save of consumerOffset.json comes back once more.
//
// RocketMQ: PopReviveService, one thread for each queue. Its position moves with check points alone, it reads all behind it anew every second, and
// whatever cannot be parsed or read stops everything behind it.

import { errorText, type Timer } from '../../../common/index.ts';
import { type PopCheckPoint, REVIVE_GROUP, reviveTopic } from '../../../message/index.ts';
import type { Removal, RetentionFloor } from '../../../store/index.ts';
import { TIMER_TOPIC } from '../../topic/topic-names.ts';
import { EarlierCopies } from './earlier-copies.ts';
import { RetryPut } from './retry-put.ts';
import { ReviveFrontier } from './revive-frontier.ts';
import { type ReviveCounts, type ReviveParts, ReviveState } from './revive-parts.ts';
import { ReviveQueue } from './revive-queue.ts';

export class PopReviveService implements RetentionFloor {
  readonly name = 'pops under way';
  readonly #state: ReviveState;
  readonly #put: RetryPut;
  readonly #frontier: ReviveFrontier;
  #queues: ReviveQueue[] = [];
  #timer: Timer | undefined;
  #round: Promise<void> = Promise.resolve();
  /** Nothing comes back before; ms since 1970. */
  #startAt = 0;
  /** Rounds in a row in which there was nothing to do. */
  #quiet = 0;
  /** Positions that count when the log is flushed to `end`. */
  #pending: { readonly positions: readonly number[]; readonly end: number } | undefined;

  constructor(parts: ReviveParts) {
    this.#state = new ReviveState(parts, reviveTopic(parts.config.brokerClusterName));
    this.#put = new RetryPut(this.#state);
    this.#frontier = new ReviveFrontier({
      clock: parts.clock,
      timer: parts.timer,
      timerEnd: () => parts.store.maxOffsetInQueue(TIMER_TOPIC, 0, false),
    });
  }

  get counts(): Readonly<ReviveCounts> {
    return this.#state.counts;
  }

  /** Told of each message that comes back, or is gone: it is under way no longer. */
  set onLanded(fn: (ck: PopCheckPoint) => void) {
    this.#state.onLanded = fn;
  }

  /** Begins where the saved positions say. `mostOpen`: pops of one queue that may be open at once. */
  start(mostOpen?: number): void {
    const { parts, topic } = this.#state;
    if (!parts.config.timerWheelEnable) return;
    let count = Math.max(parts.config.reviveQueueNum, 1);
    // Queues that an earlier setting has filled.
    for (const queue of parts.store.queues()) if (queue.topic === topic) count = Math.max(count, queue.queueId + 1);
    this.#queues = [];
    for (let queueId = 0; queueId < count; queueId++) {
      this.#queues.push(new ReviveQueue(this.#state, this.#put, queueId, this.#savedPosition(queueId), mostOpen));
    }
    this.#state.running = true;
    this.#startAt = parts.clock.now() + parts.config.disappearTimeAfterStart;
    this.#state.earlier = new EarlierCopies(parts);
    this.#quiet = 0;
    this.#sleep();
  }

  /** A position beyond the queue's end is one whose records are lost: what comes in their place is to be read. */
  #savedPosition(queueId: number): number {
    const { parts, topic } = this.#state;
    const saved = parts.offsets.query(REVIVE_GROUP, topic, queueId);
    return Math.min(saved, parts.store.maxOffsetInQueue(topic, queueId) - 1);
  }

  /** Puts nothing any more when this is done. */
  async stop(): Promise<void> {
    this.#state.running = false;
    this.#timer?.cancel();
    await this.#round;
  }

  /** Hands over how far it came, if that is on disk; when the store is closed, whose last sync may have failed. */
  close(): void {
    const { flushed, wrote } = this.#state.parts.store.watermarks;
    this.#commitPending();
    if (flushed >= wrote) this.#commit(this.#queues.map((queue) => queue.position));
    this.#pending = undefined;
    this.#queues = [];
  }

  /** Records of a removal that a pop under way needs. */
  needed(removal: Removal): number {
    let count = 0;
    for (const { topic, queueId, from, to } of removal.moves) {
      if (topic !== this.#state.topic || queueId >= this.#queues.length) continue;
      count += Math.max(0, to - Math.max(from, this.#queues[queueId]!.position + 1));
    }
    return count;
  }

  /** How far each queue that has something to do is, and by how many ms the oldest pop whose time is over waits; for the runtime information. */
  *progress(): Generator<{ queueId: number; position: number; behind: number; behindMs: number }> {
    const now = this.#state.parts.clock.now();
    for (const queue of this.#queues) {
      const { position, queueId } = queue;
      const behind = Math.max(0, queue.end - 1 - position);
      if (behind > 0) yield { queueId, position, behind, behindMs: Math.max(0, now - queue.oldestMs(now)) };
    }
  }

  #sleep(): void {
    const { clock, config } = this.#state.parts;
    if (!this.#state.running) return;
    const rest = Math.min(Math.max(1, this.#quiet), Math.max(1, config.reviveMaxSlow));
    const restMs = Math.max(Math.max(1, config.reviveInterval) * rest, this.#startAt - clock.now());
    this.#timer = clock.after(restMs, () => {
      this.#round = this.#look();
    });
  }

  async #look(): Promise<void> {
    this.#frontier.look();
    const { storedMs } = this.#frontier;
    const worked = await Promise.all(this.#queues.map((queue) => this.#roundOf(queue, storedMs)));
    this.#save();
    this.#quiet = worked.includes(true) || this.#pending !== undefined ? 0 : this.#quiet + 1;
    this.#sleep();
  }

  async #roundOf(queue: ReviveQueue, storedMs: number): Promise<boolean> {
    try {
      return await queue.round(storedMs);
    } catch (error) {
      const { seldom } = this.#state;
      seldom.warn(`queue ${queue.queueId}`, `revive: queue ${queue.queueId} is tried again: ${errorText(error)}`);
      return true;
    }
  }

  /** Hands the positions over when all that they pass over is on disk. */
  #save(): void {
    this.#commitPending();
    if (this.#pending !== undefined) return;
    const positions = this.#queues.map((queue) => queue.position);
    this.#pending = { positions, end: this.#state.parts.store.watermarks.wrote };
    this.#commitPending();
  }

  #commitPending(): void {
    const pending = this.#pending;
    if (pending === undefined || this.#state.parts.store.watermarks.flushed < pending.end) return;
    this.#pending = undefined;
    this.#commit(pending.positions);
  }

  #commit(positions: readonly number[]): void {
    const { topic, parts } = this.#state;
    for (const [queueId, position] of positions.entries()) {
      if (position > parts.offsets.query(REVIVE_GROUP, topic, queueId)) {
        parts.offsets.commit('127.0.0.1', REVIVE_GROUP, topic, queueId, position);
      }
    }
  }
}
