// The program of a thread that parses shares of the log: one at a time, until it is told to end.

import { parentPort } from 'node:worker_threads';
import { Share } from './share.ts';
import type { ShareAnswer, ShareTask } from './share-parser.ts';

parentPort?.on('message', (task: ShareTask) => {
  const share = new Share(task.memory);
  share.base = task.base;
  share.length = task.length;
  share.verify = task.verify;
  share.parse();
  const answer: ShareAnswer = { id: task.id, count: share.count };
  parentPort!.postMessage(answer);
});
