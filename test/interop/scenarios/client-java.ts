// Gantry's own client at a Java broker: what a producer and a consumer do beyond plain sends and pulls, judged by the broker that the
// protocol comes from.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  AdminClient,
  type ClientOptions,
  deadLetterTopic,
  type LocalTransactionState,
  MessageSelector,
  Producer,
  PushConsumer,
  type ReceivedMessage,
  SimpleConsumer,
  stderrLogger,
  TransactionProducer,
} from '../../../src/client/index.ts';
import { RequestCode } from '../../../src/remoting/index.ts';
import { Child } from '../child.ts';
import { call } from '../probe.ts';
import { received } from '../rows.ts';
import type { Env, Suite } from '../runner.ts';
import { until } from '../wait.ts';

const quiet = { ...stderrLogger, info: () => {}, debug: () => {}, warn: () => {} };

function options(env: Env, instanceName: string): ClientOptions {
  return { namesrvAddr: env.broker.namesrvAddr, clientIp: '127.0.0.1', instanceName, logger: quiet };
}

async function createTopic(env: Env, topic: string, queues = 4): Promise<void> {
  const admin = new AdminClient(options(env, `admin-${topic}`));
  await admin.start();
  await admin.createTopic(topic, { brokerAddr: env.broker.brokerAddr, readQueueNums: queues, writeQueueNums: queues });
  await admin.close();
}

/** Starts a consumer of a topic from its first message on; what it has got so far grows behind `got`. */
async function collect(
  env: Env,
  name: string,
  group: string,
  topic: string,
): Promise<{ got: readonly ReceivedMessage[]; consumer: PushConsumer }> {
  const got: ReceivedMessage[] = [];
  const consumer = new PushConsumer({
    ...options(env, name),
    group,
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    listener: async (messages) => {
      got.push(...messages);
      return 'CONSUME_SUCCESS';
    },
  });
  consumer.subscribe(topic);
  await consumer.start();
  return { got, consumer };
}

const texts = (messages: readonly ReceivedMessage[]): string[] => messages.map((message) => message.text());

/** Commit, rollback and no verdict, after which the broker asks and gets one; a verdict of "not known" makes it ask again. */
async function transactions(env: Env): Promise<void> {
  const topic = 'ClientTx';
  await createTopic(env, topic);
  const { got, consumer } = await collect(env, 'tx-consumer', 'GID-ClientTx', topic);

  const checks: string[] = [];
  const producer = new TransactionProducer({
    ...options(env, 'tx-producer'),
    group: 'PID-ClientTx',
    check: async (message) => {
      checks.push(message.text());
      if (message.text() === 'found out at the second check') {
        return checks.filter((text) => text === message.text()).length > 1 ? 'COMMIT_MESSAGE' : 'UNKNOW';
      }
      return message.text() === 'checked and rolled back' ? 'ROLLBACK_MESSAGE' : 'COMMIT_MESSAGE';
    },
  });
  await producer.start();
  const run = async (body: string, state: LocalTransactionState | Error): Promise<string> => {
    const result = await producer.sendInTransaction({ topic, body, keys: 'k' }, async (half) => {
      assert.equal(half.transactionId, half.msgId);
      if (state instanceof Error) throw state;
      return state;
    });
    assert.equal(result.status, 'SEND_OK');
    assert.equal(result.state, state instanceof Error ? 'UNKNOW' : state);
    return result.msgId;
  };
  const id = await run('committed', 'COMMIT_MESSAGE');
  await run('rolled back', 'ROLLBACK_MESSAGE');
  await run('checked and committed', new Error('nobody knows'));
  await run('checked and rolled back', 'UNKNOW');
  await run('found out at the second check', 'UNKNOW');
  await until('the three that were committed', async () => got.length >= 3);
  await until('all checks', async () => checks.length >= 4);
  assert.deepEqual(texts(got).sort(), ['checked and committed', 'committed', 'found out at the second check']);
  const [first] = got.filter((message) => message.text() === 'committed');
  assert.equal(first!.msgId, id);
  assert.equal(first!.properties.get('TRAN_MSG'), 'true');
  assert.deepEqual(
    new Set(checks),
    new Set(['checked and committed', 'checked and rolled back', 'found out at the second check']),
  );

  // A transaction of a run that has ended is another member's to answer for, without a send of its own.
  await producer.sendInTransaction({ topic, body: 'left behind' }, async () => 'UNKNOW');
  await producer.close();
  const heir = new TransactionProducer({
    ...options(env, 'tx-heir'),
    group: 'PID-ClientTx',
    topics: [topic],
    check: async () => 'COMMIT_MESSAGE',
  });
  await heir.start();
  await until('the one that was left behind', async () => texts(got).includes('left behind'));
  await heir.close();
  await consumer.close();
  assert.equal(got.length, 4);
}

