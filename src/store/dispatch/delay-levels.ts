// The delay levels, as far as the store needs them: the ConsumeQueue of the schedule topic keeps a delivery time instead of a tag hash.

import { GantryError } from '../../common/index.ts';

export const SCHEDULE_TOPIC = 'SCHEDULE_TOPIC_XXXX';

const UNIT_MS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Parses `messageDelayLevel` ("1s 5s 10s ..."): index = level - 1, value = milliseconds.
 * @throws GantryError CONFIG_VALUE for a part that is no number with s, m, h or d behind it.
 */
export function parseDelayLevels(text: string): number[] {
  return text
    .trim()
    .split(/\s+/)
    .map((part) => {
      const match = /^(\d+)([smhd])$/.exec(part);
      if (match === null) {
        throw new GantryError('CONFIG_VALUE', `messageDelayLevel: "${part}" is no time such as 5s, 10m, 2h or 1d`);
      }
      return Number(match[1]) * UNIT_MS[match[2]!]!;
    });
}

/** The level in a record's DELAY, `bytes[start, end)`. */
export function delayLevel(bytes: Uint8Array, start: number, end: number): number {
  let level = 0;
  for (let i = start; i < end; i++) level = level * 10 + (bytes[i]! - 0x30);
  return level;
}

/** Delivery time of a record in the schedule topic; undefined if `level` asks for none. RocketMQ: CommitLog#checkMessageAndReturnSize. */
export function deliveryTime(levels: readonly number[], level: number, storeTimestamp: number): number | undefined {
  if (!(level > 0)) return undefined;
  return storeTimestamp + (levels[Math.min(level, levels.length) - 1] ?? 1000);
}
