import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorCode, GantryError } from '../errors.ts';
import { parseAddressList, readBrokerSettings, readNamesrvSettings } from './roles.ts';
import type { Override, Settings } from './settings.ts';

function read(text: string, overrides: Override[] = [], strict = false): Settings {
  return readBrokerSettings({ file: { path: 'broker.conf', text }, overrides, strict });
}

function refusal(text: string, code: keyof typeof ErrorCode): string {
  try {
    read(text);
  } catch (error) {
    assert.ok(error instanceof GantryError, String(error));
    assert.equal(error.code, code);
    assert.ok(!error.message.includes('\n'));
    return error.message;
  }
  assert.fail(`accepted: ${text}`);
}

test('an empty file gives the defaults, and where they come from', () => {
  const settings = read('');
  assert.equal(settings.value('listenPort'), 10_911);
  assert.equal(settings.value('flushDiskType'), 'ASYNC_FLUSH');
  assert.equal(settings.text('storePathRootDir'), undefined);
  assert.equal(settings.origin('listenPort'), 'default');
  assert.deepEqual(settings.warnings, []);
});

test('values are typed, and an override stands over the file', () => {
  const settings = read('listenPort=1234\ntraceOn = FALSE\ngantryDiskFullRatio=.5', [
    { key: 'listenPort', value: '4321', from: '--port' },
  ]);
  assert.equal(settings.value('listenPort'), 4321);
  assert.equal(settings.origin('listenPort'), '--port');
  assert.equal(settings.value('traceOn'), false);
  assert.equal(settings.origin('traceOn'), 'broker.conf line 2');
  assert.equal(settings.value('gantryDiskFullRatio'), 0.5);
});

test('fill replaces what was given, and nothing else', () => {
  const settings = read('flushDiskType=SYNC_FLUSH\nmaxMessageSize=1000');
  const defaults = { flushDiskType: 'ASYNC_FLUSH', maxMessageSize: 4, syncFlushTimeout: 2500, ours: 'kept' };
  assert.deepEqual(settings.fill(defaults), { ...defaults, flushDiskType: 'SYNC_FLUSH', maxMessageSize: 1000 });
});

test('B70 misspelt settings are swallowed: an unknown key is named with the nearest known one', () => {
  const settings = read('brokerIp1=10.0.0.5\n\nsomethingElse=1');
  assert.equal(settings.text('brokerIP1'), undefined);
  assert.deepEqual(settings.warnings, [
    'broker.conf: unknown settings, ignored: brokerIp1 (line 1; did you mean brokerIP1?), somethingElse (line 3)',
  ]);
  assert.throws(
    () => read('brokerIp1=10.0.0.5', [], true),
    /unknown settings: brokerIp1 \(line 1; did you mean brokerIP1\?\)/,
  );
});

test('B70 a trailing blank does not count', () => {
  assert.equal(read('fileReservedTime = 168 ').value('fileReservedTime'), 168);
});

test('B70 a bad enumeration value is refused with the list of those allowed', () => {
  assert.equal(
    refusal('# flush\nflushDiskType=SYNCFLUSH', 'CONFIG_VALUE'),
    'flushDiskType=SYNCFLUSH (broker.conf line 2) is not allowed: use ASYNC_FLUSH or SYNC_FLUSH',
  );
});

test('B70 a repeated key is named and the last one counts; an empty one is named and the default counts', () => {
  const settings = read('maxMessageSize=1\nmaxMessageSize=2\nmappedFileSizeCommitLog=');
  assert.equal(settings.value('maxMessageSize'), 2);
  assert.equal(settings.value('mappedFileSizeCommitLog'), 1_073_741_824);
  assert.deepEqual(settings.warnings, [
    'broker.conf: given more than once, the last one counts: maxMessageSize (lines 1 and 2)',
    'broker.conf: without a value, the default counts: mappedFileSizeCommitLog (line 3)',
  ]);
});

