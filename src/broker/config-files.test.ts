// Files that Java brokers wrote, loaded and written again. 5.5.0 wrote them with fastjson2, the others with fastjson 1, which puts bare
// keys on one line; those are read, and written in the newer form.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { FakeClock, silentLogger } from '../common/index.ts';
import { MemoryFileSystem, writeWhole } from '../io/index.ts';
import { parseJson } from '../remoting/index.ts';
import { MessageRequestModeManager } from './assignment/message-request-mode-manager.ts';
import { type BrokerConfig, defaultBrokerConfig } from './broker-config.ts';
import type { ConfigEnvironment, ConfigManager } from './config-manager.ts';
import { ConsumerOffsetManager } from './offset/consumer-offset-manager.ts';
import { SubscriptionGroupManager } from './subscription/subscription-group-manager.ts';
import { TopicConfigManager } from './topic/topic-config-manager.ts';

const root = import.meta.dirname.replace(/\/(dist|\.build\/[^/]+)\/src\/.*$/, '');

const config: BrokerConfig = {
  ...defaultBrokerConfig(),
  brokerClusterName: 'GoldenCluster',
  brokerName: 'golden-a',
  reviveQueueNum: 1,
};

function javaFile(store: string, name: string): string {
  return readFileSync(`${root}/test/fixtures/broker-config/${store}/${name}`, 'utf8');
}

function environmentWith(name: string, text: string): ConfigEnvironment {
  const fs = new MemoryFileSystem({ directories: ['/config'] });
  writeWhole(fs, `/config/${name}`, text);
  return { fs, clock: new FakeClock(), logger: silentLogger, folder: '/config' };
}

/** The text with the entries of each table and set in alphabetical order, since Java's order is that of hashes. */
function ordered(text: string): string {
  const sets = text.replace(
    /\[\n([^\]]*)\n\t\t\]/g,
    (_whole, body: string) => `[\n${body.split(',\n').sort().join(',\n')}\n\t\t]`,
  );
  return sets.replace(/^\t"(\w+)":\{\n([\s\S]*?)\n\t\}/gm, (whole: string, name: string, body: string) => {
    if (name === 'dataVersion') return whole;
    const entries = body.split(/,\n(?=\t\t")/).sort();
    return `\t"${name}":{\n${entries.join(',\n')}\n\t}`;
  });
}

function makers(environment: ConfigEnvironment): Record<string, () => ConfigManager> {
  return {
    'topics.json': () => new TopicConfigManager(environment, config, () => {}),
    'subscriptionGroup.json': () => new SubscriptionGroupManager(environment, config),
    'consumerOffset.json': () => new ConsumerOffsetManager(environment, config),
  };
}

for (const name of ['topics.json', 'subscriptionGroup.json', 'consumerOffset.json']) {
  test(`${name} of Java 5.5.0 is written again byte for byte, but for the order of hash maps`, () => {
    const text = javaFile('550-plain-clean', name);
    const manager = makers(environmentWith(name, text))[name]!();
    assert.equal(manager.load(), 'file');
    if (manager instanceof ConsumerOffsetManager) notePulls(manager, text);
    assert.equal(ordered(manager.text()), ordered(text));
  });

  for (const store of ['533-plain-clean', '497-plain-clean']) {
    test(`${name} of ${store} loads, and means the same when written again`, () => {
      const text = javaFile(store, name);
      const manager = makers(environmentWith(name, text))[name]!();
      assert.equal(manager.load(), 'file');
      const ours = parseJson(manager.text()) as Record<string, Record<string, object>>;
      const theirs = parseJson(text) as Record<string, Record<string, object>>;
      // dataVersion came with 5.0, groupTopicMap with 5.3.
      for (const table of Object.keys(theirs).filter((one) => one !== 'pullOffsetTable' && one !== 'groupTopicMap')) {
        for (const key of Object.keys(theirs[table]!)) {
          const expected = theirs[table]![key]!;
          const actual = ours[table]![key]!;
          if (typeof expected !== 'object') assert.equal(actual, expected, key);
          else assert.deepEqual({ ...actual, ...expected }, actual, `${table} ${key}`);
        }
      }
    });
  }
}

/** The file's pullOffsetTable is written for tools and not loaded. */
function notePulls(manager: ConsumerOffsetManager, text: string): void {
  const json = parseJson(text) as { pullOffsetTable: Record<string, Record<string, number>> };
  for (const [key, queues] of Object.entries(json.pullOffsetTable)) {
    const [topic, group] = key.split('@') as [string, string];
    for (const [queueId, offset] of Object.entries(queues)) manager.commitPull(group, topic, Number(queueId), offset);
  }
}

test('messageRequestMode.json of Java 5.5.0 is written again byte for byte', () => {
  const text = javaFile('550-plain-clean', 'messageRequestMode.json');
  const manager = new MessageRequestModeManager(environmentWith('messageRequestMode.json', text));
  assert.equal(manager.load(), 'file');
  assert.equal(manager.text(), text);
  assert.deepEqual(manager.find('GoldenPop', 'GID_pop'), {
    consumerGroup: 'GID_pop',
    mode: 'POP',
    popShareQueueNum: 8,
    topic: 'GoldenPop',
  });
});

test('fastjson 1 wrote an attribute map that occurs twice as a reference', () => {
  const text = `{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1},"topicConfigTable":{
    "A":{"attributes":{"message.type":"FIFO"},"perm":6,"topicName":"A"},
    "B":{"attributes":{"$ref":"$.topicConfigTable.A.attributes"},"perm":4,"topicName":"B"}}}`;
  const manager = new TopicConfigManager(environmentWith('topics.json', text), config, () => {});
  manager.load();
  assert.deepEqual([...manager.select('B')!.attributes], [['message.type', 'FIFO']]);
  assert.equal(manager.select('B')!.perm, 4);
  assert.ok(!manager.text().includes('$ref'));
});

test('groups keep retry policies, laid-down subscriptions and forbidden topics', () => {
  const group = {
    groupName: 'G',
    consumeMessageOrderly: true,
    attributes: { 'priority.factor': '7' },
    groupRetryPolicy: { type: 'EXPONENTIAL', exponentialRetryPolicy: { initial: 1, max: 2, multiplier: 3 } },
    subscriptionDataSet: [{ topic: 'T', expressionType: 'TAG', expression: '*', version: 1 }],
  };
  const text = JSON.stringify({ subscriptionGroupTable: { G: group }, forbiddenTable: { G: { T: 4 } } });
  const manager = new SubscriptionGroupManager(environmentWith('subscriptionGroup.json', text), config);
  manager.load();
  const again = parseJson(manager.text()) as { subscriptionGroupTable: Record<string, object>; forbiddenTable: object };
  const written = again.subscriptionGroupTable['G'] as typeof group;
  for (const field of Object.keys(group) as Array<keyof typeof group>) assert.deepEqual(written[field], group[field]);
  assert.deepEqual(again.forbiddenTable, { G: { T: 4 } });
});
