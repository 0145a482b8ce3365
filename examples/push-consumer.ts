// Consumes a topic until Ctrl-C, a message at a time. Start it twice: the two share the queues.
//
//   node dist/examples/push-consumer.js [topic] [tags]
//
// In a project of your own: import { PushConsumer } from 'gantry/client';

import { PushConsumer } from '../src/client/index.ts';

const topic = process.argv[2] ?? 'example';
const consumer = new PushConsumer({
  namesrvAddr: process.env['NAMESRV_ADDR'] ?? '127.0.0.1:9876',
  group: 'GID_example',
  consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
  listener: async (messages) => {
    for (const message of messages) {
      console.log(`${message.queue.queueId}:${message.queueOffset} [${message.tags ?? ''}] ${message.text()}`);
    }
    // To have the broker deliver them again later, answer RECONSUME_LATER or throw.
    return 'CONSUME_SUCCESS';
  },
});
consumer.subscribe(topic, process.argv[3] ?? '*');
await consumer.start();
console.log(`consuming ${topic}: ${consumer.assignment.length} queues`);

process.once('SIGINT', () => {
  void consumer.close();
});
