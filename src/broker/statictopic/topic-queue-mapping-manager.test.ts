import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger, FakeClock, GantryError } from '../../common/index.ts';
import { MemoryFileSystem, readWhole } from '../../io/index.ts';
import { type LogicQueueMappingItem, leaderQueues, type TopicQueueMappingDetail } from './topic-queue-mapping.ts';
import { TopicQueueMappingManager } from './topic-queue-mapping-manager.ts';

const PATH = '/config/topicQueueMapping.json';

function item(gen: number, bname: string, queueId: number, fields: Partial<LogicQueueMappingItem> = {}) {
  return {
    gen,
    bname,
    queueId,
    logicOffset: 0,
    startOffset: 0,
    endOffset: -1,
    timeOfStart: -1,
    timeOfEnd: -1,
    ...fields,
  };
}

function mapping(epoch: number, hosted: Record<number, LogicQueueMappingItem[]>): TopicQueueMappingDetail {
  return {
    topic: 'T1',
    scope: '__global__',
    totalQueues: 4,
    bname: 'broker-a',
    epoch,
    dirty: false,
    currIdMap: new Map([[0, 0]]),
    hostedQueues: new Map(Object.entries(hosted).map(([id, items]) => [Number(id), items])),
  };
}

function open(fs = new MemoryFileSystem({ directories: ['/config'] })) {
  const logger = new CollectingLogger();
  let changes = 0;
  const environment = { fs, clock: new FakeClock(), logger, folder: '/config' };
  const mappings = new TopicQueueMappingManager(environment, 'broker-a', () => changes++);
  return { fs, logger, mappings, changes: () => changes };
}

/** What Java writes (store-format, topicQueueMapping.json). */
const JAVA = `{
	"dataVersion":{
		"counter":3,
		"stateVersion":0,
		"timestamp":1700000000000
	},
	"topicQueueMappingInfoMap":{
		"T1":{
			"bname":"broker-a",
			"currIdMap":{
				0:0
			},
			"dirty":false,
			"epoch":5,
			"hostedQueues":{
				0:[
					{
						"bname":"broker-a",
						"endOffset":-1,
						"gen":0,
						"logicOffset":0,
						"queueId":0,
						"startOffset":0,
						"timeOfEnd":-1,
						"timeOfStart":-1
					}
				]
			},
			"scope":"__global__",
			"topic":"T1",
			"totalQueues":4
		}
	}
}`;

function write(fs: MemoryFileSystem, path: string, text: string): void {
  const file = fs.open(path, 'create');
  const bytes = Buffer.from(text);
  file.truncateSync(0);
  file.writeSync(bytes, 0, bytes.length, 0);
  file.close();
}

test('the file of a Java broker is read, and written again to the letter', () => {
  const { fs, mappings, changes } = open();
  write(fs, PATH, JAVA);
  assert.equal(mappings.load(), 'file');
  assert.equal(mappings.size, 1);
  assert.equal(changes(), 1);
  assert.deepEqual(mappings.find('T1'), mapping(5, { 0: [item(0, 'broker-a', 0)] }));
  assert.equal(mappings.text(), JAVA);
});

test('a mapping is durable when update returns, and what it was looked up for looks again', () => {
  const { fs, mappings, changes } = open();
  mappings.update(mappings.checked(mapping(5, { 0: [item(0, 'broker-a', 0)] }), false));
  assert.equal(changes(), 1);
  const again = open(fs).mappings;
  again.load();
  assert.deepEqual(again.find('T1'), mappings.find('T1'));
  assert.deepEqual([...leaderQueues(again.find('T1')!)], [[0, 0]]);
  assert.equal(mappings.delete('T1'), true);
  assert.equal(mappings.delete('T1'), false);
  assert.ok(!Buffer.from(readWhole(fs, PATH)!).toString().includes('T1'));
});