/** A request finds its reply; one that nobody answers ends at its time. */
async function requestReply(env: Env): Promise<void> {
  const topic = 'ClientRequest';
  await createTopic(env, topic);
  const replier = new Producer({ ...options(env, 'replier'), group: 'PID-ClientReply' });
  await replier.start();
  const consumer = new PushConsumer({
    ...options(env, 'request-consumer'),
    group: 'GID-ClientRequest',
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    listener: async ([message]) => {
      if (message!.tags === 'ask') {
        await replier.reply(message!, { body: `you said ${message!.text()}`, properties: { mood: 'good' } });
      }
      return 'CONSUME_SUCCESS';
    },
  });
  consumer.subscribe(topic);
  await consumer.start();
  const asker = new Producer({ ...options(env, 'asker'), group: 'PID-ClientAsk' });
  await asker.start();
  const asked = Array.from({ length: 10 }, async (_, i) => {
    const reply = await asker.request({ topic, body: `hello ${i}`, tags: 'ask' }, { timeoutMs: 20_000 });
    assert.equal(reply.text(), `you said hello ${i}`);
    assert.equal(reply.properties.get('mood'), 'good');
  });
  await Promise.all(asked);
  // Long bodies travel compressed, both ways.
  const long = 'x'.repeat(20_000);
  const reply = await asker.request({ topic, body: long, tags: 'ask' }, { timeoutMs: 20_000 });
  assert.equal(reply.text(), `you said ${long}`);
  await assert.rejects(asker.request({ topic, body: 'silence', tags: 'ignore' }, { timeoutMs: 500 }), {
    code: 'REMOTING_TIMEOUT',
  });
  await Promise.all([asker.close(), consumer.close(), replier.close()]);
}

/** Levels, timers of all three kinds, and one that is recalled. */
async function delays(env: Env): Promise<void> {
  const topic = 'ClientDelay';
  await createTopic(env, topic);
  const { got, consumer } = await collect(env, 'delay-consumer', 'GID-ClientDelay', topic);
  const producer = new Producer({ ...options(env, 'delay-producer'), group: 'PID-ClientDelay' });
  await producer.start();
  const recalled = await producer.send({ topic, body: 'recalled', delaySeconds: 8 });
  assert.notEqual(recalled.recallHandle, undefined);
  const level = await producer.send({ topic, body: 'level', delayLevel: 2 });
  assert.equal(level.recallHandle, undefined);
  await producer.send({ topic, body: 'seconds', delaySeconds: 2 });
  await producer.send({ topic, body: 'ms', delayMs: 2500 });
  await producer.send({ topic, body: 'at', deliverAt: Date.now() + 3000 });
  const last = await producer.send({ topic, body: 'last', delaySeconds: 11 });
  assert.equal(await producer.recall(topic, recalled.recallHandle!), recalled.msgId);
  await assert.rejects(producer.recall(topic, 'nonsense'), { code: 'MESSAGE' });
  await until('all but the recalled one', async () => got.length >= 5);
  // What is due later has come, so what was due before would have.
  assert.equal(got.at(-1)!.msgId, last.msgId);
  assert.deepEqual(texts(got).sort(), ['at', 'last', 'level', 'ms', 'seconds']);
  await Promise.all([producer.close(), consumer.close()]);
}

/**
 * Two ordered consumers, of which the second comes while messages flow and goes again: every queue's messages are consumed in order and,
 * since a queue changes hands only between two calls, each once. A message that always fails ends in the dead letter topic.
 */
