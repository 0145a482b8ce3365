// Transactions with Java's TransactionMQProducer: commit, rollback, unknown and then asked, a producer that is gone and another of its group
// that answers, restarts and kills in between, and a store with open transactions that goes to a Java broker and back.

import assert from 'node:assert/strict';
import type { Child, Row } from '../child.ts';
import { drain, ofTopic } from '../drained.ts';
import { storedMessages } from '../probe.ts';
import { indexesOf, propertiesOf, range } from '../rows.ts';
import type { Env, Suite } from '../runner.ts';
import type { RunningBroker, SystemKind } from '../system.ts';
import { until } from '../wait.ts';

/** A round every second, and what is two seconds old is due. */
const QUICK = { transactionCheckInterval: 1000, transactionTimeOut: 2000, transactionOpBatchInterval: 300 };
const SMALL = { smallFiles: true, conf: QUICK };
const COMMIT = 8;
const TRANSACTION_BITS = 12;
const PARK_TOPIC = 'TRANS_CHECK_MAX_TIME_TOPIC';

function transact(env: Env, broker: RunningBroker, topic: string, more: Record<string, string | number>): Child {
  return env.java.start('transact', { namesrv: broker.namesrvAddr, topic, group: `T-${topic}`, ...more });
}

async function sentAll(child: Child): Promise<Row[]> {
  await child.until('all are sent', (rows) => rows.some((row) => row['sentAll'] === true));
  return child.rows.filter((row) => row['sent'] !== undefined);
}

function checks(rows: readonly Row[]): Row[] {
  return rows.filter((row) => row['checked'] !== undefined);
}

async function arrived(env: Env, broker: RunningBroker, topic: string, expected: readonly number[]): Promise<Row[]> {
  await until(
    `${expected.length} messages are there`,
    async () => (await storedMessages(broker.brokerAddr, topic)) >= expected.length,
  );
  const found = ofTopic(await drain(env.java, broker, [topic]), topic);
  assert.deepEqual(indexesOf(found), [...expected]);
  for (const row of found) {
    const properties = propertiesOf(row);
    assert.equal(Number(row['sysFlag']) & TRANSACTION_BITS, COMMIT);
    assert.equal(properties['TRAN_MSG'], 'true');
    assert.equal(properties['PGROUP'], `T-${topic}`);
    assert.equal(properties['__transactionId__'], row['uniqKey']);
    assert.equal(properties['REAL_TOPIC'], undefined);
    assert.equal(properties['REAL_QID'], undefined);
  }
  return found;
}

/** Open transactions cross over from one broker to the next on one store directory, each of which ends some. */
async function handOver(env: Env, order: readonly SystemKind[]): Promise<void> {
  const topic = 'TransHandOver';
  let storeDir: string | undefined;
  const expected: number[] = [];
  let open: number[] = [];
  for (const [turn, kind] of order.entries()) {
    // Nobody is there to answer while the one before stops, which may take a busy machine more rounds than are allowed by default.
    const conf = { ...QUICK, transactionCheckMax: 1000 };
    const broker = await env.startBroker(kind, { ...SMALL, conf, ...(storeDir === undefined ? {} : { storeDir }) });
    storeDir = broker.storeDir;
    const first = turn * 10;
    // Whoever is there last ends what the one before left open; the others only leave more open.
    const producer = transact(env, broker, topic, {
      count: 9,
      start: first,
      local: 'commit,rollback,unknown',
      check: 'commit',
    });
    await sentAll(producer);
    expected.push(...range(first, first + 9).filter((i) => i % 3 === 0), ...open);
    const mine = range(first, first + 9).filter((i) => i % 3 === 2);
    if (turn === order.length - 1) {
      expected.push(...mine);
    } else {
      // The answers to this broker's own checks must not come: the producer goes before its messages are due.
      await until(
        'the ends are noted',
        async () => (await storedMessages(broker.brokerAddr, topic)) >= expected.length,
      );
    }
    if (turn < order.length - 1) {
      open = mine;
      await producer.kill();
    }
    expected.sort((a, b) => a - b);
    await until(`${kind} has all of turn ${turn}`, async () => {
      return (await storedMessages(broker.brokerAddr, topic)) >= expected.length;
    });
    const found = ofTopic(await drain(env.java, broker, [topic]), topic);
    const have = indexesOf(found);
    for (const index of expected) assert.ok(have.includes(index), `${kind}, turn ${turn}: ${index} is missing`);
    assert.equal(new Set(have).size, have.length, `${kind}, turn ${turn}: delivered twice: ${have}`);
    for (const index of have) assert.ok(index % 3 !== 1, `${kind}, turn ${turn}: ${index} was rolled back`);
    if (turn === order.length - 1) await producer.close();
    await broker.stop();
  }
}

