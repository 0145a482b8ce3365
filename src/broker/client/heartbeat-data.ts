// The body of a heartbeat. Java and Go send enums by name, C++ by number, with numbers as text and without the sets that are empty.
// RocketMQ: HeartbeatData, ConsumerData, ProducerData.

import { GantryError } from '../../common/index.ts';
import { buildSubscription, isTagType, type SubscriptionData } from '../../filter/index.ts';
import { type JsonObject, parseJson } from '../../remoting/index.ts';
import { readBoolean, readInteger, readList, readObject, readText } from '../json-fields.ts';
import type { ConsumeBehaviour, ConsumeFromWhere, ConsumeType, MessageModel } from './consumer-group-info.ts';

export interface ConsumerData {
  readonly groupName: string;
  readonly behaviour: ConsumeBehaviour;
  readonly unitMode: boolean;
  readonly subscriptions: readonly SubscriptionData[];
}

export interface HeartbeatData {
  readonly clientId: string;
  /** 0: a heartbeat of the first version. */
  readonly heartbeatFingerprint: number;
  /** The subscriptions are left out and those known stay. */
  readonly withoutSub: boolean;
  readonly producerGroups: readonly string[];
  readonly consumers: readonly ConsumerData[];
}

const CONSUME_TYPES: readonly ConsumeType[] = ['CONSUME_ACTIVELY', 'CONSUME_PASSIVELY', 'CONSUME_POP'];
const MESSAGE_MODELS: readonly MessageModel[] = ['BROADCASTING', 'CLUSTERING', 'LITE_SELECTIVE'];
const CONSUME_FROM: readonly ConsumeFromWhere[] = [
  'CONSUME_FROM_LAST_OFFSET',
  'CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST',
  'CONSUME_FROM_MIN_OFFSET',
  'CONSUME_FROM_MAX_OFFSET',
  'CONSUME_FROM_FIRST_OFFSET',
  'CONSUME_FROM_TIMESTAMP',
];

/** A name, a number, or a number as text; anything else is undefined. */
function readEnum<T extends string>(json: JsonObject, field: string, names: readonly T[]): T | undefined {
  const text = readText(json, field);
  if (text === undefined) return undefined;
  return /^\d+$/.test(text) ? names[Number(text)] : names.find((name) => name === text);
}

/** The object that a body holds. @throws GantryError JSON or CONFIG_FILE if it holds none. */
export function bodyObject(body: Uint8Array): JsonObject {
  const json = body.length === 0 ? undefined : parseJson(body);
  if (json === null || typeof json !== 'object' || Array.isArray(json) || json instanceof Map) {
    throw new GantryError('JSON', 'the body holds no JSON object', { responseCode: 1 });
  }
  return json;
}

/** @throws GantryError JSON or CONFIG_FILE (both answered with code 1) if the body is no heartbeat. */
export function readHeartbeat(body: Uint8Array): HeartbeatData {
  const json = bodyObject(body);
  const groups = objects(json, 'producerDataSet').map((producer) => readText(producer, 'groupName'));
  return {
    clientId: readText(json, 'clientID') ?? '',
    heartbeatFingerprint: readInteger(json, 'heartbeatFingerprint') ?? 0,
    withoutSub: readBoolean(json, 'withoutSub') ?? false,
    producerGroups: groups.filter((group) => group !== undefined),
    consumers: objects(json, 'consumerDataSet').map(readConsumer),
  };
}

function readConsumer(json: JsonObject): ConsumerData {
  return {
    groupName: readText(json, 'groupName') ?? '',
    behaviour: {
      consumeType: readEnum(json, 'consumeType', CONSUME_TYPES),
      messageModel: readEnum(json, 'messageModel', MESSAGE_MODELS),
      consumeFromWhere: readEnum(json, 'consumeFromWhere', CONSUME_FROM),
    },
    unitMode: readBoolean(json, 'unitMode') ?? false,
    subscriptions: objects(json, 'subscriptionDataSet').map(readSubscription),
  };
}

/** A subscription as clients send it. The hashes of the tags are the client's; if it sent none they come from the expression. */
export function readSubscription(json: JsonObject): SubscriptionData {
  const topic = readText(json, 'topic') ?? '';
  const subString = readText(json, 'subString') ?? '*';
  const type = readText(json, 'expressionType');
  const subVersion = readInteger(json, 'subVersion') ?? 0;
  const codes = (readList(json, 'codeSet') ?? []).map(Number);
  const tags = (readList(json, 'tagsSet') ?? []).map(String);
  const classFilterMode = readBoolean(json, 'classFilterMode') ?? false;
  if (codes.length === 0 && isTagType(type)) {
    return { ...buildSubscription(topic, subString, type, subVersion), classFilterMode };
  }
  return {
    topic,
    subString,
    tagsSet: tags,
    codeSet: codes,
    subVersion,
    expressionType: isTagType(type) ? 'TAG' : type!,
    classFilterMode,
  };
}

/** As `objects`, where the field must be there. @throws GantryError JSON. */
export function objectsOf(json: JsonObject, field: string): JsonObject[] {
  if (readList(json, field) === undefined) {
    throw new GantryError('JSON', `the body has no list ${field}`, { responseCode: 1 });
  }
  return objects(json, field);
}

/** The objects of a list field; elements that are none are passed over. */
export function objects(json: JsonObject, field: string): JsonObject[] {
  return (readList(json, field) ?? []).map((value) => readObject({ [field]: value } as JsonObject, field) ?? {});
}