async function orderly(env: Env): Promise<void> {
  const topic = 'ClientOrder';
  const group = 'GID-ClientOrder';
  await createTopic(env, topic);
  const producer = new Producer({ ...options(env, 'order-producer'), group: 'PID-ClientOrder' });
  await producer.start();
  const queues = await producer.publishQueues(topic);
  let sent = 0;
  const send = async (count: number): Promise<void> => {
    for (const end = sent + count; sent < end; sent++) {
      for (const queue of queues) await producer.send({ topic, body: `${sent}` }, { queue });
    }
  };
  const seen = new Map<number, number[]>(queues.map((queue) => [queue.queueId, []]));
  const byMember = new Map<string, number>();
  const busy = new Set<number>();
  const failures = { left: 3 };
  const start = async (name: string): Promise<PushConsumer> => {
    const consumer = new PushConsumer({
      ...options(env, name),
      group,
      consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
      suspendCurrentQueueTimeMillis: 50,
      orderlyListener: async ([message]) => {
        const { queueId } = message!.queue;
        assert.ok(!busy.has(queueId), `two calls at once for queue ${queueId}`);
        busy.add(queueId);
        await new Promise(setImmediate);
        busy.delete(queueId);
        if (message!.text() === '7' && failures.left-- > 0) return 'SUSPEND_CURRENT_QUEUE_A_MOMENT';
        seen.get(queueId)!.push(Number(message!.text()));
        byMember.set(name, (byMember.get(name) ?? 0) + 1);
        return 'SUCCESS';
      },
    });
    consumer.subscribe(topic);
    await consumer.start();
    return consumer;
  };
  const mine = (consumer: PushConsumer): number => consumer.assignment.filter((queue) => queue.topic === topic).length;
  const all = (): boolean => [...seen.values()].every((list) => list.length >= sent);

  const first = await start('order-1');
  await send(20);
  await until('the first member has all', all);
  const flow = send(150);
  const second = await start('order-2');
  await until('they share the queues', async () => mine(first) === 2 && mine(second) === 2);
  await flow;
  await send(20);
  await until('both have all', all);
  assert.ok(byMember.get('order-2')! > 0);
  const more = send(100);
  await second.close();
  await until('the first one has all queues again', async () => mine(first) === 4);
  await more;
  await until('the rest', all);
  const wanted = Array.from({ length: sent }, (_, i) => i);
  for (const [queueId, list] of seen) assert.deepEqual(list, wanted, `queue ${queueId}`);

  // The locks hold between members of both kinds. The number in a body is its offset in each queue.
  const before = sent;
  const java = env.java.start('consume', {
    namesrv: env.broker.namesrvAddr,
    topic,
    group,
    orderly: true,
    instance: 'java',
  });
  await until('the Java member has its half', async () => mine(first) === 2);
  await send(30);
  const ofJava = new Map<number, number[]>();
  const count = (list: readonly number[] | undefined): number => new Set(list).size;
  await until('both have all', () => {
    ofJava.clear();
    for (const row of received(java.rows)) {
      const queueId = Number(row['queueId']);
      ofJava.set(queueId, [...(ofJava.get(queueId) ?? []), Number(row['queueOffset'])]);
    }
    return queues.every(({ queueId }) => count([...seen.get(queueId)!, ...(ofJava.get(queueId) ?? [])]) >= sent);
  });
  assert.equal(ofJava.size, 2);
  for (const [queueId, list] of ofJava) {
    assert.deepEqual(
      list,
      [...list].sort((a, b) => a - b),
    );
    assert.deepEqual(seen.get(queueId), wanted, `queue ${queueId} was given to Java`);
  }
  for (const { queueId } of queues) {
    if (!ofJava.has(queueId)) assert.equal(seen.get(queueId)!.at(-1), sent - 1);
  }
  assert.ok(sent === before + 30);
  await java.close();
  await first.close();

  const undertaker = await collect(env, 'undertaker', 'GID-ClientOrderDead', deadLetterTopic(group));
  const calls: string[] = [];
  const third = new PushConsumer({
    ...options(env, 'order-3'),
    group,
    maxReconsumeTimes: 2,
    suspendCurrentQueueTimeMillis: 50,
    orderlyListener: async ([message]) => {
      calls.push(`${message!.text()}/${message!.reconsumeTimes}`);
      return message!.text() === 'hopeless' ? 'SUSPEND_CURRENT_QUEUE_A_MOMENT' : 'SUCCESS';
    },
  });
  third.subscribe(topic);
  await third.start();
  const [queue] = queues;
  await producer.send({ topic, body: 'hopeless' }, { queue: queue! });
  await producer.send({ topic, body: 'behind it' }, { queue: queue! });
  await until('the one behind it', async () => calls.includes('behind it/0'));
  assert.deepEqual(calls, ['hopeless/0', 'hopeless/1', 'hopeless/2', 'behind it/0']);
  await until('the dead letter', async () => undertaker.got.length > 0);
  assert.equal(undertaker.got[0]!.text(), 'hopeless');
  await Promise.all([third.close(), undertaker.consumer.close(), producer.close()]);
}

