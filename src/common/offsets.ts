// Positions in the store, as branded numbers: a physical offset and a queue offset never mix by accident.
// Numbers are exact to 2^53 - 1, which is 8 PiB of log in one broker; `bytes.ts` checks that on decode.

/** A byte position in the CommitLog's whole address space (not in one file). */
export type PhysicalOffset = number & { readonly __brand: 'PhysicalOffset' };

/** The ordinal of a message inside one topic and queue; a `maxOffset` is exclusive. */
export type QueueOffset = number & { readonly __brand: 'QueueOffset' };

/** Marks a number as a position in the CommitLog. */
export function physicalOffset(value: number): PhysicalOffset {
  return value as PhysicalOffset;
}

/** Marks a number as an ordinal in a queue. */
export function queueOffset(value: number): QueueOffset {
  return value as QueueOffset;
}

/** Moves an offset by `n` and keeps its brand. */
export function advance<T extends PhysicalOffset | QueueOffset>(offset: T, n: number): T {
  return (offset + n) as T;
}
