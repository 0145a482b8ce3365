export { buildSubscription, isTagType, SUB_ALL, type SubscriptionData } from './subscription-data.ts';
export { MATCH_ALL, type TagFilter, tagFilterOf } from './tag-filter.ts';
