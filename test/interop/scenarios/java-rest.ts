// What the Java client does beside sending and consuming: requests with replies, message traces, and an administrator's questions to
// live clients and moves of groups.

import assert from 'node:assert/strict';
import type { Child, Row } from '../child.ts';
import { storedMessages } from '../probe.ts';
import { indexOf, received, sent } from '../rows.ts';
import type { Env, Suite } from '../runner.ts';
import { InteropError, until } from '../wait.ts';

/** Runs steps of the group administrator; the values by step. @throws if a step failed */
async function groupSteps(
  env: Env,
  topic: string,
  group: string,
  steps: readonly string[],
): Promise<Record<string, unknown>> {
  const rows = await env.java.run('group-admin', {
    namesrv: env.broker.namesrvAddr,
    broker: env.broker.brokerAddr,
    topic,
    group,
    steps: steps.join(','),
  });
  const values: Record<string, unknown> = {};
  for (const row of rows) {
    if (row['failure'] !== undefined) throw new InteropError(`${row['step']}: ${row['failure']}`);
    if (row['step'] !== undefined) values[String(row['step'])] = row['value'];
  }
  return values;
}

function consume(env: Env, topic: string, group: string): Child {
  return env.java.start('consume', { namesrv: env.broker.namesrvAddr, topic, group });
}

/** How often each message came, by index. */
function counts(rows: readonly Row[]): number[] {
  const table: number[] = [];
  for (const row of received(rows)) {
    const index = indexOf(row);
    table[index] = (table[index] ?? 0) + 1;
  }
  return table;
}

const QUEUES = ['0', '1', '2', '3'];
const NO_LAG = { '0': 0, '1': 0, '2': 0, '3': 0 };

