// What a consumer wants of a topic, as it is told to brokers. The broker filters by the hash of the tag; the consumer filters again by
// its text (two tags may share a hash). An SQL92 expression is the broker's alone. RocketMQ: SubscriptionData, FilterAPI, MessageSelector.

import { GantryError, javaStringHash } from '../common/index.ts';

/**
 * Which messages of a topic are wanted.
 * @example consumer.subscribe('orders', MessageSelector.bySql("price > 100 AND region IN ('eu', 'us')"));
 */
export class MessageSelector {
  readonly expressionType: 'TAG' | 'SQL92';
  readonly expression: string;

  private constructor(expressionType: 'TAG' | 'SQL92', expression: string) {
    this.expressionType = expressionType;
    this.expression = expression;
  }

  /** By tags: `TagA || TagB`, or `*`. */
  static byTag(expression: string): MessageSelector {
    return new MessageSelector('TAG', expression);
  }

  /** By an SQL92 expression over the messages' properties; brokers must have `enablePropertyFilter`, and check it when the consumer starts. */
  static bySql(expression: string): MessageSelector {
    return new MessageSelector('SQL92', expression);
  }
}

/** One topic of a group's subscription. Field names are those of the heartbeat's JSON. */
export interface SubscriptionData {
  classFilterMode: boolean;
  codeSet: number[];
  expressionType: 'TAG' | 'SQL92';
  subString: string;
  /** Time of the last change; brokers replace an entry only by a newer one. */
  subVersion: number;
  tagsSet: string[];
  topic: string;
}

/**
 * Parses `TagA || TagB`; `*` and the empty text mean everything. An SQL92 expression is taken as it is.
 * @throws GantryError CONFIG_VALUE when there are bars but no tag, and when an SQL92 expression is empty.
 */
export function parseSubscription(
  topic: string,
  selector: string | MessageSelector,
  version: number,
): SubscriptionData {
  const expression = typeof selector === 'string' ? selector : selector.expression;
  if (typeof selector !== 'string' && selector.expressionType === 'SQL92') {
    if (expression.trim() === '') {
      throw new GantryError('CONFIG_VALUE', `the SQL92 expression of the subscription to ${topic} is empty`);
    }
    return {
      classFilterMode: false,
      codeSet: [],
      expressionType: 'SQL92',
      subString: expression,
      subVersion: version,
      tagsSet: [],
      topic,
    };
  }
  const all = expression === '*' || expression.trim() === '';
  const tags = all ? [] : [...new Set(splitTags(expression))];
  if (!all && tags.length === 0)
    throw new GantryError('CONFIG_VALUE', `the subscription "${expression}" of ${topic} names no tag`);
  return {
    classFilterMode: false,
    codeSet: [...new Set(tags.map(javaStringHash))],
    expressionType: 'TAG',
    subString: all ? '*' : expression,
    subVersion: version,
    tagsSet: tags,
    topic,
  };
}

function splitTags(expression: string): string[] {
  return expression
    .split('||')
    .map((tag) => tag.trim())
    .filter((tag) => tag !== '');
}

/** Whether a message with these tags is wanted. */
export function wantsTag(subscription: SubscriptionData, tags: string | undefined): boolean {
  return subscription.tagsSet.length === 0 || (tags !== undefined && subscription.tagsSet.includes(tags));
}
