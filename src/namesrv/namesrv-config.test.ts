import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readNamesrvSettings } from '../common/config/index.ts';
import { CollectingLogger, silentLogger } from '../common/index.ts';
import { MemoryFileSystem, readWhole, writeWhole } from '../io/index.ts';
import { defaultNamesrvConfig, NamesrvSettings } from './namesrv-config.ts';

const PATH = '/conf/namesrv.conf';
const FILE = `# our name server
listenPort = 9877

# ordered topics
orderMessageEnable=false
deleteTopicWithBrokerRegistration : true
scanNotActiveBrokerInterval=1000
`;

function settings(): { settings: NamesrvSettings; fs: MemoryFileSystem; text: () => string } {
  const fs = new MemoryFileSystem({ directories: ['/conf'] });
  writeWhole(fs, PATH, FILE);
  const parsed = readNamesrvSettings({ file: { path: PATH, text: FILE } });
  return {
    settings: new NamesrvSettings(parsed, fs, silentLogger),
    fs,
    text: () => Buffer.from(readWhole(fs, PATH)!).toString('utf8'),
  };
}

test('the values of the file are in force, the others are defaults', () => {
  const { settings: s } = settings();
  assert.deepEqual(s.config, {
    ...defaultNamesrvConfig(),
    deleteTopicWithBrokerRegistration: true,
    scanNotActiveBrokerInterval: 1000,
  });
});

test('the defaults are those of the table of settings', () => {
  const table = readNamesrvSettings({});
  for (const [key, value] of Object.entries(defaultNamesrvConfig())) assert.equal(table.value(key), value, key);
});

test('the listing has every setting as key=value, in alphabetical order, with what the start found out', () => {
  const { settings: s } = settings();
  s.show({ listenPort: '9999', kvConfigPath: '/conf/kv.json' });
  const lines = s.list().trimEnd().split('\n');
  assert.deepEqual(
    lines.map((line) => line.slice(0, line.indexOf('='))),
    lines.map((line) => line.slice(0, line.indexOf('='))).sort(),
  );
  for (const line of ['listenPort=9999', 'kvConfigPath=/conf/kv.json', 'scanNotActiveBrokerInterval=1000']) {
    assert.ok(lines.includes(line), line);
  }
  assert.ok(lines.includes('serverChannelMaxIdleTimeSeconds=120'));
  assert.equal(
    lines.some((line) => line.startsWith('jRaft')),
    false,
  );
});

test('B68 changing one setting rewrites the whole config file: only its line changes', () => {
  const { settings: s, text } = settings();
  assert.equal(s.update('orderMessageEnable=true\n'), undefined);
  assert.equal(s.config.orderMessageEnable, true);
  assert.equal(text(), FILE.replace('orderMessageEnable=false', 'orderMessageEnable=true'));
  assert.equal(s.update('enableTopicList=false'), undefined);
  assert.equal(text(), `${FILE.replace('orderMessageEnable=false', 'orderMessageEnable=true')}enableTopicList=false\n`);
});

for (const [name, request, code, remark] of [
  ['a key in the black list', 'kvConfigPath=/elsewhere/x', 16, 'Can not update config in black list.'],
  ['the black list itself', 'configBlackList=', 16, 'Can not update config in black list.'],
  ['an unknown key', 'orderMesageEnable=true', 1, /orderMesageEnable.*orderMessageEnable/],
  ['a value of the wrong type', 'enableTopicList=maybe', 1, /enableTopicList=maybe/],
  ['a setting that only a start reads', 'listenPort=1', 16, /listenPort/],
  ['a malformed escape', 'a=\\uZZZZ', 1, 'string2Properties error'],
] as const) {
  test(`an update with ${name} is refused and changes nothing`, () => {
    const { settings: s, text } = settings();
    const before = { ...s.config };
    const refused = s.update(`enableAllTopicList=false\n${request}`);
    assert.equal(refused?.code, code);
    if (typeof remark === 'string') assert.equal(refused?.remark, remark);
    else assert.match(refused!.remark, remark);
    assert.deepEqual(s.config, before);
    assert.equal(text(), FILE);
  });
}

test('an update that cannot be saved changes nothing', () => {
  const { settings: s, fs, text } = settings();
  fs.fail({ operation: 'sync', path: `${PATH}.tmp` });
  assert.equal(s.update('enableTopicList=false')?.code, 1);
  assert.equal(s.config.enableTopicList, true);
  assert.match(s.list(), /^enableTopicList=true$/m);
  assert.equal(text(), FILE);
});

test('without a file a change lasts until the next start, and says so', () => {
  const logger = new CollectingLogger();
  const s = new NamesrvSettings(readNamesrvSettings({}), new MemoryFileSystem(), logger);
  assert.equal(s.update('enableTopicList=false'), undefined);
  assert.equal(s.config.enableTopicList, false);
  assert.equal(logger.texts('warn').length, 1);
});
