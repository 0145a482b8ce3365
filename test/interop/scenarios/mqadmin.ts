// RocketMQ's own command line against the system under test: each command ends without an error and prints what it should.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { parseJson } from '../../../src/remoting/index.ts';
import { storedMessages } from '../probe.ts';
import type { Suite } from '../runner.ts';
import { until } from '../wait.ts';

const TOPIC = 'MqadminTopic';
const GROUP = 'G-Mqadmin';

export const mqadmin: Suite = {
  name: 'mqadmin',
  needs: ['java'],
  shared: 'small files',
  scenarios: [
    {
      name: 'updateTopic, topicList, topicRoute, topicStatus',
      async run(env) {
        const { namesrvAddr, brokerAddr, brokerName } = env.broker;
        const created = await env.java.mqadmin([
          'updateTopic',
          '-b',
          brokerAddr,
          '-t',
          TOPIC,
          '-r',
          '4',
          '-w',
          '4',
          '-n',
          namesrvAddr,
        ]);
        assert.match(created, /success/);
        assert.match(await env.java.mqadmin(['topicList', '-n', namesrvAddr]), new RegExp(`^${TOPIC}$`, 'm'));
        const route = await env.java.mqadmin(['topicRoute', '-t', TOPIC, '-n', namesrvAddr]);
        assert.match(route, new RegExp(brokerAddr));
        assert.match(route, new RegExp(`"brokerName":\\s*"${brokerName}"`));
        assert.match(route, /"writeQueueNums":\s*4/);
        await env.java.run('produce', { namesrv: namesrvAddr, topic: TOPIC, count: 12, keys: true });
        await until('the topic is dispatched', async () => (await storedMessages(env.broker.brokerAddr, TOPIC)) === 12);
        const status = await env.java.mqadmin(['topicStatus', '-t', TOPIC, '-n', namesrvAddr]);
        assert.equal(status.match(new RegExp(`^${brokerName}\\s+\\d+\\s+0\\s+3\\s`, 'gm'))?.length, 4, status);
      },
    },
    {
      name: 'an order topic: its layout at the name server, its mark at the broker; the retry policy of a group',
      async run(env) {
        const { namesrvAddr, brokerAddr, brokerName, storeDir } = env.broker;
        const topic = 'MqadminOrder';
        const to = ['-b', brokerAddr, '-n', namesrvAddr];
        const order = ['updateOrderConf', '-n', namesrvAddr, '-t', topic];
        await env.java.mqadmin([...order, '-v', `${brokerName}:2`, '-m', 'put']);
        await env.java.mqadmin(['updateTopic', ...to, '-t', topic, '-r', '4', '-w', '4', '-o', 'true']);
        const layout = await env.java.mqadmin([...order, '-m', 'get']);
        assert.match(layout, new RegExp(`orderConf=\\[?${brokerName}:4`), layout);
        const topics = parseJson(readFileSync(`${storeDir}/config/topics.json`)) as {
          topicConfigTable: Record<string, { order: boolean }>;
        };
        assert.equal(topics.topicConfigTable[topic]?.order, true);
        const policy = '{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":1000,"max":60000,"multiplier":3}}';
        await env.java.mqadmin(['updateSubGroup', ...to, '-g', 'G-Policy', '-q', '2', '-r', '5', '-p', policy]);
        const text = await env.java.mqadmin(['getConsumerConfig', '-n', namesrvAddr, '-g', 'G-Policy']);
        assert.match(text, /retryQueueNums\s*=\s*2/, text);
        assert.match(text, /type=EXPONENTIAL.*initial=1000, max=60000, multiplier=3/, text);
      },
    },
    {
      name: 'clusterList, brokerStatus, getBrokerConfig',
      async run(env) {
        const { namesrvAddr, brokerAddr, brokerName, clusterName } = env.broker;
        const clusters = await env.java.mqadmin(['clusterList', '-n', namesrvAddr]);
        assert.match(clusters, new RegExp(`^${clusterName}\\s+${brokerName}\\s+0\\s+${brokerAddr}\\s`, 'm'));
        const status = await env.java.mqadmin(['brokerStatus', '-b', brokerAddr, '-n', namesrvAddr]);
        for (const key of [
          'bootTimestamp',
          'brokerVersionDesc',
          'commitLogMaxOffset',
          'msgPutTotalTodayNow',
          'putTps',
        ]) {
          assert.match(status, new RegExp(`^${key}\\s`, 'm'));
        }
        const config = await env.java.mqadmin(['getBrokerConfig', '-b', brokerAddr, '-n', namesrvAddr]);
        assert.match(config, new RegExp(`^brokerName\\s+=\\s+${brokerName}\\s*$`, 'm'));
        assert.match(config, /^mappedFileSizeCommitLog\s+=\s+65536\s*$/m);
      },
    },
    {
      name: 'consumerProgress tells the lag of a group',
      async run(env) {
        const { namesrvAddr } = env.broker;
        const topic = 'MqadminProgress';
        await env.java.run('produce', { namesrv: namesrvAddr, topic, count: 8 });
        const consumer = env.java.start('consume', { namesrv: namesrvAddr, topic, group: GROUP });
        await consumer.until('8 messages', (rows) => rows.filter((row) => row['received']).length >= 8);
        await consumer.close();
        await env.java.run('produce', { namesrv: namesrvAddr, topic, count: 6, start: 8 });
        await until('the topic is dispatched', async () => (await storedMessages(env.broker.brokerAddr, topic)) === 14);
        const progress = await env.java.mqadmin(['consumerProgress', '-g', GROUP, '-n', namesrvAddr]);
        assert.match(progress, /Diff Total:\s*6/i, progress);
      },
    },
    {
      name: 'queryMsgById, queryMsgByKey, queryMsgByUniqueKey, queryMsgByOffset',
      async run(env) {
        const { namesrvAddr, brokerName } = env.broker;
        const topic = 'MqadminQuery';
        const rows = await env.java.run('produce', { namesrv: namesrvAddr, topic, count: 8, keys: true, tags: 'TagA' });
        await until('the topic is dispatched', async () => (await storedMessages(env.broker.brokerAddr, topic)) === 8);
        const send = rows.find((row) => row['sent'] === 5)!;
        const [msgId, offsetMsgId] = [String(send['msgId']), String(send['offsetMsgId'])];
        const byKey = await env.java.mqadmin(['queryMsgByKey', '-t', topic, '-k', 'm-key-5', '-n', namesrvAddr]);
        assert.match(byKey, new RegExp(`^${msgId}\\s+${send['queueId']}\\s+${send['queueOffset']}\\b`, 'm'), byKey);
        const byId = await env.java.mqadmin(['queryMsgById', '-t', topic, '-i', offsetMsgId, '-n', namesrvAddr]);
        assert.match(byId, new RegExp(msgId), byId);
        const byUniqueKey = await env.java.mqadmin([
          'queryMsgByUniqueKey',
          '-t',
          topic,
          '-i',
          msgId,
          '-n',
          namesrvAddr,
        ]);
        assert.match(byUniqueKey, new RegExp(`Queue Offset:\\s+${send['queueOffset']}\\b`), byUniqueKey);
        const byOffset = await env.java.mqadmin([
          'queryMsgByOffset',
          ...[
            '-t',
            topic,
            '-b',
            brokerName,
            '-i',
            String(send['queueId']),
            '-o',
            String(send['queueOffset']),
            '-n',
            namesrvAddr,
          ],
        ]);
        assert.match(byOffset, new RegExp(msgId), byOffset);
      },
    },
  ],
};
