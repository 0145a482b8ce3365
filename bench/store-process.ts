// The process behind restart.ts: see store-shapes.ts for what it is told.

import { readdirSync } from 'node:fs';
import { MessageStore } from '../src/store/index.ts';
import { Puts } from './store-puts.ts';
import type { FillOrder, LightFigures, LightOrder, OpenFigures, OpenOrder } from './store-shapes.ts';

const order = JSON.parse(process.argv[2]!) as FillOrder | OpenOrder | LightOrder;
if (order.do === 'fill') await fill(order);
else process.stdout.write(`${JSON.stringify(await (order.do === 'open' ? open(order) : light(order)))}\n`);
if (order.end === 'kill') process.kill(process.pid, 'SIGKILL');

async function fill(order: FillOrder): Promise<void> {
  const store = await MessageStore.open({ storePathRootDir: order.dir });
  const queues = order.topics * order.queues;
  const messages = (order.perQueue ?? Number.POSITIVE_INFINITY) * queues;
  const bytes = order.bytes ?? Number.POSITIVE_INFINITY;
  const puts = new Puts(store, order.topics, order.queues, order.bodyBytes, order.keys);
  await puts.until(() => puts.count >= messages || store.watermarks.wrote >= bytes);
  if (order.end === 'stop') return await store.close();
}

async function open(order: OpenOrder): Promise<OpenFigures> {
  const store = await MessageStore.open({ storePathRootDir: order.dir });
  const openedMs = performance.now();
  const first = new Puts(store, 1, 1, 128, true);
  await first.until(() => first.count >= 1);
  const firstPutMs = performance.now();
  const { recovery } = store;
  const figures: OpenFigures = {
    openedMs,
    firstPutMs,
    scannedMb: recovery.scannedBytes / 1e6,
    records: recovery.records,
    reason: recovery.reason,
    dispatched: recovery.dispatched,
    phases: recovery.phases,
    rssMb: process.memoryUsage().rss / 1e6,
    descriptors: descriptors(),
    putNs: 0,
    descriptorsUnderPuts: 0,
    rssUnderPutsMb: 0,
    stopMs: 0,
  };
  if (order.puts !== undefined) {
    const puts = new Puts(store, order.topics!, order.queues!, 128, true);
    await puts.until(() => puts.count >= order.puts! / 4);
    const cpu = process.cpuUsage();
    await puts.until(() => puts.count >= order.puts!);
    const { user, system } = process.cpuUsage(cpu);
    figures.putNs = ((user + system) * 1000) / (order.puts * 0.75);
    figures.descriptorsUnderPuts = descriptors();
    figures.rssUnderPutsMb = process.memoryUsage().rss / 1e6;
  }
  if (order.end === 'stop') {
    const before = performance.now();
    await store.close();
    figures.stopMs = performance.now() - before;
  }
  return figures;
}

async function light({ dir, end, light, puts }: LightOrder): Promise<LightFigures> {
  const store = await MessageStore.open({ storePathRootDir: dir, enableLmq: true, enableMultiDispatch: true });
  const messages = new Puts(store, 1, 8, 128, true, light);
  // Every queue is there, and the code is warm.
  await messages.until(() => messages.count >= puts / 2);
  const cpu = process.cpuUsage();
  await messages.until(() => messages.count >= puts);
  const { user, system } = process.cpuUsage(cpu);
  const rssMb = process.memoryUsage().rss / 1e6;
  const open = descriptors();
  if (end === 'stop') await store.close();
  return { putNs: ((user + system) * 1000) / (puts / 2), rssMb, descriptors: open };
}

function descriptors(): number {
  return readdirSync('/proc/self/fd').length;
}
