// Light queues and lite topics by the calls that RocketMQ's proxy makes of its client: everything that was sent comes to who subscribes to it until it
// is acknowledged, over a kill and from one broker to the other, and RocketMQ's own command line shows it.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { Row } from '../child.ts';
import { drained, ofTopic } from '../drained.ts';
import { call, splitAddress } from '../probe.ts';
import type { Env, Suite } from '../runner.ts';
import type { RunningBroker } from '../system.ts';
import { until } from '../wait.ts';

const BROKER_NAME = 'lite-broker';
const CONF = { enableLmq: true, enableMultiDispatch: true, flushConsumerOffsetInterval: 500 };
const MAKE = [
  'topic LiteParent +message.type=LITE +lite.topic.expiration=60',
  'group G-Lite +lite.bind.topic=LiteParent',
];

async function lite(env: Env, broker: RunningBroker, ...steps: string[]): Promise<Row[]> {
  return await env.java.run('lite', { namesrv: broker.namesrvAddr, broker: broker.brokerAddr, steps: steps.join(';') });
}

const GET_ROUTEINFO_BY_TOPIC = 105;
const NAMES = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
/** What RocketMQ's command line asks of each broker. */
const ADMIN: ReadonlyArray<[code: number, fields: Record<string, string>]> = [
  [200074, {}],
  [200075, { topic: 'LiteParent' }],
  [200075, { topic: 'Nowhere' }],
  [200076, { parentTopic: 'LiteParent', liteTopic: 'same' }],
  [200076, { parentTopic: 'LiteParent', liteTopic: 'nowhere' }],
  [200077, { parentTopic: 'LiteParent', group: 'G-Lite', clientId: 'c1' }],
  [200077, { parentTopic: 'LiteParent', group: 'G-Lite', clientId: 'c2', maxCount: '1' }],
  [200077, { parentTopic: 'LiteParent', group: 'G-Lite', clientId: 'nobody' }],
  [200078, { group: 'G-Lite', topK: '3' }],
  [200078, { group: 'G-Lite', topK: '1' }],
  [200078, { group: 'G-Lite', liteTopic: 'same', topK: '20' }],
  [200078, { group: 'G-Lite', liteTopic: 'unread', topK: '20' }],
  [200078, { group: 'G-Lite', liteTopic: 'nowhere', topK: '20' }],
  [200079, { group: 'G-Lite' }],
  [200079, { group: 'G-Lite', clientId: 'c1' }],
];

/**
 * An answer without what differs from broker to broker: times, whom a name belongs to, the number of topics of a broker's own, and what is out
 * (RocketMQ counts queues as well of which everything is acknowledged).
 */
async function shownBy(broker: RunningBroker, code: number, fields: Record<string, string>): Promise<object> {
  const answer = await call(broker.brokerAddr, code, fields);
  const text = answer.body.toString('utf8').replaceAll(/\b1\d{12}\b/g, '"TIME"');
  const { shardingToBroker, cqTableSize, orderInfoCount, ...body } = JSON.parse(text || '{}') as Record<
    string,
    unknown
  >;
  // RocketMQ: "not set any response code" beside some that are well.
  return { code: answer.code, remark: answer.code === 0 ? undefined : answer.remark, body };
}

/** `body*count`, in the order in which they came. */
function popped(rows: readonly Row[]): string[] {
  return rows.filter((row) => row['popped'] !== undefined).map((row) => `${row['popped']}*${row['count']}`);
}

function answers(rows: readonly Row[], name: string): unknown[] {
  return rows.filter((row) => row[name] !== undefined).map((row) => row['status'] ?? row['code']);
}