/** Offsets that an administrator resets while the consumers are online, by Gantry's admin client and by mqadmin. */
async function reset(env: Env): Promise<void> {
  const topic = 'ClientReset';
  await createTopic(env, topic, 2);
  const producer = new Producer({ ...options(env, 'reset-producer'), group: 'PID-ClientReset' });
  await producer.start();
  const queues = await producer.publishQueues(topic);
  for (const queue of queues) for (const body of ['a', 'b', 'c']) await producer.send({ topic, body }, { queue });
  const admin = new AdminClient(options(env, 'reset-admin'));
  await admin.start();
  const run = async (ordered: boolean): Promise<() => Promise<void>> => {
    const group = ordered ? 'GID-ClientResetOrdered' : 'GID-ClientReset';
    const got: string[] = [];
    const note = (messages: readonly ReceivedMessage[]): void => {
      for (const message of messages) got.push(`${message.queue.queueId}${message.text()}`);
    };
    const consumer = new PushConsumer({
      ...options(env, `reset-${ordered}`),
      group,
      consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
      persistConsumerOffsetIntervalMs: 300,
      ...(ordered
        ? {
            orderlyListener: async (messages) => {
              note(messages);
              return 'SUCCESS';
            },
          }
        : {
            concurrency: 1,
            listener: async (messages) => {
              note(messages);
              return 'CONSUME_SUCCESS';
            },
          }),
    });
    consumer.subscribe(topic);
    await consumer.start();
    const saved = async (count: number): Promise<void> => {
      await until(`${count} messages`, async () => got.length >= count);
      assert.equal(got.length, count);
      for (const queueId of [0, 1]) {
        const some = got.slice(count - 6).filter((text) => text.startsWith(String(queueId)));
        assert.deepEqual(some, [`${queueId}a`, `${queueId}b`, `${queueId}c`]);
      }
      await until('they are saved', async () => (await admin.consumerProgress(group, topic)).diffTotal === 0);
    };
    await saved(6);
    await admin.resetOffset(group, topic, 0);
    await saved(12);
    await env.java.mqadmin(['resetOffsetByTime', '-n', env.broker.namesrvAddr, '-g', group, '-t', topic, '-s', '0']);
    await saved(18);
    return async () => {
      // Where the broker keeps the new offset until the next pull, as it does by default.
      await admin.resetOffset(group, topic, 0);
      await saved(24);
      await consumer.close();
    };
  };
  const rest = await Promise.all([run(false), run(true)]);
  const change = Buffer.from('useServerSideResetOffset=true\n');
  assert.equal((await call(env.broker.brokerAddr, RequestCode.UPDATE_BROKER_CONFIG, {}, change)).code, 0);
  await Promise.all(rest.map((end) => end()));
  await Promise.all([admin.close(), producer.close()]);
}

/** Java's tools read the notes of what a message went through. */
async function trace(env: Env): Promise<void> {
  const topic = 'ClientTrace';
  await createTopic(env, topic);
  const producer = new TransactionProducer({
    ...options(env, 'trace-producer'),
    group: 'PID-ClientTrace',
    enableMsgTrace: true,
    check: async () => 'COMMIT_MESSAGE',
  });
  await producer.start();
  const sent = await producer.send({ topic, body: 'traced', keys: ['order-9'], tags: 'TagA' });
  const half = await producer.sendInTransaction({ topic, body: 'half' }, async () => 'COMMIT_MESSAGE');
  await producer.close();
  for (const ordered of [false, true]) {
    let got = 0;
    const count = <T>(status: T): T => {
      got++;
      return status;
    };
    const consumer = new PushConsumer({
      ...options(env, `trace-${ordered}`),
      group: ordered ? 'GID-ClientTraceOrdered' : 'GID-ClientTrace',
      consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
      enableMsgTrace: true,
      ...(ordered
        ? { orderlyListener: async () => count('SUCCESS' as const) }
        : { listener: async () => count('CONSUME_SUCCESS' as const) }),
    });
    consumer.subscribe(topic);
    await consumer.start();
    await until('both messages', async () => got >= 2);
    await consumer.close();
  }
  const show = async (id: string): Promise<string> =>
    env.java.mqadmin(['queryMsgTraceById', '-n', env.broker.namesrvAddr, '-i', id]);
  await until('the notes of the first', async () => {
    const text = await show(sent.msgId);
    return /^Pub +PID-ClientTrace .*success/m.test(text) && (text.match(/GID-ClientTrace/g)?.length ?? 0) >= 2;
  });
  const text = await show(half.msgId);
  assert.match(text, /^Pub +PID-ClientTrace .*success/m);
}

