// By which filter a pop chooses its messages: that of the expression that it brings along. RocketMQ: PopMessageProcessor. Subscriptions from
// heartbeats say nothing here, and SQL92 needs no `enablePropertyFilter`.

import type { Clock } from '../../common/index.ts';
import { MATCH_ALL } from '../../filter/index.ts';
import type { Channel } from '../../remoting/index.ts';
import type { TagFilter } from '../../store/index.ts';
import { restAfter } from '../filter/heavy-expressions.ts';
import { KeptFilters } from '../filter/kept-filters.ts';

export class PopFilters {
  readonly #clock: Clock;
  readonly #kept = new KeptFilters();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** undefined: the expression cannot be read. After one that takes long its connection waits. */
  of(topic: string, expression: string | undefined, type: string | undefined, channel: Channel): TagFilter | undefined {
    if (expression === undefined || expression === '') return MATCH_ALL;
    try {
      return this.#kept.of(topic, expression, type);
    } catch {
      return undefined;
    } finally {
      restAfter(channel, this.#clock, this.#kept.compiledChars);
    }
  }
}