test('a value of the wrong type or out of range says what is allowed', () => {
  const cases: Array<[text: string, end: string]> = [
    ['listenPort=ten', 'use a whole number from 0 to 65535 (port)'],
    ['listenPort=70000', 'use a whole number from 0 to 65535 (port)'],
    ['maxMessageSize=4194304.5', 'use a whole number from 1 to 2147483647 (bytes)'],
    ['mappedFileSizeCommitLog=2147483648', 'use a whole number from 1024 to 2147483647 (bytes)'],
    ['traceOn=yes', 'use true or false'],
    ['gantryDiskFullRatio=2', 'use a number from 0.01 to 1 (fraction)'],
    ['sendMessageThreadPoolNums=1O', 'use a whole number from -2147483648 to 2147483647 (threads)'],
  ];
  for (const [text, end] of cases) {
    const message = refusal(text, 'CONFIG_VALUE');
    assert.ok(message.startsWith(`${text} (broker.conf line 1) is not allowed: `) && message.endsWith(end), message);
  }
  assert.throws(
    () => read('', [{ key: 'listenPort', value: 'x', from: '--port' }]),
    /^GantryError: --port x is not allowed: use a whole number/,
  );
});

test('a setting that decides who may write, who may connect, what is durable or where data lies refuses the start', () => {
  const refused = [
    'brokerRole=SLAVE',
    'enableDLegerCommitLog=true',
    'enableControllerMode=true',
    'storeType=defaultRocksDB',
    'aclEnable=true',
    'authenticationEnabled=true',
    'authorizationEnabled=true',
    'migrateAuthFromV1Enabled=true',
    'tls.server.mode=enforcing',
    'tls.server.certPath=/etc/server.pem',
    'tls.enable=true',
    'useTLS=true',
    'duplicationEnable=true',
    'timerRocksDBEnable=true',
    'transRocksDBEnable=true',
    'indexRocksDBEnable=true',
    'rocksdbCQDoubleWriteEnable=true',
    'popConsumerKVServiceEnable=true',
    'popConsumerKVServiceInit=true',
    'configManagerVersion=v2',
    'enableSlaveActingMaster=true',
    'messageStorePlugIn=org.apache.rocketmq.tieredstore.TieredMessageStore',
    'readOnlyCommitLogStorePaths=/a',
    'storePathCommitLog=/a,/b',
    'allAckInSyncStateSet=true',
  ];
  for (const line of refused) {
    const message = refusal(`\n${line}`, 'CONFIG_UNSUPPORTED');
    assert.ok(message.startsWith(`${line} (broker.conf line 2) is not supported: `), message);
  }
  assert.match(refusal('popConsumerFSServiceInit=false', 'CONFIG_UNSUPPORTED'), /nothing else would bring back/);
  read('popConsumerFSServiceInit=true');
  const harmless = refused.map((line) => line.replace('=true', '=false').replace('=SLAVE', '=ASYNC_MASTER'));
  for (const line of harmless.filter((l) => l.endsWith('=false') || l.endsWith('_MASTER'))) read(line);
  read('storeType=DEFAULT\nmessageStorePlugIn=\nreadOnlyCommitLogStorePaths=\nconfigManagerVersion=v1');
});

test('SYNC_MASTER is allowed with a warning as long as no replica has to confirm', () => {
  assert.match(read('brokerRole=SYNC_MASTER').warnings.join(), /brokerRole=SYNC_MASTER .* waits for no replica/);
  assert.match(refusal('brokerRole=SYNC_MASTER\ninSyncReplicas=2', 'CONFIG_UNSUPPORTED'), /^inSyncReplicas=2 .*line 2/);
  assert.match(read('inSyncReplicas=2').warnings.join(), /not honoured yet: inSyncReplicas=2/);
});