export const transactions: Suite = {
  name: 'transactions',
  needs: ['java'],
  shared: 'none',
  scenarios: [
    {
      name: 'commit, rollback, and unknown that a check ends',
      async run(env) {
        const topic = 'TransMixed';
        const broker = await env.startBroker(env.sutKind, SMALL);
        const producer = transact(env, broker, topic, { count: 30, local: 'commit,rollback,unknown', check: 'commit' });
        const sends = await sentAll(producer);
        assert.equal(sends.length, 30);
        for (const row of sends) assert.equal(row['status'], 'SEND_OK');
        const expected = range(0, 30).filter((i) => i % 3 !== 1);
        await arrived(env, broker, topic, expected);
        const asked = checks(await producer.close());
        assert.deepEqual(new Set(asked.map((row) => row['checked'])), new Set(range(0, 30).filter((i) => i % 3 === 2)));
        for (const row of asked) {
          assert.equal(row['topic'], topic);
          assert.equal(row['transactionId'], row['uniqKey']);
          assert.equal(row['uniqKey'], sends.find((sent) => sent['sent'] === row['checked'])!['msgId']);
        }
        await broker.stop();
      },
    },
    {
      name: 'a producer is gone, and another of its group answers, also after a kill',
      async run(env) {
        const topic = 'TransGone';
        // No record tells of the ends before the kill.
        const late = { transactionCheckInterval: 600_000, transactionOpBatchInterval: 600_000 };
        const broker = await env.startBroker(env.sutKind, { smallFiles: true, conf: late });
        const first = transact(env, broker, topic, { count: 6, local: 'commit,unknown', check: 'unknown' });
        await sentAll(first);
        await first.kill();
        await arrived(env, broker, topic, [0, 2, 4]);
        await broker.kill();
        const again = await env.startBroker(env.sutKind, { ...SMALL, storeDir: broker.storeDir });
        const second = transact(env, again, topic, { instance: 'other', check: 'commit' });
        await second.until(
          'all are asked about',
          (rows) => new Set(checks(rows).map((row) => row['checked'])).size >= 6,
        );
        await until('all are delivered', async () => (await storedMessages(again.brokerAddr, topic)) >= 6);
        await second.close();
        const found = indexesOf(ofTopic(await drain(env.java, again, [topic]), topic));
        // RocketMQ delivers those once more that had ended before the kill.
        assert.deepEqual(env.sutKind === 'java' ? [...new Set(found)] : found, range(0, 6));
        await again.stop();
      },
    },
    {
      name: 'killed in the middle: what was accepted is delivered, as its producer says',
      async run(env) {
        const topic = 'TransKilled';
        const namesrv = await env.startNamesrv(env.sutKind);
        const options = { ...SMALL, namesrvAddr: namesrv.addr };
        const broker = await env.startBroker(env.sutKind, options);
        const producer = transact(env, broker, topic, { count: 3000, local: 'commit,unknown', check: 'commit' });
        const accepted = (rows: readonly Row[]): Row[] => rows.filter((row) => row['sent'] !== undefined);
        await producer.until('some are accepted', (rows) => accepted(rows).length >= 100);
        await broker.kill();
        const port = Number(broker.brokerAddr.slice(broker.brokerAddr.lastIndexOf(':') + 1));
        const again = await env.startBroker(env.sutKind, { ...options, port, storeDir: broker.storeDir });
        await sentAll(producer);
        const wanted = new Set(accepted(producer.rows).map((row) => Number(row['sent'])));
        let last = -1;
        await until('nothing is open', async () => {
          // What comes while it is drained would be more than the drain was told of.
          const before = last;
          last = await storedMessages(again.brokerAddr, topic);
          if (last < wanted.size || last !== before) return false;
          const found = ofTopic(await drain(env.java, again, [topic]), topic);
          const have = new Set(indexesOf(found));
          return [...wanted].every((index) => have.has(index));
        });
        await producer.close();
        await again.stop();
      },
    },
    {
      name: 'asked as often as allowed, then parked; a restart in between counts on',
      async run(env) {
        const topic = 'TransParked';
        const conf = { ...QUICK, transactionCheckMax: 3 };
        const broker = await env.startBroker(env.sutKind, { smallFiles: true, conf });
        const first = transact(env, broker, topic, { count: 2, local: 'unknown', check: 'unknown' });
        await first.until('each is asked about', (rows) => checks(rows).length >= 2);
        const before = checks(await first.close()).length;
        await broker.stop();
        const again = await env.startBroker(env.sutKind, { smallFiles: true, conf, storeDir: broker.storeDir });
        const second = transact(env, again, topic, { check: 'unknown' });
        await until('both are parked', async () => (await storedMessages(again.brokerAddr, PARK_TOPIC, 1)) >= 2);
        const after = checks(await second.close()).length;
        assert.equal(before + after, 6);
        await again.stop();
      },
    },
    {
      name: 'open transactions go to a Java broker and back',
      async run(env) {
        await handOver(env, [env.sutKind, 'java', env.sutKind]);
      },
    },
  ],
};
