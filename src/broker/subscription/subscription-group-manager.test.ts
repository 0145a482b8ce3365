import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger, FakeClock } from '../../common/index.ts';
import { MemoryFileSystem, readWhole } from '../../io/index.ts';
import { type BrokerConfig, defaultBrokerConfig } from '../broker-config.ts';
import { defaultGroupConfig, type GroupRetryPolicy } from './subscription-group-config.ts';
import { FORBIDDEN_READ, SubscriptionGroupManager } from './subscription-group-manager.ts';

function manager(
  config: Partial<BrokerConfig> = {},
  fs = new MemoryFileSystem({ directories: ['/config'] }),
): { fs: MemoryFileSystem; groups: SubscriptionGroupManager } {
  const environment = { fs, clock: new FakeClock(), logger: new CollectingLogger(), folder: '/config' };
  return { fs, groups: new SubscriptionGroupManager(environment, { ...defaultBrokerConfig(), ...config }) };
}

test('what consumes creates its group, what asks does not', () => {
  const { groups } = manager();
  assert.equal(groups.find('G'), undefined);
  assert.equal(groups.findOrCreate('G')!.retryMaxTimes, 16);
  assert.equal(groups.find('G')!.groupName, 'G');
  assert.equal(groups.findOrCreate('bad group!'), undefined);
  assert.equal(groups.findOrCreate('g'.repeat(121)), undefined);
});

test('with autoCreateSubscriptionGroup off only system groups are created', () => {
  const { groups } = manager({ autoCreateSubscriptionGroup: false });
  assert.equal(groups.findOrCreate('G'), undefined);
  assert.equal(groups.findOrCreate('CID_RMQ_SYS_REVIVE_GROUP')!.groupName, 'CID_RMQ_SYS_REVIVE_GROUP');
  assert.equal(
    manager({ autoCreateSubscriptionGroup: false, enableCreateSysGroup: false }).groups.findOrCreate('CID_RMQ_SYS_X'),
    undefined,
  );
});

test('forbidden topics last over a restart and end one by one', () => {
  const { groups, fs } = manager();
  groups.setForbidden('G', 'T', FORBIDDEN_READ, true);
  groups.setForbidden('G', 'U', FORBIDDEN_READ, true);
  groups.setForbidden('G', 'T', FORBIDDEN_READ, false);
  const again = manager({}, fs).groups;
  again.load();
  assert.equal(again.isForbidden('G', 'T', FORBIDDEN_READ), false);
  assert.equal(again.isForbidden('G', 'U', FORBIDDEN_READ), true);
  assert.equal(again.isForbidden('G', 'U', 1), false);
});

test('retry policies of a group last over a restart, in the form in which RocketMQ reads and writes them', () => {
  const { groups, fs } = manager();
  const policies: Record<string, GroupRetryPolicy> = {
    E: { type: 'EXPONENTIAL', exponential: { initial: 1000, max: 60_000, multiplier: 3 } },
    C: { type: 'CUSTOMIZED', customizedNext: [1000, 2000, 3_600_000] },
    D: { type: 'CUSTOMIZED' },
  };
  groups.update(
    Object.entries(policies).map(([name, groupRetryPolicy]) => ({ ...defaultGroupConfig(name), groupRetryPolicy })),
  );
  const text = Buffer.from(readWhole(fs, '/config/subscriptionGroup.json')!).toString();
  for (const [name, wanted] of [
    ['E', '{"exponentialRetryPolicy":{"initial":1000,"max":60000,"multiplier":3},"type":"EXPONENTIAL"}'],
    ['C', '{"customizedRetryPolicy":{"next":[1000,2000,3600000]},"type":"CUSTOMIZED"}'],
    ['D', '{"type":"CUSTOMIZED"}'],
  ] as const) {
    const group = (JSON.parse(text) as { subscriptionGroupTable: Record<string, { groupRetryPolicy: object }> })
      .subscriptionGroupTable[name]!;
    assert.equal(JSON.stringify(group.groupRetryPolicy), wanted);
  }
  const again = manager({}, fs).groups;
  again.load();
  for (const [name, policy] of Object.entries(policies)) assert.deepEqual(again.find(name)!.groupRetryPolicy, policy);
});

test('an update merges attributes, a deletion lasts', () => {
  const { groups, fs } = manager();
  groups.update([{ ...defaultGroupConfig('G'), retryMaxTimes: 3, attributes: new Map([['+priority.factor', '7']]) }]);
  groups.update([{ ...defaultGroupConfig('G'), retryMaxTimes: 4, attributes: new Map() }]);
  assert.deepEqual([...groups.find('G')!.attributes], [['priority.factor', '7']]);
  assert.throws(
    () => groups.update([{ ...defaultGroupConfig('G'), attributes: new Map([['+priority.factor', '101']]) }]),
    { responseCode: 1 },
  );
  assert.equal(groups.find('G')!.retryMaxTimes, 4);
  const again = manager({}, fs).groups;
  again.load();
  assert.equal(again.find('G')!.retryMaxTimes, 4);
  assert.ok(again.delete('G'));
  const third = manager({}, fs).groups;
  third.load();
  assert.equal(third.find('G'), undefined);
});
