import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { GantryError } from '../errors.ts';
import { BROKER_TABLES, NAMESRV_TABLES, readBrokerSettings } from './roles.ts';
import type { Setting } from './setting.ts';

// dist/src/common/config and .build/NAME/src/common/config alike: the fixtures lie in the sources.
const root = import.meta.dirname.replace(/\/(dist|\.build\/[^/]+)\/src\/.*$/, '');
const fixtures = `${root}/test/fixtures/config`;

function known(key: string, role: 'broker' | 'namesrv'): Setting[] {
  const tables = role === 'broker' ? BROKER_TABLES : NAMESRV_TABLES;
  return tables.flatMap((table) => table.settings.filter((setting) => setting.key === key));
}

const KINDS: Readonly<Record<string, string>> = {
  int: 'int',
  long: 'long',
  double: 'double',
  boolean: 'bool',
  String: 'text',
};

test('the tables know every key of RocketMQ 5.5.0 with its type and default', () => {
  const rows = readFileSync(`${fixtures}/rocketmq-5.5.0-settings.tsv`, 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => line.split('\t') as [string, string, string, string]);
  assert.ok(rows.length > 570);
  for (const [owner, key, type, value] of rows) {
    const role = owner === 'NamesrvConfig' || owner === 'ControllerConfig' ? 'namesrv' : 'broker';
    const settings = known(key, role);
    const where = `${owner}.${key}`;
    assert.ok(settings.length > 0, `${where} is in no table`);
    const kinds = type.includes('|') ? type.split('|').sort() : KINDS[type];
    const found = settings.find(
      (s) => JSON.stringify(typeof s.type === 'string' ? s.type : [...s.type].sort()) === JSON.stringify(kinds),
    );
    assert.ok(found, `${where} has the type ${settings[0]?.type}, not ${type}`);
    // Both start programs put their own port in before they read the file, and in a name server's file its own list comes first.
    if (value === 'host' || value === 'setter' || key === 'listenPort' || where === 'ControllerConfig.configBlackList')
      continue;
    const standard = settings.map((s) => (s.rocketmq === undefined ? s.default : s.rocketmq));
    const parsed = value === 'null' ? null : type === 'String' || type.includes('|') ? value : JSON.parse(value);
    // RocketMQ: namesrvAddr and the like come from the environment, and these are worked out later.
    assert.ok(standard.includes(parsed), `${where} has the default ${standard}, not ${value}`);
  }
});

test('every row is whole, and no table has a key twice', () => {
  for (const { part, settings } of [...BROKER_TABLES, ...NAMESRV_TABLES]) {
    const keys = settings.map((setting) => setting.key);
    assert.equal(new Set(keys).size, keys.length, part);
    for (const { key, text, state, live, guard, default: value } of settings) {
      assert.match(text, /^[A-Z0-9].*[.]$/s, `${key}: ${text}`);
      assert.ok(!(live === true && state !== 'honoured'), `${key} is live but not honoured`);
      if (guard !== undefined) assert.ok(guard.passes(value), `${key} refuses its own default`);
    }
  }
});

interface GoldenConf {
  plain: Record<string, string>;
  differences: Record<string, Record<string, string>>;
}

const golden: GoldenConf = JSON.parse(readFileSync(`${fixtures}/golden-broker-conf.json`, 'utf8'));

/** Which setting refuses the configuration of a golden store; those not named here are accepted. */
const REFUSED: Readonly<Record<string, string>> = {
  '550-combine': 'rocksdbCQDoubleWriteEnable',
  '550-controller': 'enableControllerMode',
  '550-dledger': 'enableDLegerCommitLog',
  '550-rdbv2-popkv': 'configManagerVersion',
  '550-rocksdb': 'storeType',
  '550-rocksmessage': 'indexRocksDBEnable',
};

for (const [name, difference] of Object.entries(golden.differences)) {
  const expected = REFUSED[name];
  test(`the configuration of the Java store ${name} is ${expected === undefined ? 'read' : `refused by ${expected}`}`, () => {
    const conf = { ...golden.plain, ...difference };
    const text = Object.entries(conf)
      .map(([key, value]) => `${key}=${value}`)
      .join('\n');
    const read = (): ReturnType<typeof readBrokerSettings> =>
      readBrokerSettings({ file: { path: 'broker.conf', text } });
    if (expected !== undefined) {
      assert.throws(
        read,
        (e) => e instanceof GantryError && e.code === 'CONFIG_UNSUPPORTED' && e.message.startsWith(`${expected}=`),
      );
      return;
    }
    const settings = read();
    assert.ok(!settings.warnings.some((warning) => warning.includes('unknown settings')));
    for (const [key, value] of Object.entries(conf)) assert.equal(String(settings.value(key)), value, key);
  });
}
