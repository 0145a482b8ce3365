// Messages that are delivered only if the sender's own work succeeded: one committed, one rolled back, and one whose verdict got lost, after
// which the broker asks (by default six seconds later at the earliest).
//
//   node dist/examples/transaction.js [topic]
//
// In a project of your own: import { TransactionProducer } from 'gantry/client';

import { TransactionProducer } from '../src/client/index.ts';

const topic = process.argv[2] ?? 'example';
/** What a database would know. */
const paid = new Set<string>();
let asked = (): void => {};
const wasAsked = new Promise<void>((resolve) => {
  asked = resolve;
});

const producer = new TransactionProducer({
  namesrvAddr: process.env['NAMESRV_ADDR'] ?? '127.0.0.1:9876',
  group: 'PID_example_payments',
  check: async (message) => {
    const order = message.keys[0] ?? '';
    const state = paid.has(order) ? 'COMMIT_MESSAGE' : 'ROLLBACK_MESSAGE';
    console.log(`the broker asks after ${order}: ${state}`);
    asked();
    return state;
  },
});
await producer.start();

try {
  const first = await producer.sendInTransaction({ topic, body: 'paid', keys: 'order-1' }, async ({ keys }) => {
    paid.add(String(keys));
    return 'COMMIT_MESSAGE';
  });
  console.log(`order-1: ${first.state} ${first.msgId}`);

  const second = await producer.sendInTransaction(
    { topic, body: 'paid', keys: 'order-2' },
    async () => 'ROLLBACK_MESSAGE',
  );
  console.log(`order-2: ${second.state}`);

  const third = await producer.sendInTransaction({ topic, body: 'paid', keys: 'order-3' }, async ({ keys }) => {
    paid.add(String(keys));
    throw new Error('the connection broke just then');
  });
  console.log(`order-3: ${third.state}`);
  await wasAsked;
} finally {
  await producer.close();
}
