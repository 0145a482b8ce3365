// The tables say which settings are honoured. This keeps them honest: the objects that the parts are configured with have the same
// keys and defaults, and every key is used somewhere.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { defaultBrokerConfig } from '../broker/index.ts';
import { BROKER_TABLES, NAMESRV_TABLES, type Setting, type SettingTable } from '../common/config/index.ts';
import { defaultStoreConfig } from '../store/index.ts';

const root = import.meta.dirname.replace(/\/(dist|\.build\/[^/]+)\/src\/tools$/, '');

/** Read by the command line itself; the last two are settled by the checks of the tables. */
const OWN = [
  'configStorePath',
  'namesrvAddr',
  'gantryAdvertisedPort',
  'bindAddress',
  'listenPort',
  'kvConfigPath',
  'brokerRole',
  'popConsumerFSServiceInit',
];

function honoured(tables: readonly SettingTable[]): Map<string, Setting> {
  const settings = tables.flatMap((table) => table.settings).filter((setting) => setting.state === 'honoured');
  return new Map(settings.map((setting) => [setting.key, setting]));
}

test('what the broker and the store are configured with has the defaults of the tables', () => {
  const settings = honoured(BROKER_TABLES);
  const config = { ...defaultBrokerConfig(), ...defaultStoreConfig('') };
  for (const [key, value] of Object.entries(config)) {
    const setting = settings.get(key);
    // Those without a default are worked out at the start.
    if (setting !== undefined && setting.default !== null) assert.equal(value, setting.default, key);
  }
  for (const key of settings.keys()) assert.ok(key in config || OWN.includes(key), `nothing takes ${key}`);
  for (const key of Object.keys(config)) {
    assert.ok(settings.has(key), `${key} is taken, and the table does not call it honoured`);
  }
});

test('every honoured setting is used in the code of its part', () => {
  const source = readdirSync(`${root}/src`, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !/^common\/config\/|(-config|\.test|\.test\.support)\.ts$/.test(name))
    .map((name) => readFileSync(`${root}/src/${name}`, 'utf8').replace(/\/\*.*?\*\/|(?<=^\s*)\/\/.*?$/gms, ''))
    .join('\n');
  const words = new Set(source.match(/\w+/g));
  assert.ok(words.size > 1000);
  for (const tables of [BROKER_TABLES, NAMESRV_TABLES]) {
    for (const key of honoured(tables).keys()) {
      assert.ok(words.has(key) || OWN.includes(key), `nothing uses ${key}`);
    }
  }
});
