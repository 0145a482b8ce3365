// Takes messages a few at a time and acknowledges each once its work is done: no queues, no offsets. What takes longer than expected asks for
// more time; what fails comes again, to any member of the group. Start several: they share the messages one by one.
//
//   node dist/examples/simple-consumer.js [topic]
//
// In a project of your own: import { SimpleConsumer } from 'gantry/client';

import { SimpleConsumer } from '../src/client/index.ts';

const topic = process.argv[2] ?? 'example';
const consumer = new SimpleConsumer({
  namesrvAddr: process.env['NAMESRV_ADDR'] ?? '127.0.0.1:9876',
  group: 'GID_example_simple',
  consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
  awaitDurationMs: 3000,
});
await consumer.start();

try {
  await consumer.subscribe(topic);
  for (;;) {
    const messages = await consumer.receive(16, 30_000);
    if (messages.length === 0) break;
    for (const message of messages) {
      // Work that may take longer than the 30 s that were asked for.
      if (message.keys.includes('large')) await consumer.changeInvisibleDuration(message, 300_000);
      console.log(`try ${message.reconsumeTimes + 1}: ${message.text()}`);
    }
    await consumer.ackAll(messages);
  }
} finally {
  await consumer.close();
}
