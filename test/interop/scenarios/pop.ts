// Pops with the Java client: by the calls of its API and by its push consumer, which asks the broker for its queues and how to fetch; a kill
// in between, and one store directory that goes from the system under test to RocketMQ and back with messages in flight.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Child, Row } from '../child.ts';
import { splitAddress } from '../probe.ts';
import { indexesOf, indexOf, propertiesOf, range, received, sent } from '../rows.ts';
import type { Env, Suite } from '../runner.ts';
import type { RunningBroker } from '../system.ts';
import { until } from '../wait.ts';

const TOPIC = 'PopTopic';
const FIFO = 'PopFifo';
const BY_HAND = 'GID_hand';
const OTHER = 'GID_other';
const PUSH = 'GID_push';
/** How long what is popped stays away: until it is to come back, or for as long as the scenario takes. */
const SHORT_MS = 3000;
const LONG_MS = 300_000;
const PATIENCE_MS = 60_000;
/** The message that the push consumer refuses: it asks for it again 10 s later. */
const REFUSED = 7;

interface More {
  /** In order, by the attempt of this name. */
  attempt?: string;
  group?: string;
}

/** The program that pops by hand. */
class Hand {
  readonly #child: Child;
  #steps = 0;
  #seen = 0;

  constructor(env: Env, { brokerAddr, brokerName, namesrvAddr }: RunningBroker) {
    this.#child = env.java.start('pop', { addr: brokerAddr, 'broker-name': brokerName, namesrv: namesrvAddr });
  }

  /** Pops until `wanted` have come or `waitMs` are over. */
  async pop(topic: string, wanted: number, waitMs: number, invisibleMs: number, more: More = {}): Promise<Row[]> {
    const { attempt = '', group = BY_HAND } = more;
    const words = ['pop', topic, group, 32, invisibleMs, waitMs, wanted, attempt];
    return received(await this.#step(words.join(' ').trim()));
  }

  /** What the broker said. */
  async acknowledge(
    how: 'ack' | 'batch-ack',
    topic: string,
    rows: readonly Row[],
    { group = BY_HAND }: More = {},
  ): Promise<unknown> {
    return (await this.#step(`${how} ${topic} ${group} ${rows.map(indexOf).join(',')}`)).at(-1)?.['results'];
  }

  async change(topic: string, rows: readonly Row[], ms: number): Promise<unknown> {
    const answer = await this.#step(`change ${topic} ${BY_HAND} ${rows.map(indexOf).join(',')} ${ms}`);
    return answer.at(-1)?.['results'];
  }

  async close(): Promise<void> {
    await this.#child.close();
  }

  /** The rows that answer a line. */
  async #step(line: string): Promise<Row[]> {
    this.#child.write(line);
    const wanted = ++this.#steps;
    const all = await this.#child.until(line, (rows) => {
      return rows.filter((row) => row['step'] !== undefined).length >= wanted ? rows : undefined;
    });
    const rows = all.slice(this.#seen);
    this.#seen = all.length;
    const failed = rows.find((row) => row['failed'] !== undefined);
    assert.equal(failed, undefined, `${line}: ${String(failed?.['failed'])}`);
    return rows;
  }
}

/** Sends to a topic of `queues` queues; it is made if there is none. */
async function send(
  env: Env,
  broker: RunningBroker,
  topic: string,
  start: number,
  count: number,
  queues: number,
): Promise<void> {
  const options = { namesrv: broker.namesrvAddr, topic, prefix: `m${start}`, count, start, queues };
  const rows = sent(await env.java.run('produce', options));
  assert.equal(rows.length, count);
}

const all = (count: number, outcome = 'OK'): string[] => new Array<string>(count).fill(outcome);

/** The deliveries of the message that the push consumer refuses. */
function refused(rows: readonly Row[]): Row[] {
  return received(rows).filter((row) => indexOf(row) === REFUSED);
}

/** Waits until the broker has saved how far a group has come. */
async function saved(broker: RunningBroker, group: string, total: number): Promise<void> {
  const file = join(broker.storeDir, 'config/consumerOffset.json');
  await until(`offsets of ${group} are saved`, () => {
    const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
    const table = new RegExp(`"offsetTable":[^]*?"${TOPIC}@${group}":\\{([^}]*)\\}`).exec(text)?.[1] ?? '';
    const offsets = [...table.matchAll(/:(\d+)/g)].map((match) => Number(match[1]));
    return offsets.reduce((sum, offset) => sum + offset, 0) === total ? true : undefined;
  });
}

