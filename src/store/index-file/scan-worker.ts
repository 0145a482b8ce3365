// The program of the thread that scans one index file (scan-ahead.ts).

import { parentPort, workerData } from 'node:worker_threads';
import { nodeFileSystem } from '../../io/index.ts';
import { IndexLayout } from './index-format.ts';
import { scanUnits } from './index-scan.ts';
import type { ScanTask } from './scan-ahead.ts';

const { path, slots, units, minOffset, maxOffset } = workerData as ScanTask;
const file = nodeFileSystem.open(path, 'read');
const scan = scanUnits(file, new IndexLayout(slots, units), minOffset, maxOffset);
file.close();
parentPort!.postMessage(scan, [scan.slots.buffer as ArrayBuffer]);