export const javaRest: Suite = {
  name: 'java-rest',
  needs: ['java'],
  shared: 'small files',
  scenarios: [
    {
      name: 'request and reply, synchronous and with a callback; a request that nobody answers times out',
      async run(env) {
        const topic = 'RestRequest';
        const rows = await env.java.run('request-reply', {
          namesrv: env.broker.namesrvAddr,
          topic,
          group: `G-${topic}`,
          count: 3,
        });
        for (const mode of ['sync', 'async']) {
          const answers = rows.filter((row) => row['answer'] === mode);
          answers.sort((a, b) => Number(a['index']) - Number(b['index']));
          assert.deepEqual(
            answers.map((row) => [row['body'], row['type'], row['pushed']]),
            [0, 1, 2].map((i) => [`re:${mode}${i}`, 'reply', true]),
          );
        }
        const replies = rows.filter((row) => row['replied'] !== undefined);
        assert.deepEqual(new Set(replies.map((row) => row['status'])), new Set(['SEND_OK']));
        assert.equal(rows.find((row) => row['silent'] !== undefined)?.['silent'], 'RequestTimeoutException');
      },
    },
    {
      name: 'a live client is listed, asked for its state and its stacks, and given one message to consume',
      async run(env) {
        const [topic, group] = ['RestClient', 'G-RestClient'];
        const rows = await env.java.run('produce', { namesrv: env.broker.namesrvAddr, topic, count: 8, keys: true });
        const consumer = consume(env, topic, group);
        await consumer.until('8 messages', (all) => counts(all).length === 8);
        const [send] = sent(rows);
        const values = await groupSteps(env, topic, group, [
          'connection',
          'producers',
          'allProducers',
          'running',
          'status',
          `direct=${send!['msgId']}`,
          'subscription',
        ]);
        const connection = values['connection'] as Record<string, unknown>;
        assert.deepEqual(connection['topics'], ['%RETRY%G-RestClient', topic]);
        assert.deepEqual(
          [connection['type'], connection['model'], connection['from']],
          ['CONSUME_PASSIVELY', 'CLUSTERING', 'CONSUME_FROM_FIRST_OFFSET'],
        );
        assert.deepEqual(connection['clients'], { consumer: 'JAVA 513' });
        assert.equal((values['producers'] as Record<string, string>)['consumer'], 'JAVA 513');
        assert.ok((values['allProducers'] as string[]).includes('CLIENT_INNER_PRODUCER'));
        const running = values['running'] as Record<string, number>;
        assert.equal(running['type'], 'CONSUME_PASSIVELY');
        assert.equal(running['subscriptions'], 2);
        assert.ok(running['queues']! >= 4 && running['stack']! > 1000, JSON.stringify(running));
        const status = values['status'] as Record<string, Record<string, number>>;
        assert.deepEqual(Object.keys(status['consumer']!), QUEUES);
        assert.equal(values['direct'], 'CR_SUCCESS');
        assert.equal(values['subscription'], '*');
        const again = counts(await consumer.close());
        assert.deepEqual(again, [2, 1, 1, 1, 1, 1, 1, 1], 'the message that was given directly came twice');
      },
    },
    {
      name: 'a group is reset while it runs, while it is stopped, to a number, and copied',
      async run(env) {
        const { namesrvAddr } = env.broker;
        const [topic, group] = ['RestReset', 'G-RestReset'];
        await env.java.run('produce', { namesrv: namesrvAddr, topic, count: 16 });
        const first = consume(env, topic, group);
        await first.until('16 messages', (rows) => counts(rows).length === 16);
        const begun = await groupSteps(env, topic, group, ['reset=0']);
        assert.deepEqual(begun['reset'], NO_LAG);
        await first.until('all of them a second time', (rows) => counts(rows).filter((n) => n === 2).length === 16);
        await first.close();

        const offline = await groupSteps(env, topic, group, [
          'lag',
          'clone=G-RestCopy',
          'lag=G-RestCopy',
          'reset=0',
          'lag',
        ]);
        assert.deepEqual(offline['reset'], NO_LAG);
        assert.deepEqual(offline['lag'], { '0': 4, '1': 4, '2': 4, '3': 4 });
        const moved = await groupSteps(env, topic, group, ['reset=-1', 'topicsOf', 'span', 'resetOne=2', 'lag']);
        assert.ok((moved['topicsOf'] as string[]).includes(topic));
        assert.deepEqual(moved['span'], NO_LAG);
        assert.deepEqual(moved['lag'], { '0': 2, '1': 0, '2': 0, '3': 0 });
        const copy = consume(env, topic, 'G-RestCopy');
        await env.java.run('produce', { namesrv: namesrvAddr, topic, count: 1, start: 16 });
        await copy.until('what is new', (rows) => counts(rows)[16] === 1);
        assert.equal(counts(await copy.close()).filter((n) => n > 0).length, 1, 'the copy begins where the group was');

        const shown = await env.java.mqadmin([
          ...['resetOffsetByTime', '-g', group, '-t', topic, '-s', '0', '-n', namesrvAddr],
        ]);
        assert.equal(shown.match(/^interop-broker\s+\d+\s+0\s*$/gm)?.length, 4, shown);
        const skipped = await env.java.mqadmin([
          ...['skipAccumulatedMessage', '-g', group, '-t', topic, '-n', namesrvAddr],
        ]);
        assert.equal(skipped.match(/^interop-broker\s+\d+\s+[45]\s*$/gm)?.length, 4, skipped);
      },
    },
    {
      // The client waits ten seconds, and forgets what it was told if it has no queues at that moment; so its group is reset for the first time.
      name: 'with useServerSideResetOffset=false the clients of a group move themselves',
      async run(env) {
        const [topic, group] = ['RestMoved', 'G-RestMoved'];
        await env.java.run('produce', { namesrv: env.broker.namesrvAddr, topic, count: 16 });
        const consumer = consume(env, topic, group);
        await consumer.until('16 messages', (rows) => counts(rows).filter((n) => n > 0).length === 16);
        await until('the broker knows how far the group is', async () => {
          const { lag } = await groupSteps(env, topic, group, ['lag']);
          return Object.values(lag as Record<string, number>).every((n) => n === 0);
        });
        await groupSteps(env, topic, group, ['config=useServerSideResetOffset:false', 'reset=0']);
        await consumer.until('all of them again', (rows) => counts(rows).filter((n) => n > 1).length === 16);
        await consumer.close();
        await groupSteps(env, topic, group, ['config=useServerSideResetOffset:true']);
      },
    },
    {
      name: 'a traced send is found in the trace topic',
      async run(env) {
        const { namesrvAddr } = env.broker;
        const topic = 'RestTrace';
        const rows = await env.java.run('produce', { namesrv: namesrvAddr, topic, count: 2, keys: true, trace: true });
        const msgId = String(sent(rows)[1]!['msgId']);
        await until(
          'the trace is stored',
          async () => (await storedMessages(env.broker.brokerAddr, 'RMQ_SYS_TRACE_TOPIC', 8)) > 0,
        );
        const trace = await env.java.mqadmin(['queryMsgTraceById', '-i', msgId, '-n', namesrvAddr]);
        assert.match(trace, /^Pub\s+interop-producer\s.*\s(success)\s*$/m, trace);
      },
    },
  ],
};
