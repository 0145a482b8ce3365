// SQL92 filters: Java's consumers with MessageSelector.bySql, RocketMQ's own filter beside ours, and a store whose filter data and filter bits go to
// a Java broker and back.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Sql92Filter } from '../../../src/filter/index.ts';
import type { Child, Row } from '../child.ts';
import { indexOf, received } from '../rows.ts';
import type { Env, Suite } from '../runner.ts';
import type { RunningBroker } from '../system.ts';
import { ROOT } from '../toolchain.ts';
import { until } from '../wait.ts';

const CONF = { enablePropertyFilter: true };
const WITH_BITS = {
  ...CONF,
  enableConsumeQueueExt: true,
  enableCalcFilterBitMap: true,
  mappedFileSizeConsumeQueueExt: 65_536,
};
const EXPRESSION = "index BETWEEN 3 AND 1000 AND TAGS = 'TagA' AND (color IS NULL OR NOT color = 'red')";

/** Which of the messages `[from, to)` of `produce` match EXPRESSION: every second one has TagA. */
function expected(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, i) => from + i).filter((index) => index >= 3 && index % 2 === 0);
}

function indexes(rows: readonly Row[]): number[] {
  const all = received(rows).map(indexOf);
  return [...new Set(all)].sort((a, b) => a - b);
}

async function produce(env: Env, broker: RunningBroker, topic: string, start: number, count: number): Promise<void> {
  await env.java.run('produce', { namesrv: broker.namesrvAddr, topic, start, count, tags: 'TagA,TagB' });
}

function consume(env: Env, broker: RunningBroker, topic: string, sql: string): Child {
  return env.java.start('consume', { namesrv: broker.namesrvAddr, topic, group: `G-${topic}`, sql });
}

async function untilIndexes(child: Child, wanted: readonly number[]): Promise<void> {
  await child.until(`${wanted.length} messages`, (rows) => indexes(rows).length >= wanted.length);
}

async function table(env: Env): Promise<void> {
  const file = join(ROOT, 'test/fixtures/filter/java-verdicts.json');
  const { messages, cases } = JSON.parse(readFileSync(file, 'utf8')) as {
    messages: Array<Record<string, string>>;
    cases: Array<{ expression: string; verdicts?: string; error?: string }>;
  };
  const asked = join(env.dir, 'table.json');
  writeFileSync(asked, JSON.stringify({ messages, expressions: cases.map(({ expression }) => expression) }));
  const rows = (await env.java.run('filter-table', { file: asked })).filter((row) => row['expression'] !== undefined);
  assert.deepEqual(rows, cases, 'the fixture is no longer what RocketMQ says');
  const bytes = messages.map((message) =>
    Buffer.from(
      Object.entries(message)
        .map(([name, value]) => `${name}\u0001${value}\u0002`)
        .join(''),
    ),
  );
  for (const { expression, verdicts, error: refusal } of cases) {
    let filter: Sql92Filter;
    try {
      filter = new Sql92Filter(expression);
    } catch (error) {
      assert.equal((error as Error).message, refusal, expression);
      continue;
    }
    const ours = bytes.map((text) => 'FTNX'[filter.verdict(text, 0, text.length)]).join('');
    assert.equal(ours, verdicts, expression);
  }
}

async function consumers(env: Env): Promise<void> {
  const broker = await env.startBroker(env.sutKind, { conf: CONF });
  await produce(env, broker, 'Filtered', 0, 40);
  const push = consume(env, broker, 'Filtered', EXPRESSION);
  await untilIndexes(push, expected(0, 40));
  // From here on it waits for what comes.
  await produce(env, broker, 'Filtered', 40, 40);
  await untilIndexes(push, expected(0, 80));
  assert.deepEqual(indexes(await push.close()), expected(0, 80));
  const sql = "index > 70 AND index <> 75 OR index = 'none'";
  const lite = await env.java.run('lite-pull', {
    namesrv: broker.namesrvAddr,
    topic: 'Filtered',
    group: 'G-lite',
    sql,
    count: 8,
  });
  assert.deepEqual(indexes(lite), [71, 72, 73, 74, 76, 77, 78, 79]);
  await assert.rejects(consume(env, broker, 'Filtered', "index > 'x'").finish(), /cannot be compared/);
  await broker.stop();
}