test('a damaged file gives way to its .bak; both damaged, or a mapping that cannot be, refuse the start', () => {
  const half = JAVA.slice(0, JAVA.length / 2);
  const first = open();
  write(first.fs, PATH, half);
  write(first.fs, `${PATH}.bak`, JAVA);
  assert.equal(first.mappings.load(), 'backup');
  assert.equal(first.mappings.size, 1);
  const odd = JAVA.replace('"gen":0', '"gen":-1');
  const wrongKind = JAVA.replace('"hostedQueues":{', '"hostedQueues":7,"rest":{');
  for (const text of [half, odd, wrongKind, JAVA.replace('"queueId":0', '"queueId":"x"'), '[]', '']) {
    const { fs, mappings } = open();
    write(fs, PATH, text);
    write(fs, `${PATH}.bak`, text);
    assert.throws(() => mappings.load(), { code: 'CONFIG_FILE' }, text);
    assert.equal(mappings.size, 0);
  }
});

test('what may not take over changes nothing and is told in Java words', () => {
  const { mappings } = open();
  const a0 = item(0, 'broker-a', 0);
  mappings.update(mapping(5, { 0: [a0], 1: [item(0, 'broker-a', 1)] }));
  const before = mappings.text();
  const refused = (detail: TopicQueueMappingDetail, text: RegExp): void =>
    assert.throws(
      () => mappings.checked(detail, false),
      (error) => error instanceof GantryError && error.responseCode === 1 && text.test(error.message),
    );
  const both = { 0: [a0], 1: [item(0, 'broker-a', 1)] };
  refused(mapping(4, both), /^Can't accept data with small epoch 4 < 5$/);
  refused({ ...mapping(6, both), scope: 'other' }, /^Can't accept data with unmatched scope other != __global__$/);
  refused({ ...mapping(6, both), bname: 'broker-b' }, /^The broker name is not equal broker-a != broker-b $/);
  refused(mapping(5, { 0: [a0] }), /^Cannot accept equal epoch with null data$/);
  refused(mapping(6, { ...both, 0: [] }), /^The new item list is null or empty$/);
  refused(mapping(6, { ...both, 0: [item(0, 'broker-a', 2)] }), /gen 0 is another one than before/);
  const next = item(1, 'broker-b', 0, { logicOffset: -1 });
  refused(mapping(5, { ...both, 0: [a0, next] }), /^The new leader is different but epoch equal$/);
  refused(mapping(6, { ...both, 0: [item(0, 'broker-a', -1)] }), /^The field is illegal, should not be negative$/);
  refused(
    mapping(6, { ...both, 0: [next, item(1, 'broker-a', 0)] }),
    /^The non-latest item has negative logic offset$/,
  );
  refused(mapping(6, { ...both, 0: [a0, { ...next, gen: 0 }] }), /^The gen does not increase monotonically$/);
  refused(mapping(6, { ...both, 0: [{ ...a0, startOffset: 3, endOffset: 2 }] }), /^The endOffset is smaller than/);
  refused(mapping(6, { ...both, 0: [a0, { ...next, logicOffset: 0 }] }), /^The base logic offset does not increase/);
  const ended = { ...a0, endOffset: 30 };
  refused(mapping(6, { ...both, 0: [ended, { ...next, logicOffset: 30 }] }), /^The max logic offset does not increase/);
  assert.equal(mappings.text(), before);

  // A newer one may leave queues out, which stay, and a forced one may do as it likes with those that it names.
  const newer = mappings.checked(mapping(6, { 0: [ended, { ...next, logicOffset: 10_000 }] }), false);
  assert.deepEqual([...newer.hostedQueues.keys()], [0, 1]);
  mappings.update(newer);
  assert.deepEqual([...leaderQueues(mappings.find('T1')!)], [[1, 1]]);
  const forced = mappings.checked(mapping(1, { 0: [item(0, 'broker-a', 2)] }), true);
  assert.deepEqual([...forced.hostedQueues.keys()], [0, 1]);
  assert.equal(forced.epoch, 1);
});