export const pop: Suite = {
  name: 'pop',
  needs: ['java'],
  shared: 'none',
  scenarios: [
    {
      name: 'by hand and by the push consumer, through a kill, to RocketMQ and back with messages in flight',
      async run(env) {
        const { addr: namesrv } = await env.startNamesrv(env.sutKind);
        const options = {
          storeDir: join(env.dir, 'store'),
          namesrvAddr: namesrv,
          smallFiles: true,
          brokerName: 'pop-broker',
        };
        const one = await env.startBroker(env.sutKind, options);
        const restarted = { ...options, port: splitAddress(one.brokerAddr)[1] };
        await send(env, one, TOPIC, 0, 40, 4);
        await send(env, one, FIFO, 0, 6, 1);
        const mode = ['-b', one.brokerAddr, '-n', namesrv, '-t', TOPIC, '-g', PUSH, '-m', 'POP', '-q', '0'];
        assert.match(await env.java.mqadmin(['setConsumeMode', ...mode]), /success/i);
        const push = env.java.start('consume', { namesrv, topic: TOPIC, group: PUSH, pop: true, poison: REFUSED });
        const hand = new Hand(env, one);
        const first = await hand.pop(TOPIC, 20, PATIENCE_MS, LONG_MS);
        assert.equal(first.length, 20);
        assert.deepEqual(await hand.acknowledge('ack', TOPIC, first.slice(0, 4)), all(4));
        assert.deepEqual(await hand.acknowledge('batch-ack', TOPIC, first.slice(4, 12)), all(1));
        await push.until('all are consumed', (rows) => new Set(received(rows).map(indexOf)).size === 40);
        await saved(one, BY_HAND, 20);
        await saved(one, PUSH, 40);
        await one.kill();

        // The 8 that were not acknowledged are still under way. What was brought back just before a kill may come twice, so it is later.
        const two = await env.startBroker(env.sutKind, restarted);
        assert.deepEqual(await hand.change(TOPIC, first.slice(12), 1000), all(8));
        const second = await hand.pop(TOPIC, 28, PATIENCE_MS, LONG_MS);
        const back = second.filter((row) => row['reconsumeTimes'] === 1);
        const fresh = second.filter((row) => row['reconsumeTimes'] === 0);
        assert.deepEqual(indexesOf(back), indexesOf(first.slice(12)));
        assert.deepEqual(indexesOf([...first, ...fresh]), range(0, 40));
        for (const row of back) assert.ok(propertiesOf(row)['1ST_POP_TIME'] !== undefined);
        assert.deepEqual(await hand.acknowledge('ack', TOPIC, [...back.slice(0, 5), ...fresh.slice(0, 10)]), all(15));
        // In order: the second of three is still under way.
        const inOrder = await hand.pop(FIFO, 3, PATIENCE_MS, LONG_MS, { attempt: 'first' });
        assert.deepEqual(indexesOf(inOrder), [0, 1, 2]);
        assert.deepEqual(await hand.acknowledge('ack', FIFO, [inOrder[0]!, inOrder[2]!]), all(2));
        // In flight: 13 whose time was changed, 6 of a pop that nobody acknowledges.
        const changed = [...back.slice(5), ...fresh.slice(10)];
        assert.deepEqual(await hand.change(TOPIC, changed, 1000), all(13));
        assert.equal((await hand.pop(FIFO, 6, PATIENCE_MS, SHORT_MS, { group: OTHER })).length, 6);
        await two.stop();

        const three = await env.startBroker(env.sutKind === 'java' ? 'gantry' : 'java', restarted);
        assert.deepEqual(await hand.pop(FIFO, 1, 0, 1000, { attempt: 'other' }), [], 'it is closed');
        const again = await hand.pop(FIFO, 3, 0, LONG_MS, { attempt: 'first' });
        assert.deepEqual(indexesOf(again), [1, 2, 3]);
        assert.deepEqual(await hand.acknowledge('ack', FIFO, again.slice(0, 2)), all(2));
        const atThree = await hand.pop(TOPIC, 13, PATIENCE_MS, LONG_MS);
        assert.deepEqual(indexesOf(atThree), indexesOf(changed));
        assert.deepEqual(await hand.acknowledge('ack', TOPIC, atThree.slice(0, 5)), all(5));
        // In flight again: 8 of those, and the other group's 6.
        assert.deepEqual(await hand.change(TOPIC, atThree.slice(5), 1000), all(8));
        const others = await hand.pop(FIFO, 6, PATIENCE_MS, SHORT_MS, { group: OTHER });
        assert.deepEqual(indexesOf(others), range(0, 6));
        await three.stop();

        const four = await env.startBroker(env.sutKind, restarted);
        assert.deepEqual(await hand.pop(FIFO, 1, 0, 1000, { attempt: 'other' }), [], 'it is still closed');
        assert.deepEqual(indexesOf(await hand.pop(FIFO, 3, 0, LONG_MS, { attempt: 'first' })), [3, 4, 5]);
        const last = await hand.pop(TOPIC, 8, PATIENCE_MS, LONG_MS);
        assert.deepEqual(indexesOf(last), indexesOf(atThree.slice(5)));
        assert.deepEqual(await hand.acknowledge('batch-ack', TOPIC, last), all(1));
        const twice = await hand.pop(FIFO, 6, PATIENCE_MS, LONG_MS, { group: OTHER });
        assert.deepEqual(indexesOf(twice), range(0, 6));
        assert.deepEqual(
          twice.map((row) => row['reconsumeTimes']),
          [2, 2, 2, 2, 2, 2],
        );
        await send(env, four, TOPIC, 40, 5, 4);
        assert.deepEqual(indexesOf(await hand.pop(TOPIC, 5, PATIENCE_MS, LONG_MS)), range(40, 45));
        await push.until('those that came last', (rows) => new Set(received(rows).map(indexOf)).size === 45);
        await push.until('what it refused', (rows) => refused(rows).length >= 2);
        const consumed = received(await push.close());
        assert.equal(consumed.length - refused(consumed).length, 44, 'some were consumed twice');
        assert.deepEqual(
          refused(consumed).map((row) => row['reconsumeTimes']),
          refused(consumed).map((_, i) => i),
        );
        await hand.close();
        await four.stop();
      },
    },
  ],
};
