// Attributes of topics and groups: which there are, which values they take, and how a request's `+name` and `-name` change a set of them.
// RocketMQ: AttributeUtil, AttributeParser, TopicAttributes, SubscriptionGroupAttributes. The texts of refusals are what mqadmin shows.

import { GantryError, javaStringHash } from '../../common/index.ts';

/** One attribute: `verify` says in words what is wrong with a value. */
export interface Attribute {
  /** Whether it may be set once the topic or group exists. */
  readonly changeable: boolean;
  readonly verify: (value: string) => string | undefined;
}

function oneOf(values: readonly string[], changeable: boolean): Attribute {
  // RocketMQ: prints a HashSet of at most 12 names, hence in slots of 16.
  const slot = (value: string): number => {
    const hash = javaStringHash(value);
    return (hash ^ (hash >>> 16)) & 15;
  };
  const shown = [...values].sort((a, b) => slot(a) - slot(b)).join(', ');
  return {
    changeable,
    verify: (value) => (values.includes(value) ? undefined : `value is not in set: [${shown}]`),
  };
}

const LONG_MAX = 2n ** 63n - 1n;

function inRange(min: bigint, max: bigint): Attribute {
  return {
    changeable: true,
    verify(value) {
      if (!/^[+-]?\d+$/.test(value)) return `For input string: "${value}"`;
      const number = BigInt(value);
      return number < min || number > max ? `value is not in range(${min}, ${max})` : undefined;
    },
  };
}

const ANY_TEXT: Attribute = { changeable: true, verify: () => undefined };
const BOOLEAN: Attribute = {
  changeable: true,
  verify: (value) => (/^(true|false)$/i.test(value) ? undefined : 'boolean attribute format is wrong.'),
};

export const TOPIC_ATTRIBUTES: ReadonlyMap<string, Attribute> = new Map([
  ['queue.type', oneOf(['BatchCQ', 'SimpleCQ'], false)],
  ['cleanup.policy', oneOf(['DELETE', 'COMPACTION'], false)],
  ['message.type', oneOf(['UNSPECIFIED', 'NORMAL', 'FIFO', 'DELAY', 'TRANSACTION', 'PRIORITY', 'LITE', 'MIXED'], true)],
  ['reserve.time', inRange(-1n, LONG_MAX)],
  ['lite.topic.expiration', inRange(-1n, 43_200n)],
]);

export const GROUP_ATTRIBUTES: ReadonlyMap<string, Attribute> = new Map([
  ['priority.factor', inRange(0n, 100n)],
  ['lite.bind.topic', ANY_TEXT],
  ['lite.sub.client.quota', inRange(-1n, LONG_MAX)],
  ['lite.sub.model', oneOf(['Shared', 'Exclusive'], true)],
  ['lite.sub.reset.offset.exclusive', BOOLEAN],
  ['lite.sub.reset.offset.unsubscribe', BOOLEAN],
  ['lite.sub.client.max.event.cnt', inRange(10n, LONG_MAX)],
  ['lite.sub.wildcard', ANY_TEXT],
]);

function refuse(text: string): GantryError {
  return new GantryError('CONFIG_VALUE', text, { responseCode: 1 });
}

/**
 * Parses `+name=value,-name`, as it stands in the header of a topic request.
 * @throws GantryError CONFIG_VALUE (responseCode 1) on anything else.
 */
export function parseAttributes(text: string | undefined): Map<string, string> {
  const changes = new Map<string, string>();
  if (text === undefined || text.length === 0) return changes;
  for (const part of text.split(',')) {
    const at = part.indexOf('=');
    let name = part;
    let value = '';
    if (at >= 0) {
      name = part.slice(0, at);
      value = part.slice(at + 1);
      if (!name.includes('+')) throw refuse(`add/alter attribute format is wrong: ${name}`);
    } else if (!name.includes('-')) {
      throw refuse(`delete attribute format is wrong: ${name}`);
    }
    if (changes.has(name)) throw refuse(`key duplication: ${name}`);
    changes.set(name, value);
  }
  return changes;
}

/**
 * The attributes after a request's changes.
 * @param create whether the topic or group is new: then only `+` is allowed.
 * @throws GantryError CONFIG_VALUE (responseCode 1) on an unknown name, a wrong value or a change that is not allowed.
 */
export function alterAttributes(
  create: boolean,
  known: ReadonlyMap<string, Attribute>,
  current: ReadonlyMap<string, string>,
  changes: ReadonlyMap<string, string>,
): Map<string, string> {
  const result = new Map(current);
  const seen = new Set<string>();
  for (const [key, value] of changes) {
    const sign = key.charAt(0);
    const name = key.slice(1);
    if (name.length === 0 || name.includes('+') || name.includes('-')) throw refuse('kv string format wrong.');
    if (seen.has(name)) throw refuse(`alter duplication key. key: ${name}`);
    seen.add(name);
    if (create && sign !== '+') {
      throw refuse(`only add attribute is supported while creating topic. key: ${name}`);
    }
    if (sign !== '+' && sign !== '-') throw refuse(`wrong format key: ${name}`);
    if (sign === '-' && !current.has(name)) throw refuse(`attempt to delete a nonexistent key: ${name}`);
    const attribute = known.get(name);
    if (attribute === undefined) throw refuse(`unsupported key: ${name}`);
    if (!create && !attribute.changeable) {
      throw refuse(`attempt to update an unchangeable attribute. key: ${name}`);
    }
    if (sign === '-') {
      result.delete(name);
      continue;
    }
    const fault = attribute.verify(value);
    if (fault !== undefined) throw refuse(fault);
    result.set(name, value);
  }
  return result;
}
