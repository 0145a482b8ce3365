// Texts to typed values, by the row of the table.

import type { Setting, SettingValue } from './setting.ts';

const INT_MAX = 2_147_483_647;

/** What a setting takes, for a person: "a whole number from 1 to 65535". */
export function allowedValues(setting: Setting): string {
  const { type, min, max, unit } = setting;
  if (type === 'bool') return 'true or false';
  if (type === 'text') return 'any text';
  if (typeof type !== 'string') return oneOf(type);
  const kind = type === 'double' ? 'a number' : 'a whole number';
  const low = min ?? (type === 'int' ? -INT_MAX - 1 : type === 'long' ? Number.MIN_SAFE_INTEGER : undefined);
  const high = max ?? (type === 'int' ? INT_MAX : type === 'long' ? Number.MAX_SAFE_INTEGER : undefined);
  const range = low === undefined ? '' : high === undefined ? ` of at least ${low}` : ` from ${low} to ${high}`;
  return `${kind}${range}${unit === '' ? '' : ` (${unit})`}`;
}

function oneOf(names: readonly string[]): string {
  return `${names.slice(0, -1).join(', ')} or ${names[names.length - 1]}`;
}

/**
 * The value that a text stands for; undefined if the setting does not take it. Blanks around it do not count.
 * RocketMQ: drops a value that it cannot read without a word, a number with a blank behind it among them.
 */
export function parseValue(setting: Setting, text: string): SettingValue | undefined {
  const trimmed = text.trim();
  const { type } = setting;
  if (type === 'text') return trimmed;
  if (type === 'bool') {
    const lower = trimmed.toLowerCase();
    return lower === 'true' ? true : lower === 'false' ? false : undefined;
  }
  if (typeof type !== 'string') return type.includes(trimmed) ? trimmed : undefined;
  const pattern = type === 'double' ? /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/ : /^[+-]?\d+$/;
  if (!pattern.test(trimmed)) return undefined;
  const value = Number(trimmed);
  const limit = type === 'int' ? INT_MAX : type === 'long' ? Number.MAX_SAFE_INTEGER : Number.MAX_VALUE;
  const least = type === 'int' ? -INT_MAX - 1 : -limit;
  if (value > Math.min(limit, setting.max ?? limit) || value < Math.max(least, setting.min ?? least)) return undefined;
  return value;
}
