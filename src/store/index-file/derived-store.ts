// What recovery, flushing and the checkpoint need of a store that is built from the CommitLog. How a record is dispatched to one is
// its own affair (each wants other parts of a record, on the hot path); everything else is the same.

import type { Done } from '../../io/index.ts';

export interface DerivedStore {
  /** For reports. */
  readonly name: string;
  /** Every record that starts below this physical offset is durably in the store; dispatch goes on from here after a start. */
  readonly durableOffset: number;
  /** Drops what came from records that start at or beyond the offset; durable when the promise resolves. */
  truncateTo(physicalOffset: number): Promise<void>;
  /** Makes what was dispatched so far durable, and `durableOffset` follow. */
  flush(done: Done): void;
  close(): Promise<void>;
  /** Removes all files. */
  destroy(): Promise<void>;
}
