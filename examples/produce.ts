// Sends a few messages: one by one, with a delay, by sharding key, and as a batch.
//
//   node dist/examples/produce.js [topic]
//
// In a project of your own: import { Producer } from 'gantry/client';

import { Producer } from '../src/client/index.ts';

const topic = process.argv[2] ?? 'example';
const producer = new Producer({
  namesrvAddr: process.env['NAMESRV_ADDR'] ?? '127.0.0.1:9876',
  group: 'PID_example',
});
await producer.start();

try {
  const result = await producer.send({ topic, body: 'hello', tags: 'greeting', keys: ['hello-1'] });
  console.log(`${result.status} ${result.msgId} at ${result.queue.queueId}:${result.queueOffset}`);

  // Level 3 is ten seconds with a broker's default levels.
  await producer.send({ topic, body: 'hello again', tags: 'greeting', delayLevel: 3 });

  // Messages with one sharding key go to one queue, and so keep their order.
  for (const step of ['created', 'paid', 'shipped']) {
    await producer.send({ topic, body: `order 17 ${step}`, tags: 'order', shardingKey: 'order-17' });
  }

  const batch = await producer.sendBatch([1, 2, 3].map((n) => ({ topic, body: `number ${n}`, tags: 'number' })));
  console.log(`${batch.status}: ${batch.msgIds.length} messages from offset ${batch.queueOffset} on`);
} finally {
  await producer.close();
}
