// A producer for a test of brokers.

import { Producer } from '../client/index.ts';
import { silentLogger } from '../common/index.ts';
import type { TestBroker } from './index.ts';

/** Runs with a producer at the broker's name server, which is closed in the end. */
export async function withProducer<T>(server: TestBroker, run: (producer: Producer) => Promise<T>): Promise<T> {
  const producer = new Producer({ namesrvAddr: server.namesrvAddress, group: 'PG', logger: silentLogger });
  await producer.start();
  try {
    return await run(producer);
  } finally {
    await producer.close();
  }
}
