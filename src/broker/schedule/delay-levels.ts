// The delay levels that a message can ask for: `1s 5s 10s ...`, level 1 being the first. RocketMQ: ScheduleMessageService#parseDelayLevel.

import { GantryError } from '../../common/index.ts';

const UNIT_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Delays in ms; index 0 is level 1.
 * @throws GantryError CONFIG_VALUE if the text is not numbers with units s, m, h or d, with blanks between them
 */
export function parseDelayLevels(text: string): readonly number[] {
  const levels = text
    .trim()
    .split(/\s+/)
    .map((part) => {
      const match = /^(\d+)([smhd])$/.exec(part);
      if (match === null) {
        throw new GantryError(
          'CONFIG_VALUE',
          `messageDelayLevel: "${part}" is no delay; a number with s, m, h or d is expected, as in "1s 5s 1m"`,
        );
      }
      return Number(match[1]) * UNIT_MS[match[2]!]!;
    });
  return levels;
}
