// What a consumer group wants of a topic: an expression over tags, as text and as the hashes that a ConsumeQueue unit can answer.
// RocketMQ: SubscriptionData, FilterAPI, ExpressionType.

import { GantryError, javaStringHash } from '../common/index.ts';

/** The expression that takes everything. */
export const SUB_ALL = '*';

export interface SubscriptionData {
  readonly topic: string;
  /** The expression as the client wrote it. */
  readonly subString: string;
  readonly tagsSet: readonly string[];
  /** Java string hashes of the tags. */
  readonly codeSet: readonly number[];
  /** The client's clock when the subscription was made: a larger one is newer. */
  readonly subVersion: number;
  /** TAG or SQL92. */
  readonly expressionType: string;
  readonly classFilterMode: boolean;
}

/** Whether an expression type means tags; no type does. */
export function isTagType(expressionType: string | undefined): boolean {
  return expressionType === undefined || expressionType === '' || expressionType === 'TAG';
}

/**
 * Parses a tag expression: `*`, or tags with `||` between them. Any other type is kept as it is, unparsed.
 * @throws GantryError SUBSCRIPTION (responseCode 23) if no tag is left of it
 */
export function buildSubscription(
  topic: string,
  expression: string | undefined,
  expressionType?: string,
  subVersion = 0,
): SubscriptionData {
  const plain = { topic, subVersion, classFilterMode: false };
  if (!isTagType(expressionType)) {
    return { ...plain, subString: expression ?? '', tagsSet: [], codeSet: [], expressionType: expressionType! };
  }
  if (expression === undefined || expression === '' || expression === SUB_ALL) {
    return { ...plain, subString: SUB_ALL, tagsSet: [], codeSet: [], expressionType: 'TAG' };
  }
  const tags = tagsOf(expression);
  if (tags === undefined) throw new GantryError('SUBSCRIPTION', 'subString split error', { responseCode: 23 });
  return { ...plain, subString: expression, tagsSet: tags, codeSet: tags.map(javaStringHash), expressionType: 'TAG' };
}

/** The different tags of an expression. Undefined if it consists of separators alone, which RocketMQ refuses. */
function tagsOf(expression: string): string[] | undefined {
  const parts = expression.split('||');
  if (parts.every((part) => part.length === 0)) return undefined;
  return [...new Set(parts.map((part) => part.trim()).filter((part) => part.length > 0))];
}
