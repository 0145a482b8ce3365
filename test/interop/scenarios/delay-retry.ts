// Delay levels, retries and dead letters, and what becomes of them when the broker stops, is killed, or hands its store to RocketMQ
// and takes it back while messages wait.

import assert from 'node:assert/strict';
import { Child, type Row } from '../child.ts';
import { drain, ofTopic } from '../drained.ts';
import { GANTRY_ENTRY } from '../gantry-system.ts';
import { maxOffset, storedMessages } from '../probe.ts';
import { indexesOf, indexOf, propertiesOf, range, received, sent } from '../rows.ts';
import type { Env, Suite } from '../runner.ts';
import type { RunningBroker, SystemKind } from '../system.ts';
import { until } from '../wait.ts';

/** Level 2 lasts for as long as the next broker needs to start, and longer; the others are short. */
const LEVELS = '1s 12s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s';

/** Waits until a topic holds `count` messages, and answers all that it holds. */
async function arrived(env: Env, broker: RunningBroker, topic: string, count: number, queues = 4): Promise<Row[]> {
  await until(
    `${count} messages in ${topic}`,
    async () => (await storedMessages(broker.brokerAddr, topic, queues)) >= count,
  );
  return ofTopic(await drain(env.java, broker, [topic]), topic);
}

/** Each message is here once, as it was sent, and none before its time. */
function assertDelivered(rows: readonly Row[], sends: readonly Row[], delayMs: number): void {
  assert.deepEqual(
    indexesOf(rows),
    sends.map((row) => Number(row['sent'])).sort((a, b) => a - b),
  );
  const ids = new Map(sends.map((row) => [row['msgId'], row]));
  for (const row of rows) {
    assert.ok(ids.has(row['uniqKey']), `${row['uniqKey']} was not sent`);
    assert.match(propertiesOf(row)['KEYS']!, /^m-key-\d+ m-all$/);
    const waited = Number(row['storeTimestamp']) - Number(row['bornTimestamp']);
    assert.ok(waited >= delayMs, `delivered after ${waited} ms`);
  }
}

/** Waits until each message that was sent is there; what was delivered since the last save may come again. */
async function assertEach(
  env: Env,
  broker: RunningBroker,
  topic: string,
  sends: readonly Row[],
  most: number,
): Promise<void> {
  const wanted = sends.filter((row) => row['sent'] !== undefined).map((row) => row['msgId']);
  const rows = await until(`${wanted.length} messages`, async () => {
    const there = await arrived(env, broker, topic, wanted.length);
    const ids = new Set(there.map((row) => row['uniqKey']));
    return wanted.every((id) => ids.has(id)) ? there : undefined;
  });
  assert.ok(rows.length <= most, `${rows.length} for ${wanted.length}`);
}

/** Pending messages go from `first` to `second` and back; each of them stores some and delivers some. */
async function handOver(env: Env, first: SystemKind, second: SystemKind): Promise<void> {
  const topic = 'DelayHandOver';
  const options = { storeDir: `${env.dir}/store`, brokerName: 'delay-broker', conf: { messageDelayLevel: LEVELS } };
  const produce = async (broker: RunningBroker, start: number): Promise<Row[]> =>
    sent(
      await env.java.run('produce', {
        namesrv: broker.namesrvAddr,
        topic,
        count: 20,
        start,
        keys: true,
        'delay-level': 2,
      }),
    );
  const sends: Row[] = [];
  const one = await env.startBroker(first, options);
  sends.push(...(await produce(one, 0)));
  await one.stop();
  const two = await env.startBroker(second, options);
  sends.push(...(await produce(two, 20)));
  // What the first one left is delivered by the second, what the second has taken by the first.
  await arrived(env, two, topic, 20);
  await two.stop();
  const three = await env.startBroker(first, options);
  sends.push(...(await produce(three, 40)));
  const rows = await arrived(env, three, topic, 60);
  await three.stop();
  assertDelivered(rows, sends, 12_000);
}