test('known settings without effect are named once, and only where they differ from the default', () => {
  const settings = read(
    'haHousekeepingInterval=20000\nhaSendHeartbeatInterval=6000\nsearchBcqByCacheEnable=true\nsendMessageThreadPoolNums=16',
  );
  assert.deepEqual(settings.warnings, [
    'broker.conf: settings that are not honoured yet: haSendHeartbeatInterval=6000; settings that have nothing to decide here: sendMessageThreadPoolNums=16',
  ]);
});

test('checks that need more than one setting', () => {
  assert.match(refusal('maxIndexNum=200000000', 'CONFIG_VALUE'), /makes an index file of 4020000040 bytes/);
  assert.match(refusal('messageDelayLevel=1s 5x', 'CONFIG_VALUE'), /^messageDelayLevel=1s 5x .*use times such as/);
  for (const hours of ['24', '4am', '04,16', '-1']) {
    assert.match(refusal(`deleteWhen=${hours}`, 'CONFIG_VALUE'), /^deleteWhen=.*use hours from 00 to 23/);
  }
  for (const hours of ['04', '4', '00;12;23', '4;']) assert.deepEqual(read(`deleteWhen=${hours}`).warnings, []);
  assert.match(refusal('namesrvAddr=localhost', 'CONFIG_VALUE'), /localhost is no address: use host:port/);
  assert.match(refusal('brokerName=', 'CONFIG_VALUE'), /^brokerName= .*must not be empty/);
  assert.match(read('brokerId=3').warnings.join(), /brokerId=3 .* is taken as 0/);
  assert.match(read(`storePathRootDir=\${user.home}/store`).warnings.join(), /the name is used as it is/);
});

test('address lists', () => {
  assert.deepEqual(parseAddressList(' a:1;[::1]:9876 ;', 'x'), ['a:1', '[::1]:9876']);
  for (const bad of ['a', ':1', 'a:0', 'a:70000', '::1:9876', 'a:b']) {
    assert.throws(() => parseAddressList(bad, 'x'), /is no address/, bad);
  }
});

test('a change while running is checked before anything happens', () => {
  const settings = read('defaultTopicQueueNums=4');
  const code = (key: string, value: string): [string, number | undefined] => {
    try {
      settings.change(key, value, 'a command');
    } catch (error) {
      assert.ok(error instanceof GantryError);
      return [error.message, error.responseCode];
    }
    assert.fail('accepted');
  };
  assert.equal(settings.change('defaultTopicQueueNums', '16', 'a command'), 16);
  assert.equal(settings.value('defaultTopicQueueNums'), 16);
  assert.deepEqual(code('defaultTopicQueueNum', '8'), [
    'defaultTopicQueueNum is not a setting; did you mean defaultTopicQueueNums?',
    1,
  ]);
  assert.deepEqual(code('defaultTopicQueueNums', 'many')[1], 1);
  assert.deepEqual(code('storePathRootDir', '/elsewhere'), [
    'storePathRootDir cannot be changed while the broker runs: it is read at the start only',
    16,
  ]);
  assert.equal(settings.value('defaultTopicQueueNums'), 16);
});

test('a name server file has its own defaults and guards', () => {
  const settings = readNamesrvSettings({ file: { path: 'namesrv.conf', text: 'controllerType=jRaft' } });
  assert.equal(settings.value('listenPort'), 9876);
  assert.throws(
    () => readNamesrvSettings({ file: { path: 'namesrv.conf', text: 'enableControllerInNamesrv=true' } }),
    /is not supported: nobody would elect masters/,
  );
});

test('all settings are listed once, the important ones apart', () => {
  const settings = read('brokerName=b');
  const all = settings.entries();
  assert.equal(new Set(all.map(([key]) => key)).size, all.length);
  assert.ok(all.some(([key, value]) => key === 'brokerName' && value === 'b'));
  assert.ok(!all.some(([key]) => key === 'haMasterAddress'));
  const important = settings.entries('important');
  assert.ok(important.length > 20 && important.length < 80);
  assert.ok(important.some(([key, value]) => key === 'listenPort' && value === '10911'));
});
