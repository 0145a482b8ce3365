import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger, FakeClock } from '../../common/index.ts';
import { MemoryFileSystem, readWhole, writeWhole } from '../../io/index.ts';
import { defaultBrokerConfig } from '../broker-config.ts';
import { ConsumerFilterManager } from './consumer-filter-manager.ts';

const PATH = '/store/config/consumerFilter.json';

class Bench {
  readonly clock = new FakeClock(1_700_000_000_000);
  readonly fs = new MemoryFileSystem({ clock: this.clock, directories: ['/store/config'] });
  readonly logger = new CollectingLogger();

  open(config: Partial<ReturnType<typeof defaultBrokerConfig>> = {}): ConsumerFilterManager {
    const environment = { fs: this.fs, clock: this.clock, logger: this.logger, folder: '/store/config' };
    const manager = new ConsumerFilterManager(environment, { ...defaultBrokerConfig(), ...config });
    manager.load();
    return manager;
  }
}

function subscription(topic: string, subString: string, subVersion: number, expressionType = 'SQL92') {
  return { topic, subString, expressionType, subVersion, tagsSet: [], codeSet: [], classFilterMode: false };
}

/** What a Java broker 5.5.0 has written, after an orderly stop. */
const JAVA_FILE = `{
	"filterDataByTopic":{
		"GoldenExt":{
			"groupFilterData":{
				"GID_sql1":{
					"bloomFilterData":{
						"bitNum":112,
						"bitPos":[58,12,83]
					},
					"bornTime":1795993520246,
					"clientVersion":1795993522564,
					"consumerGroup":"GID_sql1",
					"dead":true,
					"deadTime":1795993537270,
					"expression":"n between 3 and 8 AND color = 'red'",
					"expressionType":"SQL92",
					"topic":"GoldenExt"
				}
			},
			"topic":"GoldenExt"
		}
	}
}`;

test("Java's file is read, and written again to the letter", () => {
  const b = new Bench();
  writeWhole(b.fs, PATH, JAVA_FILE, true);
  const manager = b.open();
  assert.equal(manager.text(), JAVA_FILE);
  assert.equal(manager.find('GoldenExt', 'GID_sql1')!.expression, "n between 3 and 8 AND color = 'red'");
  assert.equal(manager.describe('GoldenExt', 'nobody'), 'null');
});

test('a table without entries is what Java writes of one', () => {
  assert.equal(new Bench().open().text(), '{\n\t"filterDataByTopic":{}\n}');
});

test('an expression lives from its heartbeat on; a newer version alone changes nothing about that', () => {
  const b = new Bench();
  const manager = b.open();
  manager.register('G', [subscription('T', 'a > 5', 10), subscription('U', 'A || B', 10, 'TAG')]);
  const born = manager.find('T', 'G')!.bornTime;
  assert.equal(born, b.clock.now());
  assert.equal(manager.find('U', 'G'), undefined);
  b.clock.advance(1000);
  manager.register('G', [subscription('T', 'a > 5', 11)]);
  assert.deepEqual([manager.find('T', 'G')!.bornTime, manager.find('T', 'G')!.clientVersion], [born, 11]);
  manager.register('G', [subscription('T', 'a > 6', 11)]);
  assert.equal(manager.find('T', 'G')!.expression, 'a > 5', 'not newer');
  manager.register('G', [subscription('T', 'a > 6', 12)]);
  assert.deepEqual([manager.find('T', 'G')!.bornTime, manager.find('T', 'G')!.expression], [born + 1000, 'a > 6']);
  manager.register('G', [subscription('T', 'a > ', 13)]);
  assert.equal(manager.find('T', 'G'), undefined, 'one that cannot be read takes the old one away');
});

test('a group that goes, or gives up a topic, is dead, comes to life again, and is forgotten after a day', () => {
  const b = new Bench();
  const manager = b.open();
  manager.register('G', [subscription('T', 'a > 5', 10), subscription('U', 'a > 5', 10)]);
  b.clock.advance(5);
  manager.register('G', [subscription('T', 'a > 5', 10)]);
  assert.equal(manager.find('U', 'G')!.deadTime, b.clock.now());
  manager.unregister('G');
  assert.equal(manager.find('T', 'G')!.deadTime, b.clock.now());
  b.clock.advance(1000);
  manager.register('G', [subscription('T', 'a > 5', 10)]);
  assert.equal(manager.find('T', 'G')!.deadTime, 0);
  b.clock.advance(86_400_000 - 1001);
  manager.clean();
  assert.ok(manager.find('U', 'G') !== undefined);
  b.clock.advance(1);
  manager.clean();
  assert.equal(manager.find('U', 'G'), undefined);
  assert.ok(manager.find('T', 'G') !== undefined);
});

test('the table outlives a restart; who was alive counts as silent for 30 s', () => {
  const b = new Bench();
  const manager = b.open();
  manager.register('G', [subscription('T', 'a > 5', 10)]);
  assert.ok(manager.changed);
  manager.persist();
  b.clock.advance(100_000);
  const again = b.open().find('T', 'G')!;
  assert.equal(again.deadTime, b.clock.now() - 30_000);
  assert.deepEqual(again.bloomFilterData, manager.find('T', 'G')!.bloomFilterData);
  assert.match(Buffer.from(readWhole(b.fs, PATH)!).toString(), /"dead":false/);
});

test('with another size of the bits the file is not used', () => {
  const b = new Bench();
  writeWhole(b.fs, PATH, JAVA_FILE, true);
  assert.equal(b.open({ expectConsumerNumUseFilter: 64 }).find('GoldenExt', 'GID_sql1'), undefined);
});

test('an expression of a file that cannot be read any more lets everything pass', () => {
  const b = new Bench();
  writeWhole(b.fs, PATH, JAVA_FILE.replace('n between 3 and 8', 'n between 3 or 8'), true);
  const manager = b.open();
  assert.equal(manager.find('GoldenExt', 'GID_sql1')!.filter, undefined);
});

test('bits are those of all groups whose expression matches, dead ones too, and none without a group or the switch', () => {
  const b = new Bench();
  const manager = b.open({ enableCalcFilterBitMap: true });
  const bits = (topic: string, text: string): string | undefined => {
    const bytes = Buffer.from(text);
    const found = manager.bitsOf(topic, bytes, 0, bytes.length);
    return found === undefined ? undefined : Buffer.from(found).toString('hex');
  };
  assert.equal(bits('T1', 'a\u00016\u0002'), undefined);
  manager.register('G1', [subscription('T1', 'a > 5', 1)]);
  manager.unregister('G1');
  assert.equal(bits('T1', 'a\u00016\u0002'), '0010000010000000000000001000');
  assert.equal(bits('T1', 'a\u00015\u0002'), '0'.repeat(28));
  assert.equal(bits('T2', 'a\u00016\u0002'), undefined);
  assert.equal(b.open().bitsOf('T1', Buffer.from(''), 0, 0), undefined);
});
