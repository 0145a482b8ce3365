// Messages that are delivered later: after a delay level, after some seconds, at a time. A timer message can be recalled while it waits, if the
// broker allows that (recallMessageEnable).
//
//   node dist/examples/delayed.js [topic]
//
// In a project of your own: import { Producer } from 'gantry/client';

import { BrokerError, Producer, parseRecallHandle } from '../src/client/index.ts';

const topic = process.argv[2] ?? 'example';
const producer = new Producer({
  namesrvAddr: process.env['NAMESRV_ADDR'] ?? '127.0.0.1:9876',
  group: 'PID_example_delays',
});
await producer.start();

try {
  // Level 2 is five seconds with a broker's default levels.
  console.log((await producer.send({ topic, body: 'by level', delayLevel: 2 })).status);
  console.log((await producer.send({ topic, body: 'in 3 s', delaySeconds: 3 })).status);
  console.log((await producer.send({ topic, body: 'at its time', deliverAt: Date.now() + 4000 })).status);

  const { recallHandle } = await producer.send({ topic, body: 'never mind', delaySeconds: 60 });
  if (recallHandle === undefined) console.log('the broker gives no recall handles');
  else {
    console.log(`due at ${new Date(parseRecallHandle(recallHandle).timestamp).toISOString()}`);
    console.log(`recalled ${await producer.recall(topic, recallHandle)}`);
  }
} catch (error) {
  if (!(error instanceof BrokerError)) throw error;
  console.log(`the broker refused: ${error.remark}`);
} finally {
  await producer.close();
}
