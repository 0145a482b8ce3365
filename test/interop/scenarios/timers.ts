// Timer messages with the Java client: delivery, cancelling, a kill in between, and stores with pending ones that go from RocketMQ to the system
// under test and back.

import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Row } from '../child.ts';
import { splitAddress } from '../probe.ts';
import { propertiesOf, received, sent } from '../rows.ts';
import type { Env, Suite } from '../runner.ts';
import { CLUSTER_NAME, type RunningBroker, type SystemKind } from '../system.ts';

const TOPIC = 'TimerTopic';
const CONF = { recallMessageEnable: true, mappedFileSizeTimerLog: 52 * 10 + 20 };

async function makeTopic(env: Env, broker: RunningBroker): Promise<void> {
  const target = ['-n', broker.namesrvAddr, '-c', CLUSTER_NAME];
  await env.java.mqadmin(['updateTopic', ...target, '-t', TOPIC, '-r', '2', '-w', '2']);
}

/** Sends messages that fall due from `ms` on; the answers. */
async function send(
  env: Env,
  broker: RunningBroker,
  prefix: string,
  count: number,
  ms: number,
  stepMs: number,
): Promise<Row[]> {
  const options = { namesrv: broker.namesrvAddr, topic: TOPIC, prefix, count, 'timer-ms': ms, 'timer-step-ms': stepMs };
  const rows = sent(await env.java.run('produce', options));
  assert.equal(rows.length, count);
  for (const row of rows) assert.equal(row['status'], 'SEND_OK');
  return rows;
}

/** Consumes until `ids` have come and a moment longer; every delivery. */
async function consume(env: Env, broker: RunningBroker, group: string, ids: readonly unknown[]): Promise<Row[]> {
  const child = env.java.start('consume', { namesrv: broker.namesrvAddr, topic: TOPIC, group });
  const wanted = new Set(ids);
  await child.until(`${wanted.size} timer messages`, (rows) => {
    const got = new Set(received(rows).map((row) => row['uniqKey']));
    return [...wanted].every((id) => got.has(id));
  });
  return received(await child.close());
}

const idsOf = (rows: readonly Row[]): unknown[] => rows.map((row) => row['msgId']);

/** Each came once, none before its time, and as RocketMQ leaves it. */
function assertPunctual(rows: readonly Row[], ids: readonly unknown[]): void {
  const ours = rows.filter((row) => ids.includes(row['uniqKey']));
  assert.equal(new Set(ours.map((row) => row['uniqKey'])).size, ids.length, 'some are missing');
  assert.equal(ours.length, ids.length, 'some came twice');
  for (const row of ours) {
    const properties = propertiesOf(row);
    const wanted = Number(row['bornTimestamp']) + Number(properties['TIMER_DELAY_MS']);
    assert.ok(
      Number(row['storeTimestamp']) >= wanted,
      `${row['uniqKey']} came ${wanted - Number(row['storeTimestamp'])} ms early`,
    );
    assert.equal(properties['REAL_TOPIC'], TOPIC);
    assert.ok(properties['TIMER_OUT_MS'] !== undefined && properties['TIMER_DEQUEUE_MS'] !== undefined);
  }
}

/** `first` takes timer messages and is left while some wait, `second` delivers them and takes more, `first` delivers those. */
async function thereAndBack(env: Env, first: SystemKind, second: SystemKind): Promise<void> {
  const options = { storeDir: join(env.dir, 'store'), smallFiles: true, brokerName: 'timer-broker', conf: CONF };
  const one = await env.startBroker(first, options);
  const restarted = { ...options, port: splitAddress(one.brokerAddr)[1] };
  await makeTopic(env, one);
  const late = await send(env, one, 'late', 15, 4000, 200);
  const handles = late.map((row) => String(row['recallHandle']));
  const rows = await env.java.run('recall', { namesrv: one.namesrvAddr, topic: TOPIC, handles: handles[14]! });
  assert.equal(rows.find((row) => row['recalled'] !== undefined)?.['recalled'], late[14]!['msgId']);
  await one.stop();

  const two = await env.startBroker(second, restarted);
  const kept = late.slice(0, 14);
  const more = await send(env, two, 'more', 12, 12_000, 300);
  const atTwo = await consume(env, two, 'G-timer', idsOf(kept));
  assertPunctual(atTwo, idsOf(kept));
  await two.stop();

  const three = await env.startBroker(first, restarted);
  const atThree = await consume(env, three, 'G-timer-again', idsOf([...kept, ...more]));
  assertPunctual(atThree, idsOf([...kept, ...more]));
  assert.ok(!atThree.some((row) => row['uniqKey'] === late[14]!['msgId']), 'a cancelled message came');
  await three.stop();
}

export const timers: Suite = {
  name: 'timers',
  needs: ['java'],
  shared: 'none',
  scenarios: [
    {
      name: 'delivery, cancelling, a kill in between, and the timer files gone',
      async run(env) {
        const storeDir = join(env.dir, 'store');
        const options = { storeDir, smallFiles: true, brokerName: 'timer-broker', conf: CONF };
        const one = await env.startBroker(env.sutKind, options);
        const restarted = { ...options, port: splitAddress(one.brokerAddr)[1] };
        await makeTopic(env, one);
        const far = await send(env, one, 'far', 12, 25_000, 200);
        const near = await send(env, one, 'near', 20, 1500, 150);
        const [handle] = far.map((row) => String(row['recallHandle']));
        const cancel = { namesrv: one.namesrvAddr, topic: TOPIC, handles: handle! };
        assert.equal((await env.java.run('recall', cancel))[0]?.['recalled'], far[0]!['msgId']);
        assertPunctual(await consume(env, one, 'G-near', idsOf(near)), idsOf(near));
        const slot = Math.floor(Date.now() / 1000 + 60) * 1000;
        const unknown = Buffer.from(`v1 ${TOPIC} timer-broker ${slot + 1} 7F000001`).toString('base64url');
        const done = { ...cancel, handles: [near[0]!['recallHandle'], unknown].join(',') };
        assert.deepEqual(
          (await env.java.run('recall', done)).filter((row) => 'refused' in row).map((row) => row['remark']),
          [
            'recall failed, timestamp invalid (the message is already delivered)',
            'recall failed, the message is unknown',
          ],
        );
        await one.kill();
        if (env.sutKind === 'gantry')
          for (const name of ['timerwheel', 'timerlog']) rmSync(join(storeDir, name), { recursive: true });
        const two = await env.startBroker(env.sutKind, restarted);
        const kept = far.slice(1);
        const rows = await consume(env, two, 'G-far', idsOf([...near, ...kept]));
        assertPunctual(rows, idsOf(kept));
        assert.ok(!rows.some((row) => row['uniqKey'] === far[0]!['msgId']), 'a cancelled message came');
        await two.stop();
      },
    },
    {
      name: 'Java leaves pending timers, Gantry delivers them and leaves others, Java delivers those',
      run: async (env) => await thereAndBack(env, 'java', env.sutKind),
    },
    {
      name: 'Gantry leaves pending timers, Java delivers them and leaves others, Gantry delivers those',
      run: async (env) => await thereAndBack(env, env.sutKind, 'java'),
    },
  ],
};
