// The thread of a sync lane (node-sync-lane.ts): sleeps until a descriptor is handed over, syncs it, tells. It holds nothing of its own:
// descriptors belong to the process.

import * as fs from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { LaneState, LaneWord } from './sync-lane-words.ts';

const words = workerData as Int32Array;
let seen = 0;
for (;;) {
  Atomics.wait(words, LaneWord.REQUEST, seen);
  const request = Atomics.load(words, LaneWord.REQUEST);
  if (request < 0) break;
  if (request === seen) continue;
  seen = request;
  let failure: string | null = null;
  Atomics.store(words, LaneWord.STATE, LaneState.SYNCING);
  try {
    fs.fdatasyncSync(words[LaneWord.DESCRIPTOR]!);
    Atomics.store(words, LaneWord.STATE, LaneState.SYNCED);
  } catch (error) {
    Atomics.store(words, LaneWord.STATE, LaneState.FAILED);
    failure = (error as NodeJS.ErrnoException).code ?? String(error);
  }
  parentPort!.postMessage(failure);
}
parentPort!.close();
