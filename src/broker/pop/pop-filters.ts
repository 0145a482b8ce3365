// By which filter a pop chooses its messages: that of the expression that it brings along. RocketMQ: PopMessageProcessor. Subscriptions from
// heartbeats say nothing here, and SQL92 needs no `enablePropertyFilter`.

import { buildSubscription, isTagType, MATCH_ALL, SUB_ALL, tagFilterOf } from '../../filter/index.ts';
import type { TagFilter } from '../../store/index.ts';
import { compileExpression, ExpressionFilter } from '../filter/expression-filter.ts';

/** Characters of expressions whose filters are kept. */
const KEPT_CHARS = 512 * 1024;

export class PopFilters {
  readonly #kept = new Map<string, TagFilter>();
  #keptChars = 0;

  /** undefined: the expression cannot be read. */
  of(topic: string, expression: string | undefined, expressionType: string | undefined): TagFilter | undefined {
    if (expression === undefined || expression === '') return MATCH_ALL;
    const isTag = isTagType(expressionType);
    if (isTag && expression === SUB_ALL) return MATCH_ALL;
    const key = isTag ? expression : `${expressionType}\u0000${expression}`;
    const kept = this.#kept.get(key);
    if (kept !== undefined) return kept;
    let filter: TagFilter;
    try {
      filter = isTag
        ? tagFilterOf(buildSubscription(topic, expression, expressionType))
        : new ExpressionFilter(compileExpression(expressionType!, expression));
    } catch {
      return undefined;
    }
    // A filter takes many times the memory of its text.
    if (this.#keptChars + key.length > KEPT_CHARS) {
      this.#kept.clear();
      this.#keptChars = 0;
    }
    this.#kept.set(key, filter);
    this.#keptChars += key.length;
    return filter;
  }
}
