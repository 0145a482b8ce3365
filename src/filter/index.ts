export { BloomFilter, type BloomFilterData, hasBits, setBits } from './bloom-filter.ts';
export { Sql92Filter, Verdict } from './sql92-filter.ts';
export { buildSubscription, isTagType, SUB_ALL, type SubscriptionData } from './subscription-data.ts';
export { MATCH_ALL, type RecordFilter, type TagFilter, tagFilterOf } from './tag-filter.ts';
