// Filters of expressions that requests bring along: kept, so that a text is read once.

import { buildSubscription, isTagType, MATCH_ALL, SUB_ALL, tagFilterOf } from '../../filter/index.ts';
import type { TagFilter } from '../../store/index.ts';
import { compileExpression, ExpressionFilter } from './expression-filter.ts';

/** Characters of expressions whose filters are kept: a filter takes many times the memory of its text. */
const KEPT_CHARS = 512 * 1024;

export class KeptFilters {
  readonly #kept = new Map<string, TagFilter>();
  #keptChars = 0;
  /** Characters of an expression that the last `of` had to make ready. */
  compiledChars = 0;

  /** No text of tags is all of them. @throws GantryError SUBSCRIPTION if the expression cannot be read */
  of(topic: string, text: string, type: string | undefined): TagFilter {
    this.compiledChars = 0;
    const isTag = isTagType(type);
    if (isTag && (text === SUB_ALL || text === '')) return MATCH_ALL;
    const key = isTag ? text : `${type}\u0000${text}`;
    const kept = this.#kept.get(key);
    if (kept !== undefined) return kept;
    if (!isTag) this.compiledChars = text.length;
    const filter = isTag
      ? tagFilterOf(buildSubscription(topic, text, type))
      : new ExpressionFilter(compileExpression(type!, text));
    if (this.#keptChars + key.length > KEPT_CHARS) {
      this.#kept.clear();
      this.#keptChars = 0;
    }
    this.#kept.set(key, filter);
    this.#keptChars += key.length;
    return filter;
  }
}
