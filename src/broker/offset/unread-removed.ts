// Messages that retention removes before a group has read them: told before they go, with the groups and how many, and counted. The
// offsets of the groups say what is unread, so what a group has in its hands counts as unread, too. RocketMQ tells nobody.

import { type Clock, type Logger, SeldomWarning } from '../../common/index.ts';
import type { Removal } from '../../store/index.ts';
import { InTurns } from '../in-turns.ts';
import type { ConsumerOffsetManager, GroupOffsets } from './consumer-offset-manager.ts';

/** Groups named in one line. */
const NAMED = 5;

export class UnreadRemoved {
  /** Group, number of messages since the start. */
  readonly byGroup: Map<string, number> = new Map();
  /** All groups together. */
  total = 0;
  readonly #offsets: ConsumerOffsetManager;
  readonly #seldom: SeldomWarning;
  readonly #counting: InTurns;

  constructor(offsets: ConsumerOffsetManager, clock: Clock, logger: Logger) {
    this.#offsets = offsets;
    this.#counting = new InTurns(clock);
    this.#seldom = new SeldomWarning(clock, logger);
  }

  /** To be called before a file goes, or while it is only due to go. With very many queues it is counted in the turns that follow. */
  note(removal: Removal): void {
    this.#counting.run(this.#note(removal));
  }

  *#note(removal: Removal): Generator<undefined, void> {
    const unread = yield* this.#unread(removal);
    if (unread.size === 0) return;
    let sum = 0;
    for (const count of unread.values()) sum += count;
    if (removal.soon === undefined) {
      this.total += sum;
      for (const [group, count] of unread) this.byGroup.set(group, (this.byGroup.get(group) ?? 0) + count);
    }
    const groups = [...unread].sort((a, b) => b[1] - a[1]);
    const named = groups.slice(0, NAMED).map(([group, count]) => `${group} (${count})`);
    if (groups.length > NAMED) named.push(`${groups.length - NAMED} more`);
    const where = `the CommitLog from ${removal.start} to ${removal.end}`;
    const what = `of ${where}, ${sum} unread messages`;
    this.#seldom.warn(
      removal.soon === undefined ? 'now' : 'soon',
      `${what} ${removal.soon === undefined ? 'are removed now' : `will be removed ${removal.soon}`}; groups: ${named.join(', ')}`,
    );
  }

  /** How many messages of a removal each group has not read. */
  *#unread(removal: Removal): Generator<undefined, Map<string, number>> {
    const byTopic = new Map<string, GroupOffsets[]>();
    for (const offsets of this.#offsets.entries()) {
      const known = byTopic.get(offsets.topic);
      if (known === undefined) byTopic.set(offsets.topic, [offsets]);
      else known.push(offsets);
      yield;
    }
    const unread = new Map<string, number>();
    for (const { topic, queueId, from, to } of removal.moves) {
      yield;
      for (const { group, committed } of byTopic.get(topic) ?? []) {
        const offset = committed.get(queueId);
        if (offset === undefined || offset >= to) continue;
        unread.set(group, (unread.get(group) ?? 0) + to - Math.max(from, offset));
      }
    }
    return unread;
  }
}