async function switchedOff(env: Env): Promise<void> {
  const broker = await env.startBroker(env.sutKind, {});
  await produce(env, broker, 'Unfiltered', 0, 4);
  await assert.rejects(
    consume(env, broker, 'Unfiltered', 'index > 1').finish(),
    /The broker does not support consumer to filter message by SQL92/,
  );
  await broker.stop();
}

interface FilterFile {
  filterDataByTopic: Record<string, { groupFilterData: Record<string, Record<string, unknown>> }>;
}

function filterData(broker: RunningBroker, topic: string): Record<string, unknown> | undefined {
  const file = join(broker.storeDir, 'config/consumerFilter.json');
  const { filterDataByTopic } = JSON.parse(readFileSync(file, 'utf8')) as FilterFile;
  return filterDataByTopic[topic]?.groupFilterData[`G-${topic}`];
}

/** The filter bits of a topic's ext units, all queues. */
function extBits(broker: RunningBroker, topic: string): string[] {
  const folder = join(broker.storeDir, 'consumequeue_ext', topic);
  return readdirSync(folder).flatMap((queueId) =>
    readdirSync(join(folder, queueId)).flatMap((name) => {
      const bytes = readFileSync(join(folder, queueId, name));
      const bits: string[] = [];
      for (let at = 0; bytes.readInt16BE(at) > 0; at += bytes.readInt16BE(at)) {
        bits.push(bytes.subarray(at + 20, at + bytes.readInt16BE(at)).toString('hex'));
      }
      return bits;
    }),
  );
}

/** Each broker in turn finds the group's filter and the bits of the others, and passes over what their bits say does not match. */
async function handOver(env: Env): Promise<void> {
  const topic = 'FilterBits';
  const storeDir = join(env.dir, 'store');
  let seen = 0;
  let bornTime: unknown;
  const bits = new Set<string>();
  for (const kind of ['gantry', 'java', 'gantry'] as const) {
    const broker = await env.startBroker(kind, { storeDir, conf: WITH_BITS });
    if (seen === 0) await produce(env, broker, topic, 0, 4);
    const first = seen === 0 ? 4 : seen;
    // What was stored while nobody consumed is read from the bits of the group's dead entry.
    if (seen > 0) await produce(env, broker, topic, seen, 20);
    const child = consume(env, broker, topic, EXPRESSION);
    if (seen > 0) await untilIndexes(child, expected(seen, seen + 20));
    else await child.until('its queues', (rows) => rows.some((row) => (row['assigned'] as unknown[])?.length > 0));
    const before = seen === 0 ? 4 : seen + 20;
    await produce(env, broker, topic, before, 20);
    const wanted = expected(seen === 0 ? 0 : first, before + 20);
    await untilIndexes(child, wanted);
    assert.deepEqual(indexes(await child.close()), wanted, kind);
    seen = before + 20;
    await until('the offsets of the consumer are known', async () => {
      const rows = await env.java.run('offsets', { namesrv: broker.namesrvAddr, topic, group: `G-${topic}` });
      const table = rows.find((row) => row['offsets'] !== undefined)!['offsets'] as Record<
        string,
        { consumer: number }
      >;
      return Object.keys(table).length > 0;
    });
    await broker.stop();
    const data = filterData(broker, topic)!;
    bornTime ??= data['bornTime'];
    assert.equal(data['bornTime'], bornTime, `${kind} keeps since when the bits know the group`);
    assert.deepEqual([data['expression'], data['expressionType']], [EXPRESSION, 'SQL92']);
    const units = extBits(broker, topic);
    assert.equal(units.length, seen, `${kind}: an ext unit for each message`);
    for (const unit of units) bits.add(unit);
  }
  // Before the group was known; nobody; the group: the same bits from both brokers.
  assert.equal(bits.size, 3, [...bits].join(' '));
}

export const filters: Suite = {
  name: 'filters',
  needs: ['java'],
  shared: 'none',
  scenarios: [
    { name: "RocketMQ's own filter says the same of a table of expressions", run: table },
    { name: 'push and lite pull consumers with SQL92 get what matches, also while they wait', run: consumers },
    { name: 'SQL92 is refused at the start of a consumer unless it is turned on', run: switchedOff },
    { name: 'filter data and filter bits go to a Java broker and back', run: handOver },
  ],
};
