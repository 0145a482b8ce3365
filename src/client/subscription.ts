// What a consumer wants of a topic, as it is told to brokers. The broker filters by the hash of the tag; the consumer filters again by
// its text (two tags may share a hash). RocketMQ: SubscriptionData, FilterAPI.

import { GantryError, javaStringHash } from '../common/index.ts';

/** One topic of a group's subscription. Field names are those of the heartbeat's JSON. */
export interface SubscriptionData {
  classFilterMode: boolean;
  codeSet: number[];
  expressionType: 'TAG';
  subString: string;
  /** Time of the last change; brokers replace an entry only by a newer one. */
  subVersion: number;
  tagsSet: string[];
  topic: string;
}

/**
 * Parses `TagA || TagB`; `*` and the empty text mean everything.
 * @throws GantryError CONFIG_VALUE when there are bars but no tag.
 */
export function parseSubscription(topic: string, expression: string, version: number): SubscriptionData {
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