/** Pops with and without a listener: acknowledged, given more time, failed, filtered, in order; and a group that goes from pops to pulls. */
async function pops(env: Env): Promise<void> {
  const topic = 'ClientPop';
  await createTopic(env, topic);
  const producer = new Producer({ ...options(env, 'pop-producer'), group: 'PID-ClientPop' });
  await producer.start();
  const send = (body: string, tags: string, number = 0): Promise<unknown> =>
    producer.send({ topic, body, tags, properties: { number: String(number) } });
  const common = { consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET', invisibleDurationMs: 20_000 } as const;
  const simple = new SimpleConsumer({ ...options(env, 'pop-simple'), ...common, group: 'GID-ClientPopSimple' });
  await simple.start();
  await simple.subscribe(topic, 'A || B');
  for (let i = 0; i < 12; i++) await send(`m${i}`, i % 3 === 2 ? 'C' : 'A', i);

  // A slow broker may answer with a part of what there is.
  const take = async (consumer: SimpleConsumer, wanted: number, invisibleMs?: number): Promise<ReceivedMessage[]> => {
    const got: ReceivedMessage[] = [];
    await until(`${wanted} messages`, async () => {
      got.push(...(await consumer.receive(32, invisibleMs, 1000)));
      return got.length >= wanted;
    });
    return got;
  };
  const first = await take(simple, 8, 6000);
  assert.deepEqual(texts(first).sort(), ['m0', 'm1', 'm10', 'm3', 'm4', 'm6', 'm7', 'm9']);
  const [kept, again, ...rest] = first;
  await simple.ackAll(rest);
  await simple.changeInvisibleDuration(kept!, 60_000);
  assert.ok(kept!.visibleAt! > again!.visibleAt!);
  await simple.ack(kept!);
  const sql = new SimpleConsumer({ ...options(env, 'pop-sql'), ...common, group: 'GID-ClientPopSql', fifo: true });
  await sql.start();
  await sql.subscribe(topic, MessageSelector.bySql('number >= 8'));
  const chosen = await take(sql, 4);
  assert.deepEqual(texts(chosen).sort(), ['m10', 'm11', 'm8', 'm9']);
  for (const message of chosen) await sql.ack(message);
  await sql.close();

  // A listener, by the broker's assignment.
  const group = 'GID-ClientPopPush';
  await env.java.mqadmin([
    'setConsumeMode',
    '-n',
    env.broker.namesrvAddr,
    '-b',
    env.broker.brokerAddr,
    '-t',
    topic,
    '-g',
    group,
    '-m',
    'POP',
    '-q',
    '0',
  ]);
  const got: ReceivedMessage[] = [];
  const tries = new Map<string, number>();
  const push = new PushConsumer({
    ...options(env, 'pop-push'),
    group,
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    clientRebalance: false,
    listener: async (messages) => {
      for (const message of messages) {
        const count = (tries.get(message.text()) ?? 0) + 1;
        tries.set(message.text(), count);
        if (message.text() === 'm5' && count === 1) return 'RECONSUME_LATER';
        got.push(message);
      }
      return 'CONSUME_SUCCESS';
    },
  });
  push.subscribe(topic);
  await push.start();
  await until('all but the one that fails', async () => got.length >= 11);
  assert.ok(push.assignment.some((queue) => queue.queueId === -1));
  // Both come again: the one that nobody acknowledged, and the one that failed.
  const [second] = await take(simple, 1);
  assert.equal(second!.text(), again!.text());
  assert.equal(second!.topic, topic);
  assert.ok(second!.reconsumeTimes >= 1);
  await simple.ack(second!);
  await until('the one that failed', async () => tries.get('m5') === 2);
  assert.deepEqual(texts(got).sort(), Array.from({ length: 12 }, (_, i) => `m${i}`).sort());
  await push.close();
  await simple.close();
  await producer.close();
}

/** The examples do what they say. */
async function examples(env: Env): Promise<void> {
  const run = (
    name: string,
    ...args: string[]
  ): { child: Child; output: () => string; ended: () => Promise<string> } => {
    const logFile = join(env.dir, `${name}.log`);
    const file = join(import.meta.dirname, `../../../examples/${name}.js`);
    const environment = { ...process.env, HOME: env.dir, NAMESRV_ADDR: env.broker.namesrvAddr };
    const child = Child.server(name, process.execPath, [file, ...args], { cwd: env.dir, env: environment, logFile });
    const output = (): string => readFileSync(logFile, 'utf8');
    const ended = async (): Promise<string> => {
      await child.finish();
      return output();
    };
    return { child, output, ended };
  };
  const topic = 'ClientExamples';
  await createTopic(env, topic);
  const consumers = [run('orderly-consumer', topic, 'order'), run('push-consumer', topic)];
  const delayed = run('delayed', topic);
  const transaction = run('transaction', topic);
  assert.match(await run('request-reply', 'ClientExampleQuestions').ended(), /^the answer: 17 characters$/m);
  assert.match(await run('produce', topic).ended(), /^SEND_OK: 3 messages/m);
  const verdicts = await transaction.ended();
  assert.match(verdicts, /^order-1: COMMIT_MESSAGE [0-9A-F]{32}$/m);
  assert.match(verdicts, /^order-3: UNKNOW$/m);
  assert.match(verdicts, /^the broker asks after order-3: COMMIT_MESSAGE$/m);
  assert.match(await delayed.ended(), /^SEND_OK\nSEND_OK\nSEND_OK\ndue at 20.*Z\nrecalled [0-9A-F]{32}$/m);
  const [inOrder, all] = consumers;
  await until('the orders', () => inOrder!.output().includes('order 17 shipped'));
  assert.match(inOrder!.output(), /order 17 created\n.*order 17 paid\n.*order 17 shipped\n/);
  await until('what was delayed', () =>
    ['by level', 'in 3 s', 'at its time'].every((text) => all!.output().includes(text)),
  );
  await until('what was paid', () => (all!.output().match(/ paid$/gm)?.length ?? 0) >= 3);
  for (const { child } of consumers) assert.equal((await child.signal('SIGINT')).code, 0);
  assert.doesNotMatch(all!.output(), /never mind/);
  assert.match(await run('pull-consumer', topic).ended(), /^\d:\d+ hello$/m);
  assert.match(await run('simple-consumer', topic).ended(), /^try 1: hello$/m);
}

export const clientJava: Suite = {
  name: 'client-java',
  needs: ['java'],
  shared: 'small files',
  broker: {
    kind: 'java',
    conf: {
      transactionTimeOut: 2000,
      transactionCheckInterval: 1000,
      // By default a verdict is noted after up to 3 s, and a check before that asks after what has one.
      transactionOpBatchInterval: 100,
      recallMessageEnable: true,
      useServerSideResetOffset: false,
      // On a busy machine a send may wait.
      waitTimeMillsInSendQueue: 5000,
      traceTopicEnable: true,
      enablePropertyFilter: true,
    },
  },
  scenarios: [
    { name: 'transactions: commit, rollback, no verdict, and one of a run that has ended', run: transactions },
    {
      name: 'in order: members come and go, also a Java one; a message that always fails is a dead letter',
      run: orderly,
    },
    { name: 'a group is reset while it runs, in order or not, by the clients and by the broker', run: reset },
    { name: 'request and reply, also of long bodies; a request that nobody answers times out', run: requestReply },
    { name: 'delay levels and timers of all kinds; one is recalled', run: delays },
    { name: 'mqadmin shows the trace of what was sent and consumed', run: trace },
    { name: 'pops: simple consumers, and a listener by the broker’s assignment', run: pops },
    { name: 'the examples do what they say', run: examples },
  ],
};
