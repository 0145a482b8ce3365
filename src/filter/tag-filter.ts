// Deciding by a ConsumeQueue unit alone whether a group wants a message: by the hash of its tag. Different tags can share a hash, so the
// client compares the tags themselves once more. RocketMQ: ExpressionMessageFilter#isMatchedByConsumeQueue.

import { SUB_ALL, type SubscriptionData } from './subscription-data.ts';

/** What the store asks about a record itself, by its ext unit's filter bits and by its property text. */
export interface RecordFilter {
  mayMatch(storeTimestamp: number, bytes: Uint8Array, at: number, length: number): boolean;
  matches(bytes: Uint8Array, start: number, end: number): boolean;
}

/** What the store asks about a unit: `all`, or the low 32 bits of its tagsCode in `codes`; then about the record, where there is more to ask. */
export interface TagFilter {
  readonly all: boolean;
  readonly codes: ReadonlySet<number>;
  readonly record?: RecordFilter | undefined;
}

/** Takes everything. */
export const MATCH_ALL: TagFilter = { all: true, codes: new Set() };

/** The filter of a tag subscription. Make it once per subscription, not per pull. */
export function tagFilterOf(
  subscription: Pick<SubscriptionData, 'subString' | 'codeSet' | 'classFilterMode'>,
): TagFilter {
  if (subscription.subString === SUB_ALL || subscription.classFilterMode) return MATCH_ALL;
  return { all: false, codes: new Set(subscription.codeSet) };
}
