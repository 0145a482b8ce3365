// What the timer delivers is what it would be if the message were taken apart and put together anew, property by property.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '../../common/index.ts';
import { propertiesTextInJavaOrder, type StoredMessage } from '../../message/index.ts';
import { messageWith } from '../broker-fixture.test.support.ts';
import { TimerWorld } from './timer-world.test.support.ts';

const HOSTS = [Buffer.from([10, 1, 2, 3, 0, 0, 0, 99]), Buffer.from([...Array(16).fill(7), 0, 0, 1, 0])];

/** Few properties or very many, with names that collide, hosts of either family, any flag. */
function anyMessage(random: SeededRandom, topic: string, i: number, dueMs: number): ReturnType<typeof messageWith> {
  const properties = new Map([['UNIQ_KEY', `key-${i}`]]);
  const count = random.int(4) === 0 ? 60 + random.int(60) : random.int(8);
  for (let k = 0; k < count; k++) {
    const name = random.int(3) === 0 ? `Aa${k % 3}BB` : `p${random.int(200)}é`;
    properties.set(name, `value ${random.int(1000)} ü`);
  }
  if (random.int(2) === 0) properties.set('TAGS', 'A');
  if (random.int(4) === 0) properties.set('TIMER_ENQUEUE_MS', 'of another life');
  properties.set('TIMER_DELIVER_MS', String(dueMs));
  properties.set('REAL_TOPIC', topic);
  properties.set('TIMER_OUT_MS', String(dueMs));
  properties.set('REAL_QID', String(random.int(2)));
  return messageWith({
    topic: 'rmq_sys_wheel_timer',
    flag: random.int(1000),
    bornTimestamp: 1 + random.int(1000),
    bornHost: HOSTS[random.int(2)]!,
    reconsumeTimes: random.int(3),
    body: Buffer.from(`body ${i}`.repeat(random.int(20))),
    properties,
  });
}

test('messages of any shape arrive as RocketMQ writes them, whether on time or late', async () => {
  for (const enabledAppendPropCRC of [false, true]) {
    const random = new SeededRandom(7);
    const w = await new TimerWorld({}, { enabledAppendPropCRC }).start();
    const now = w.clock.now();
    const sent: Array<ReturnType<typeof anyMessage>> = [];
    for (let i = 0; i < 80; i++) {
      const message = anyMessage(random, i % 3 === 0 ? 'U' : 'T', i, now + (i % 5 === 0 ? -2000 : 3000));
      sent.push(message);
      await w.broker.put(message);
    }
    w.broker.context.timer.noted();
    await w.pass(4000);
    const arrived: StoredMessage[] = [];
    for (const topic of ['T', 'U']) for (const queueId of [0, 1]) arrived.push(...(await w.drain(topic, queueId)));
    assert.equal(arrived.length, sent.length);
    for (const message of sent) {
      const key = message.properties.get('UNIQ_KEY');
      const got: StoredMessage = arrived.find(({ properties }) => properties.get('UNIQ_KEY') === key)!;
      const wanted = new Map(message.properties);
      wanted.set('TIMER_ENQUEUE_MS', got.properties.get('TIMER_ENQUEUE_MS')!);
      wanted.set('TIMER_DEQUEUE_MS', String(got.storeTimestamp));
      got.properties.delete('__CRC32#');
      assert.match(wanted.get('TIMER_ENQUEUE_MS')!, /^\d{13,19}$/);
      assert.equal(
        [...got.properties].map(([k, v]) => `${k}\u0001${v}\u0002`).join(''),
        propertiesTextInJavaOrder(wanted),
      );
      assert.deepEqual([...got.body], [...message.body]);
      assert.deepEqual(
        [got.topic, String(got.queueId), got.flag, got.bornTimestamp, got.reconsumeTimes],
        [wanted.get('REAL_TOPIC'), wanted.get('REAL_QID'), message.flag, message.bornTimestamp, message.reconsumeTimes],
      );
      assert.equal(
        got.bornHost,
        message.bornHost.length === 8 ? '10.1.2.3:99' : '[707:707:707:707:707:707:707:707]:256',
      );
    }
    await w.stop();
  }
});
