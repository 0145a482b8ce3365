// Filters of expressions other than tags, as the store and the long polls ask them. RocketMQ: ExpressionMessageFilter,
// ExpressionForRetryMessageFilter.

import { GantryError } from '../../common/index.ts';
import { type BloomFilterData, hasBits, type RecordFilter, Sql92Filter, type TagFilter } from '../../filter/index.ts';
import { parsePropertyBytes } from '../../message/index.ts';

const NO_CODES: ReadonlySet<number> = new Set();
/** RocketMQ: MessageConst.PROPERTY_RETRY_TOPIC: the topic that a message of a retry topic comes from. */
const RETRY_TOPIC = 'RETRY_TOPIC';

/** RocketMQ: ExpressionType.SQL92, the one type that there is besides tags. */
export const SQL92 = 'SQL92';

/** Characters of an expression that clients may ask for: it is made ready between the messages of all others, in some ms at that length. */
export const LONGEST_EXPRESSION = 32_768;

/**
 * Makes an expression ready.
 * @throws GantryError SUBSCRIPTION (responseCode 23) on another type, on an expression that RocketMQ refuses, and on one that is longer than
 * `longest`, for which RocketMQ has no bound
 */
export function compileExpression(type: string, expression: string, longest: number = LONGEST_EXPRESSION): Sql92Filter {
  if (type === SQL92) {
    if (expression.length <= longest) return new Sql92Filter(expression);
    const text = `the SQL92 expression has ${expression.length} characters, the limit is ${longest}`;
    throw new GantryError('SUBSCRIPTION', text, { responseCode: 23 });
  }
  throw new GantryError('SUBSCRIPTION', `there is no filter of type ${type}`, { responseCode: 23 });
}

/** An expression of its own, which came with a pull, or that of a group. */
export class ExpressionFilter implements TagFilter, RecordFilter {
  readonly all = true;
  readonly codes: ReadonlySet<number> = NO_CODES;
  readonly record: RecordFilter = this;
  readonly #program: Sql92Filter;
  readonly #bornTime: number;
  readonly #bits: BloomFilterData | undefined;

  /**
   * @param bornTime since when the filter bits of messages know the group
   * @param bits the group's; undefined: filter bits say nothing
   */
  constructor(program: Sql92Filter, bornTime = 0, bits?: BloomFilterData) {
    this.#program = program;
    this.#bornTime = bornTime;
    this.#bits = bits;
  }

  mayMatch(storeTimestamp: number, bytes: Uint8Array, at: number, length: number): boolean {
    const bits = this.#bits;
    if (bits === undefined || storeTimestamp <= this.#bornTime || length * 8 !== bits.bitNum) return true;
    return hasBits(bytes, at, bits.bitPos);
  }

  matches(bytes: Uint8Array, start: number, end: number): boolean {
    return this.#program.matches(bytes, start, end);
  }
}

/**
 * The filter of a retry topic with `filterSupportRetry`: a message that the subscription of that topic lets pass, which is all of them with
 * most clients, is judged by what its group asks of the topic that it comes from.
 */
export class RetryFilter implements TagFilter, RecordFilter {
  readonly all: boolean;
  readonly codes: ReadonlySet<number>;
  readonly record: RecordFilter = this;
  readonly #own: TagFilter;
  readonly #ofTopic: (topic: string) => RecordFilter | undefined;

  /** `own`: the filter of the retry topic itself, whose tags and bits count. `ofTopic`: the group's filter of another topic. */
  constructor(own: TagFilter, ofTopic: (topic: string) => RecordFilter | undefined) {
    this.all = own.all;
    this.codes = own.codes;
    this.#own = own;
    this.#ofTopic = ofTopic;
  }

  mayMatch(storeTimestamp: number, bytes: Uint8Array, at: number, length: number): boolean {
    return this.#own.record?.mayMatch(storeTimestamp, bytes, at, length) ?? true;
  }

  matches(bytes: Uint8Array, start: number, end: number): boolean {
    const topic = parsePropertyBytes(bytes, start, end).get(RETRY_TOPIC);
    const filter = topic === undefined ? undefined : this.#ofTopic(topic);
    return filter === undefined || filter.matches(bytes, start, end);
  }
}
