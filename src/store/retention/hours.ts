// The hours of the day in which expired files go.

import { GantryError } from '../../common/index.ts';

/**
 * Hours of `deleteWhen`: "04", or several with semicolons; empty: none. RocketMQ: UtilAll#isItTimeToDo, which fails every ten seconds
 * on a value that is no number. @throws GantryError CONFIG_VALUE.
 */
export function parseHours(deleteWhen: string): number[] {
  const parts = deleteWhen.split(';').filter((part) => part.trim() !== '');
  return parts.map((part) => {
    const hour = Number(part);
    if (!/^\s*\d{1,2}\s*$/.test(part) || hour > 23) {
      throw new GantryError(
        'CONFIG_VALUE',
        `deleteWhen=${deleteWhen}: use hours from 00 to 23, several with a semicolon`,
      );
    }
    return hour;
  });
}

/** Whether the local hour at `nowMs` is one of `deleteWhen`; the whole hour counts. A value that cannot be read has none. */
export function isTimeToDelete(deleteWhen: string, nowMs: number): boolean {
  const hour = new Date(nowMs).getHours();
  return deleteWhen.split(';').some((part) => part.trim() !== '' && Number(part) === hour);
}