export const delayRetry: Suite = {
  name: 'delay-retry',
  needs: ['java', 'go'],
  shared: 'none',
  scenarios: [
    {
      name: 'pending delayed messages: Gantry stops, Java delivers and stores, Gantry goes on; none twice',
      run: async (env) => await handOver(env, env.sutKind, 'java'),
    },
    {
      name: 'Gantry is killed while messages wait, Gantry goes on and is killed, Java goes on: none is lost',
      async run(env) {
        const topic = 'DelayKill';
        const options = {
          storeDir: `${env.dir}/store`,
          brokerName: 'delay-broker',
          conf: { messageDelayLevel: LEVELS },
        };
        const one = await env.startBroker(env.sutKind, options);
        const produce = async (namesrv: string, start: number, level: number): Promise<Row[]> =>
          sent(await env.java.run('produce', { namesrv, topic, count: 40, start, keys: true, 'delay-level': level }));
        const sends = [
          ...(await produce(one.namesrvAddr, 0, 2)),
          ...(await env.go.run('produce', {
            namesrv: one.namesrvAddr,
            topic,
            count: 40,
            keys: true,
            'delay-level': 1,
          })),
        ];
        await arrived(env, one, topic, 40);
        await one.kill();
        const two = await env.startBroker(env.sutKind, options);
        await assertEach(env, two, topic, sends, 120);
        sends.push(...(await produce(two.namesrvAddr, 40, 2)));
        await two.kill();
        const three = await env.startBroker('java', options);
        await assertEach(env, three, topic, sends, 240);
        await three.stop();
      },
    },
    {
      name: 'retries to the dead letters, by the Java and the Go client, with count, origin and keys',
      async run(env) {
        const broker = await env.startBroker(env.sutKind, { brokerName: 'retry-broker' });
        const namesrv = broker.namesrvAddr;
        const topic = 'RetryDead';
        const sends = sent(
          await env.java.run('produce', { namesrv, topic, count: 6, keys: true, tags: 'TagA', unicode: true }),
        );
        const java = env.java.start('consume', {
          namesrv,
          topic,
          group: 'G-Java',
          'fail-first': 99,
          'max-reconsume': 2,
        });
        const go = env.go.start('consume', { namesrv, topic, group: 'G-Go', 'fail-first': 99, 'max-reconsume': 1 });
        for (const [group, failures] of [
          ['G-Java', 2],
          ['G-Go', 1],
        ] as const) {
          const dead = await arrived(env, broker, `%DLQ%${group}`, 6, 1);
          assert.deepEqual(indexesOf(dead), range(0, 6));
          for (const row of dead) {
            const send = sends.find((one) => one['sent'] === indexOf(row))!;
            const { KEYS, TAGS, UNIQ_KEY, RETRY_TOPIC, ORIGIN_MESSAGE_ID, DELAY, REAL_TOPIC } = propertiesOf(row);
            assert.deepEqual(
              { KEYS, TAGS, UNIQ_KEY, RETRY_TOPIC, ORIGIN_MESSAGE_ID, DELAY, REAL_TOPIC },
              {
                KEYS: `m-key-${send['sent']} m-all`,
                TAGS: 'TagA',
                UNIQ_KEY: send['msgId'],
                RETRY_TOPIC: topic,
                ORIGIN_MESSAGE_ID: send['offsetMsgId'],
                DELAY: '0',
                REAL_TOPIC: `%RETRY%${group}`,
              },
            );
            assert.equal(row['reconsumeTimes'], failures + 1);
            assert.equal(row['queueId'], 0);
          }
        }
        assert.equal(received(await java.close()).length, 6 * 3);
        assert.equal(received(await go.close()).length, 6 * 2);
        // Sent again, they reach the group that gave them up, as what they were.
        const words = [GANTRY_ENTRY, 'replay', 'G-Java', '-n', namesrv];
        const replay = Child.server('replay', process.execPath, words, { logFile: `${env.dir}/replay.log` });
        assert.equal((await replay.exited).code, 0, replay.tail());
        const after = env.java.start('consume', { namesrv, topic, group: 'G-Java' });
        await after.until('the dead letters', (rows) => received(rows).length >= 6);
        const back = received(await after.close());
        assert.deepEqual(indexesOf(back), range(0, 6));
        for (const row of back) {
          const send = sends.find((one) => one['sent'] === indexOf(row))!;
          assert.deepEqual([row['topic'], row['uniqKey'], row['reconsumeTimes']], [topic, send['msgId'], 0]);
          assert.equal(propertiesOf(row)['KEYS'], `m-key-${send['sent']} m-all`);
        }
        await broker.stop();
      },
    },
    {
      name: 'in order: a message that fails again and again holds its queue, then is a dead letter, and the rest follows',
      async run(env) {
        const broker = await env.startBroker(env.sutKind, { brokerName: 'order-broker' });
        const namesrv = broker.namesrvAddr;
        const topic = 'OrderDead';
        const group = 'G-OrderDead';
        await env.java.run('produce', { namesrv, topic, count: 4 });
        await env.java.run('produce', { namesrv, topic, count: 12, start: 4, queue: 1, keys: true });
        const child = env.java.start('consume', {
          namesrv,
          topic,
          group,
          orderly: true,
          poison: '8',
          'max-reconsume': 2,
        });
        const [dead] = await arrived(env, broker, `%DLQ%${group}`, 1, 1);
        await child.until('all of the queue', (rows) => received(rows).some((row) => indexOf(row) === 15));
        const rows = received(await child.close()).filter((row) => row['queueId'] === 1 && indexOf(row) >= 4);
        assert.deepEqual(rows.map(indexOf), [...range(4, 8), 8, 8, 8, ...range(9, 16)], 'nothing passes it');
        assert.equal(indexOf(dead!), 8);
        const { DELAY, RETRY_TOPIC, KEYS, ORIGIN_MESSAGE_ID, UNIQ_KEY } = propertiesOf(dead!);
        assert.deepEqual([DELAY, RETRY_TOPIC, KEYS], ['-1', topic, 'm-key-8 m-all']);
        const original = rows.find((row) => indexOf(row) === 8)!;
        assert.equal(UNIQ_KEY, original['uniqKey']);
        assert.equal(ORIGIN_MESSAGE_ID, original['uniqKey'], 'a client names it by its own id');
        assert.equal(await maxOffset(broker.brokerAddr, `%RETRY%${group}`, 0), 0);
        const go = env.go.start('consume', { namesrv, topic, group: 'G-GoOrder', orderly: true, 'fail-first': 1 });
        await go.until(
          'each of them twice',
          (all) => received(all).filter((row) => row['delivery'] === 2).length >= 16,
        );
        const ofQueue = received(await go.close()).filter((row) => row['queueId'] === 1);
        const accepted = ofQueue.filter((row) => row['delivery'] === 2).map((row) => Number(row['queueOffset']));
        assert.deepEqual(
          accepted,
          [...accepted].sort((a, b) => a - b),
        );
        await broker.stop();
      },
    },
  ],
};
