// What the attributes of topics and groups say about lite topics. RocketMQ: LiteMetadataUtil, SubscriptionGroupConfig. There a look-up may
// create the group that it asks for; here nothing is created by a question.

import type { SubscriptionGroupConfig } from '../subscription/subscription-group-config.ts';
import type { SubscriptionGroupManager } from '../subscription/subscription-group-manager.ts';
import type { TopicConfig } from '../topic/topic-config.ts';
import type { TopicConfigManager } from '../topic/topic-config-manager.ts';

/** Lite topics that one client may subscribe to where its group says nothing. */
const CLIENT_QUOTA = 2000;

/** Whether a topic is a parent of lite topics. */
export function isLiteTopic(topic: TopicConfig | undefined): topic is TopicConfig {
  return topic?.attributes.get('message.type') === 'LITE';
}

/** Minutes without a message after which a lite topic of this parent goes; -1: never. */
export function liteExpiration(topic: TopicConfig): number {
  return Number(topic.attributes.get('lite.topic.expiration') ?? -1);
}

/** The parent topic whose lite topics a group consumes; undefined for a group of another kind. */
export function bindTopicOf(group: SubscriptionGroupConfig | undefined): string | undefined {
  return group?.attributes.get('lite.bind.topic');
}

/** Whether a `topic@group` is a group's and its parent topic's, of which no offsets are kept. */
export function isBound(groups: SubscriptionGroupManager, key: string): boolean {
  const at = key.lastIndexOf('@');
  return bindTopicOf(groups.find(key.slice(at + 1))) === key.slice(0, at);
}

/** Whether a group takes every lite topic of its parent. RocketMQ: the attribute's presence says so. */
export function isWildcardGroup(group: SubscriptionGroupConfig | undefined): boolean {
  return group?.attributes.has('lite.sub.wildcard') === true;
}

/** Whether at most one client of a group subscribes to a lite topic. */
export function isExclusive(group: SubscriptionGroupConfig | undefined): boolean {
  return group?.attributes.get('lite.sub.model') === 'Exclusive';
}

/** Whether a lite topic is read from its beginning by whoever takes it over, or by the next after one that left. */
export function isReset(group: SubscriptionGroupConfig | undefined, when: 'exclusive' | 'unsubscribe'): boolean {
  return group?.attributes.get(`lite.sub.reset.offset.${when}`)?.toLowerCase() === 'true';
}

/** Most lite topics that one client of a group may subscribe to. */
export function clientQuota(group: SubscriptionGroupConfig | undefined): number {
  const quota = Number(group?.attributes.get('lite.sub.client.quota') ?? CLIENT_QUOTA);
  return quota < 0 ? Number.POSITIVE_INFINITY : quota;
}

/** Most lite topics that one client of a group is given before it fetches. */
export function maxEvents(group: SubscriptionGroupConfig | undefined, otherwise: number): number {
  const own = Number(group?.attributes.get('lite.sub.client.max.event.cnt') ?? 0);
  return own > 0 ? own : otherwise;
}

/** Parent topics, with their expiration in minutes. */
export function topicTtls(topics: TopicConfigManager): Map<string, number> {
  const ttls = new Map<string, number>();
  for (const topic of topics.all()) if (isLiteTopic(topic)) ttls.set(topic.topicName, liteExpiration(topic));
  return ttls;
}

/** Parent topics, with the groups that are bound to them. */
export function boundGroups(groups: SubscriptionGroupManager): Map<string, Set<string>> {
  const bound = new Map<string, Set<string>>();
  for (const group of groups.all()) {
    const parent = bindTopicOf(group);
    if (parent === undefined) continue;
    const names = bound.get(parent);
    if (names === undefined) bound.set(parent, new Set([group.groupName]));
    else names.add(group.groupName);
  }
  return bound;
}
