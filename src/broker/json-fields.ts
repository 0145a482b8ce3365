// Reading the fields of a JSON object the way RocketMQ's readers do: a missing or null field is absent, a number may stand as text, an
// unknown field is ignored. A field of another kind is an error, since a table that is half understood must not replace a good one.

import { GantryError } from '../common/index.ts';
import type { JsonObject } from '../remoting/index.ts';

function wrong(name: string, expected: string): GantryError {
  return new GantryError('CONFIG_FILE', `field "${name}" is not ${expected}`, { responseCode: 1 });
}

/** An object field; undefined if absent. @throws GantryError CONFIG_FILE if it is something else. */
export function readObject(json: JsonObject, name: string): JsonObject | undefined {
  const value = json[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'object' || Array.isArray(value)) throw wrong(name, 'an object');
  return value as JsonObject;
}

/** A list field; undefined if absent. @throws GantryError CONFIG_FILE if it is something else. */
export function readList(json: JsonObject, name: string): readonly unknown[] | undefined {
  const value = json[name];
  if (value === undefined || value === null) return undefined;
  if (!Array.isArray(value)) throw wrong(name, 'a list');
  return value;
}

/** An integer, also one that stands as text; undefined if absent. @throws GantryError CONFIG_FILE if it is something else. */
export function readInteger(json: JsonObject, name: string): number | undefined {
  const value = json[name];
  if (value === undefined || value === null) return undefined;
  return toInteger(value, name);
}

/** An i32. @throws GantryError CONFIG_FILE if it is something else: in a table it would keep a Java broker from starting. */
export function readInt32(json: JsonObject, name: string): number | undefined {
  const value = readInteger(json, name);
  if (value !== undefined && value !== (value | 0)) throw wrong(name, 'a 32-bit number');
  return value;
}

/** RocketMQ: has i64. What is beyond 2^53 - 1 is held to that: a rounded number may lie outside i64, and then nobody can read it. */
export function toInteger(value: unknown, name: string): number {
  const text = typeof value === 'string' && /^\s*[+-]?\d+\s*$/.test(value);
  const number = typeof value === 'bigint' || text ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isInteger(number) || Math.abs(number) > 2 ** 63) {
    throw wrong(name, 'a whole number');
  }
  return Math.max(Number.MIN_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, number));
}

/** A text; undefined if absent. @throws GantryError CONFIG_FILE if it is an object or a list. */
export function readText(json: JsonObject, name: string): string | undefined {
  const value = json[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'object') throw wrong(name, 'a text');
  return String(value);
}

/** A boolean, also one that stands as text; undefined if absent. @throws GantryError CONFIG_FILE if it is something else. */
export function readBoolean(json: JsonObject, name: string): boolean | undefined {
  const value = json[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'boolean') return value;
  if (value === 1 || /^true$/i.test(String(value))) return true;
  if (value === 0 || /^false$/i.test(String(value))) return false;
  throw wrong(name, 'true or false');
}

/** A map of texts; empty if absent. @throws GantryError CONFIG_FILE if it is something else. */
export function readStringMap(json: JsonObject, name: string): Map<string, string> {
  const map = new Map<string, string>();
  const object = readObject(json, name) ?? {};
  for (const key of Object.keys(object)) {
    const value = readText(object, key);
    if (value !== undefined) map.set(key, value);
  }
  return map;
}

/** A map from integers to integers; empty if absent. @throws GantryError CONFIG_FILE if it is something else. */
export function readIntegerMap(json: JsonObject, name: string): Map<number, number> {
  const map = new Map<number, number>();
  const object = readObject(json, name) ?? {};
  for (const key of Object.keys(object)) {
    const value = readInteger(object, key);
    if (value !== undefined) map.set(toInteger(key, `${name}.${key}`), value);
  }
  return map;
}

/** A DataVersion field; undefined if absent. */
export function readDataVersion(
  json: JsonObject,
): { stateVersion: number; timestamp: number; counter: number } | undefined {
  const version = readObject(json, 'dataVersion');
  if (version === undefined) return undefined;
  return {
    stateVersion: readInteger(version, 'stateVersion') ?? 0,
    timestamp: readInteger(version, 'timestamp') ?? 0,
    counter: readInteger(version, 'counter') ?? 0,
  };
}