export const liteTopics: Suite = {
  name: 'lite-topics',
  needs: ['java'],
  shared: 'none',
  scenarios: [
    {
      name: 'sends that reach no light queue are refused with the reason, where RocketMQ stores them for nobody',
      async run(env) {
        const broker = await env.startBroker(env.sutKind, { storeDir: join(env.dir, 'off'), brokerName: BROKER_NAME });
        const rows = await lite(env, broker, ...MAKE, 'send a m0');
        if (env.sutKind === 'java') return;
        const refused = rows.find((row) => row['step'] === 'send');
        assert.equal(refused?.['code'], 16, JSON.stringify(rows));
        assert.match(
          String(refused?.['remark']),
          /enableLmq is false and enableMultiDispatch is false, both must be true/,
        );
      },
    },
    {
      name: 'lite topics over a kill, on to a Java broker and back',
      async run(env) {
        const options = { storeDir: join(env.dir, 'store'), smallFiles: true, brokerName: BROKER_NAME, conf: CONF };
        const one = await env.startBroker(env.sutKind, options);
        const restarted = { ...options, port: splitAddress(one.brokerAddr)[1] };
        const first = await lite(
          env,
          one,
          ...MAKE,
          'group G-Wild +lite.bind.topic=LiteParent +lite.sub.wildcard=true',
          'ctl PARTIAL_ADD c1 a b alice@example.org',
          'send a a0 a1 a2',
          'send b b0',
          'send alice@example.org e0',
          'pop c1 5 60000 5000',
          'ack a0 b0',
          'change a1 60000',
          `mqadmin getBrokerLiteInfo -b ${one.brokerAddr} -d`,
          'mqadmin getParentTopicInfo -p LiteParent',
          'mqadmin getLiteTopicInfo -p LiteParent -l a -s',
          'mqadmin getLiteClientInfo -p LiteParent -g G-Lite -c c1 -s',
          'mqadmin getLiteGroupInfo -p LiteParent -g G-Lite -k 3',
          'mqadmin triggerLiteDispatch -p LiteParent -g G-Lite',
          'group G-One +lite.bind.topic=LiteParent +lite.sub.model=Exclusive',
          'use G-One',
          'ctl PARTIAL_ADD x1 x',
          'ctl PARTIAL_ADD x2 x',
          'use G-Wild',
          'ctl COMPLETE_ADD w1',
          'send w w0',
          'pop w1 1 60000 3000',
          'ack w0',
          'use G-Lite',
          // Time for the offsets to be saved.
          'pop c1 1 60000 1500',
        );
        assert.deepEqual(popped(first).sort(), ['a0*0', 'a1*0', 'a2*0', 'b0*0', 'e0*0', 'w0*0'], JSON.stringify(first));
        assert.deepEqual(answers(first, 'acked'), ['OK', 'OK', 'OK']);
        const notified = first.filter((row) => row['notified']).map((row) => `${row['client']} ${row['notified']}`);
        assert.deepEqual(notified, ['x1 x'], 'who lost a lite topic for one client alone is told');
        assert.deepEqual(answers(first, 'changed'), ['OK']);
        assert.ok(first.filter((row) => row['popped']).every((row) => row['handle'] === true));
        for (const row of first.filter((row) => row['mqadmin'])) {
          assert.doesNotMatch(String(row['output']), /Exception|failed|error/i, String(row['output']));
        }
        const shown = (name: string): string => String(first.find((row) => row['mqadmin'] === name)?.['output']);
        assert.match(shown('getBrokerLiteInfo'), /"LiteParent":60/);
        assert.match(shown('getParentTopicInfo'), /LiteParent/);
        assert.match(shown('getLiteTopicInfo'), /c1/, shown('getLiteTopicInfo'));
        assert.match(shown('getLiteClientInfo'), /c1/, shown('getLiteClientInfo'));
        // RocketMQ passes over a lite topic with an "@" in its name.
        const lag = env.sutKind === 'java' ? 2 : 3;
        assert.match(shown('getLiteGroupInfo'), new RegExp(`Total Lag Count: ${lag}\\b`), shown('getLiteGroupInfo'));
        await one.kill();

        const two = await env.startBroker(env.sutKind, restarted);
        const second = await lite(
          env,
          two,
          'ctl COMPLETE_ADD c2 a b alice@example.org',
          'send b b1',
          'pop c2 9 60000 2000',
          'ack a1 b1',
        );
        assert.deepEqual(
          popped(second).sort(),
          ['a1*0', 'a2*0', 'b1*0', 'e0*0'],
          'what was acknowledged and nothing else is gone',
        );
        await two.stop();

        const three = await env.startBroker('java', restarted);
        const third = await lite(
          env,
          three,
          'ctl COMPLETE_ADD c3 a b c alice@example.org',
          'send c c0 c1',
          'send a a3',
          'pop c3 9 60000 2000',
          'ack a2 a3 c0',
        );
        assert.deepEqual(
          popped(third).sort(),
          ['a2*0', 'a3*0', 'c0*0', 'c1*0', 'e0*0'],
          'what was acknowledged here Java does not hand out',
        );
        await three.stop();

        const four = await env.startBroker(env.sutKind, restarted);
        const fourth = await lite(
          env,
          four,
          'ctl COMPLETE_ADD c4 a b c alice@example.org',
          'pop c4 9 60000 2000',
          'ack all',
        );
        assert.deepEqual(popped(fourth).sort(), ['c1*0', 'e0*0'], 'nor Gantry what was acknowledged there');
        const light = ['%LMQ%$LiteParent$a', '%LMQ%$LiteParent$c'].join(',');
        const all = drained(await env.java.run('drain', { namesrv: four.namesrvAddr, topics: 'LiteParent', light }));
        assert.equal(ofTopic(all, '%LMQ%$LiteParent$a').length, 4);
        assert.equal(ofTopic(all, '%LMQ%$LiteParent$c').length, 2);
        await four.stop();
      },
    },
    {
      name: 'lite topics over a Gantry and a Java broker: each name belongs to one of them, and mqadmin shows the same of both',
      async run(env) {
        const namesrv = await env.startNamesrv(env.sutKind);
        const namesrvAddr = namesrv.addr;
        const conf = { ...CONF, liteLagLatencyCollectEnable: true };
        const [own, java] = await Promise.all(
          ([env.sutKind, 'java'] as const).map((kind, i) =>
            env.startBroker(kind, {
              namesrvAddr,
              conf,
              smallFiles: true,
              brokerName: `lite-broker-${i}`,
              storeDir: join(env.dir, `both-${i}`),
            }),
          ),
        );
        const on = (broker: RunningBroker): string => `on ${broker.brokerAddr} ${broker.brokerName}`;
        const both = (...steps: string[]): string[] => [on(own!), ...steps, on(java!), ...steps];
        await lite(env, own!, ...both(...MAKE));
        await until('the route names both brokers', async () => {
          const answer = await call(namesrvAddr, GET_ROUTEINFO_BY_TOPIC, { topic: 'LiteParent' });
          return answer.body.includes(own!.brokerName) && answer.body.includes(java!.brokerName);
        });

        const shown = await lite(
          env,
          own!,
          ...[own!, java!].flatMap((broker) => [
            on(broker),
            `sendto ${broker.brokerName} same s0 s1 s2 s3`,
            `sendto ${broker.brokerName} other o0 o1 o2`,
            `sendto ${broker.brokerName} unread u0`,
            'ctl COMPLETE_ADD c1 same',
            'pop c1 1 60000 1500',
            'ack s0',
            'ctl COMPLETE_ADD c2 other',
            'pop c2 1 60000 1500',
          ]),
          'mqadmin getLiteGroupInfo -p LiteParent -g G-Lite',
        );
        for (const [code, fields] of ADMIN) {
          const [mine, theirs] = [await shownBy(own!, code, fields), await shownBy(java!, code, fields)];
          assert.deepEqual(mine, theirs, `${code} ${JSON.stringify(fields)}`);
        }
        const lags = String(shown.find((row) => row['mqadmin'])?.['output']);
        assert.match(lags, /Total Lag Count: 12\b/, lags);
        assert.equal(lags.match(/^\d +same +3 /gm)?.length, 4, `twice by count and twice by time: ${lags}`);

        const rows = await lite(
          env,
          own!,
          ...both(`ctl COMPLETE_ADD c9 ${NAMES.join(' ')}`),
          ...NAMES.map((name) => `spread ${name} ${name}0 ${name}1`),
          ...both('pop c9 99 60000 1500'),
          ...NAMES.slice(0, 2).map((name) => `mqadmin getLiteTopicInfo -p LiteParent -l ${name}`),
        );
        const sent = rows.filter((row) => row['sent'] !== undefined);
        assert.equal(new Set(sent.map((row) => row['broker'])).size, 2, 'the names are spread over both');
        const at = (row: Row, body: string): string => `${row[body]} at ${row['broker']}`;
        assert.deepEqual(
          rows
            .filter((row) => row['popped'] !== undefined)
            .map((row) => at(row, 'popped'))
            .sort(),
          sent.map((row) => at(row, 'sent')).sort(),
          'everything comes from the broker that it was sent to',
        );
        for (const [i, row] of rows.filter(({ mqadmin }) => mqadmin !== undefined).entries()) {
          const home = sent.find(({ lite: name }) => name === NAMES[i])!['broker'];
          for (const { brokerName } of [own!, java!]) {
            const line = String(row['output'])
              .split('\n')
              .find((text) => text.startsWith(brokerName));
            const isHome = brokerName === home;
            assert.match(line ?? '', isHome ? / 2 .* true +1 *$/ : / 0 .* false +0 *$/, `${NAMES[i]} at ${home}`);
          }
        }

        await Promise.all([own!.stop(), java!.stop()]);
        await namesrv.stop();
      },
    },
  ],
};
