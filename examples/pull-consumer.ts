// Reads everything that a topic holds now, from the start, and stops. Progress is saved under the group, so a second run finds nothing old.
//
//   node dist/examples/pull-consumer.js [topic]
//
// In a project of your own: import { PullConsumer } from 'gantry/client';

import { PullConsumer } from '../src/client/index.ts';

const topic = process.argv[2] ?? 'example';
const consumer = new PullConsumer({
  namesrvAddr: process.env['NAMESRV_ADDR'] ?? '127.0.0.1:9876',
  group: 'GID_example_reader',
  consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
});
await consumer.start();

try {
  await consumer.subscribe(topic);
  for (;;) {
    const messages = await consumer.poll(2000);
    if (messages.length === 0) break;
    for (const message of messages) console.log(`${message.queue.queueId}:${message.queueOffset} ${message.text()}`);
    await consumer.commit();
  }
} finally {
  await consumer.close();
}
