// A process that makes a store with the store library, or opens one and says what that took. `restart.ts` runs it: how long an
// open takes is only true in a process of its own, and a kill needs one.
//
//   node dist/bench/store-process.js '{"do":"fill","dir":...}'      ends by SIGKILL with "end":"kill"
//   node dist/bench/store-process.js '{"do":"open","dir":...}'      prints OpenFigures as JSON
//   node dist/bench/store-process.js '{"do":"light","dir":...}'     prints LightFigures as JSON

/** What to put into a new store, and how its process ends. */
export interface FillOrder {
  do: 'fill';
  dir: string;
  /** Until the log has so many bytes, or so many messages lie in each queue. */
  bytes?: number;
  perQueue?: number;
  topics: number;
  /** Queues of each topic. */
  queues: number;
  bodyBytes: number;
  keys: boolean;
  end: 'stop' | 'kill';
}

/** Opens a store, puts one message, and ends. */
export interface OpenOrder {
  do: 'open';
  dir: string;
  end: 'stop' | 'kill';
  /** Messages to put after the first, over all queues in turn, for what a put costs. */
  puts?: number;
  topics?: number;
  queues?: number;
}

/** Puts messages that each go to a light queue, in a new store, and ends. */
export interface LightOrder {
  do: 'light';
  dir: string;
  /** Light queues, which the messages go to in turn; 0: to none. */
  light: number;
  puts: number;
  end: 'stop' | 'kill';
}

/** What light queues cost. */
export interface LightFigures {
  /** ns of CPU for each message, dispatch included. */
  putNs: number;
  rssMb: number;
  descriptors: number;
}

/** What an open took. Times in ms since the process began. */
export interface OpenFigures {
  openedMs: number;
  firstPutMs: number;
  scannedMb: number;
  records: number;
  reason: string;
  dispatched: number;
  /** Parts of the open, in ms. */
  phases: Record<string, number>;
  rssMb: number;
  descriptors: number;
  /** ns of CPU for each of `puts`, dispatch included. */
  putNs: number;
  descriptorsUnderPuts: number;
  rssUnderPutsMb: number;
  stopMs: number;
}
