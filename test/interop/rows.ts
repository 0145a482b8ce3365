// What the rows of client programs tell of messages.

import type { Row } from './child.ts';

/** The rows of messages that were received, pulled or read from a store. */
export function received(rows: readonly Row[]): Row[] {
  return rows.filter((row) => row['received'] === true);
}

/** The rows of sends that were answered. */
export function sent(rows: readonly Row[]): Row[] {
  return rows.filter((row) => row['sent'] !== undefined);
}

export function propertiesOf(row: Row): Record<string, string> {
  return row['properties'] as Record<string, string>;
}

/** Which of the messages of `produce` it is. */
export function indexOf(row: Row): number {
  return Number(propertiesOf(row)['index']);
}

/** Their indexes, rising. */
export function indexesOf(rows: readonly Row[]): number[] {
  return rows.map(indexOf).sort((a, b) => a - b);
}

/** The whole numbers of `[from, to)`. */
export function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, i) => from + i);
}
