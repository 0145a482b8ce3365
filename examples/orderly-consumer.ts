// Consumes a topic in order until Ctrl-C: the messages of a queue one after the other, by one member of the group only. Start it twice and the
// queues are shared. What a producer sends with one shardingKey lies in one queue (see produce.ts).
//
//   node dist/examples/orderly-consumer.js [topic] [tags]
//
// In a project of your own: import { PushConsumer } from 'gantry/client';

import { PushConsumer } from '../src/client/index.ts';

const topic = process.argv[2] ?? 'example';
const consumer = new PushConsumer({
  namesrvAddr: process.env['NAMESRV_ADDR'] ?? '127.0.0.1:9876',
  group: 'GID_example_orderly',
  consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
  maxReconsumeTimes: 16,
  orderlyListener: async ([message]) => {
    console.log(`${message!.queue.queueId}:${message!.queueOffset} ${message!.text()}`);
    // SUSPEND_CURRENT_QUEUE_A_MOMENT has it delivered again in a second; what lies behind it waits.
    return 'SUCCESS';
  },
});
consumer.subscribe(topic, process.argv[3] ?? '*');
await consumer.start();
console.log(`consuming ${topic} in order: ${consumer.assignment.length} queues`);

process.once('SIGINT', () => {
  void consumer.close();
});
