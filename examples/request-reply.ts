// Asks a question with a message and waits for the answer. Here both sides are in one process; mostly the consumer is elsewhere.
//
//   node dist/examples/request-reply.js [topic]
//
// In a project of your own: import { Producer, PushConsumer } from 'gantry/client';

import { Producer, PushConsumer } from '../src/client/index.ts';

const topic = process.argv[2] ?? 'example-questions';
const namesrvAddr = process.env['NAMESRV_ADDR'] ?? '127.0.0.1:9876';
const producer = new Producer({ namesrvAddr, group: 'PID_example_requests', defaultTopicQueueNums: 1 });
const consumer = new PushConsumer({
  namesrvAddr,
  group: 'GID_example_requests',
  listener: async ([message]) => {
    if (message!.properties.has('REPLY_TO_CLIENT')) {
      await producer.reply(message!, `${message!.text().length} characters`);
    }
    return 'CONSUME_SUCCESS';
  },
});
await producer.start();

try {
  // So that the topic is there before somebody listens.
  await producer.send({ topic, body: 'is anybody there?' });
  consumer.subscribe(topic);
  await consumer.start();
  const reply = await producer.request({ topic, body: 'how long is this?' }, { timeoutMs: 20_000 });
  console.log(`the answer: ${reply.text()}`);
} finally {
  await consumer.close();
  await producer.close();
}
