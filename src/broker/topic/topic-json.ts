// A topic's config as JSON, in config/topics.json and in the bodies of requests and answers.

import type { JsonObject } from '../../remoting/index.ts';
import { readBoolean, readInt32, readObject, readStringMap, readText } from '../json-fields.ts';
import type { PrettyBean } from '../pretty-json.ts';
import { TopicConfig } from './topic-config.ts';

/** A topic as a JSON object, in files and in bodies. */
export function topicFields(topic: TopicConfig): PrettyBean {
  return {
    attributes: topic.attributes,
    order: topic.order,
    perm: topic.perm,
    readQueueNums: topic.readQueueNums,
    topicFilterType: topic.topicFilterType,
    topicName: topic.topicName,
    topicSysFlag: topic.topicSysFlag,
    writeQueueNums: topic.writeQueueNums,
  };
}

/**
 * A topic from a JSON object; missing fields take RocketMQ's defaults, a missing name takes `name`. Undefined for null.
 * @throws GantryError CONFIG_FILE if a field has the wrong kind
 */
export function readTopicConfig(value: unknown, name: string): TopicConfig | undefined {
  const json = readObject({ [name]: value } as JsonObject, name);
  if (json === undefined) return undefined;
  const defaults = new TopicConfig(readText(json, 'topicName') ?? name);
  return defaults.with({
    readQueueNums: readInt32(json, 'readQueueNums') ?? defaults.readQueueNums,
    writeQueueNums: readInt32(json, 'writeQueueNums') ?? defaults.writeQueueNums,
    perm: readInt32(json, 'perm') ?? defaults.perm,
    topicFilterType: readText(json, 'topicFilterType') ?? defaults.topicFilterType,
    topicSysFlag: readInt32(json, 'topicSysFlag') ?? defaults.topicSysFlag,
    order: readBoolean(json, 'order') ?? defaults.order,
    attributes: readStringMap(json, 'attributes'),
  });
}
