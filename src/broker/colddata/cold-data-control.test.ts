import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../common/index.ts';
import { defaultStoreConfig } from '../../store/index.ts';
import { type BrokerConfig, defaultBrokerConfig } from '../broker-config.ts';
import { ColdDataControl } from './cold-data-control.ts';

const WINDOW_MS = 5000;

function control(config: Partial<BrokerConfig> = {}): { clock: FakeClock; cold: ColdDataControl } {
  const clock = new FakeClock();
  const storeConfig = { ...defaultStoreConfig('/store'), coldDataFlowControlEnable: true };
  const broker = { ...defaultBrokerConfig(), cgColdReadThreshold: 100, globalColdReadThreshold: 1000, ...config };
  const cold = new ColdDataControl(clock, broker, storeConfig);
  cold.start();
  return { clock, cold };
}

test('a group is held up once it has read its threshold, until the window ends', () => {
  const { clock, cold } = control();
  cold.add('G', 99);
  assert.equal(cold.isHeldUp('G'), false);
  cold.add('G', 1);
  assert.equal(cold.isHeldUp('G'), true);
  assert.equal(cold.isHeldUp('other'), false);
  clock.advance(WINDOW_MS);
  assert.equal(cold.isHeldUp('G'), false);
});

test('over the global threshold every group that reads old data is held up, and nobody else', () => {
  const { cold } = control({ cgColdReadThreshold: 10_000 });
  cold.add('A', 999);
  cold.add('B', 1);
  assert.deepEqual([cold.isHeldUp('A'), cold.isHeldUp('B'), cold.isHeldUp('C')], [true, true, false]);
});

test('what an operator sets counts before the default; system groups are free', () => {
  const { cold } = control();
  cold.setThreshold('G', 500);
  cold.add('G', 400);
  cold.add('TOOLS_CONSUMER', 400);
  assert.deepEqual([cold.isHeldUp('G'), cold.isHeldUp('TOOLS_CONSUMER')], [false, false]);
  cold.removeThreshold('G');
  assert.equal(cold.isHeldUp('G'), true);
});

test('a group that reads nothing old for a minute leaves the table', () => {
  const { clock, cold } = control();
  cold.add('G', 5);
  assert.deepEqual(cold.info(), {
    runtimeTable: { G: { coldAcc: 5, createTimeMills: clock.now(), lastColdReadTimeMills: clock.now() } },
    configTable: {},
    cgColdReadThreshold: 100,
    globalColdReadThreshold: 1000,
    globalAcc: 5,
  });
  clock.advance(60_000);
  assert.deepEqual((cold.info() as { runtimeTable: object }).runtimeTable, {});
});

test('with the simple strategy a limit grows while there is room, and shrinks to the default while there is none', () => {
  const { clock, cold } = control({ coldCtrStrategyEnable: true, usePIDColdCtrStrategy: false });
  const limits = (): unknown => (cold.info() as { configTable: object }).configTable;
  cold.add('G', 100);
  clock.advance(WINDOW_MS);
  assert.deepEqual(limits(), { 'G||adaptive': 150 });
  cold.add('G', 1001);
  clock.advance(WINDOW_MS);
  assert.deepEqual(limits(), { 'G||adaptive': 120 });
  cold.add('G', 1001);
  clock.advance(WINDOW_MS);
  assert.deepEqual(limits(), { 'G||adaptive': 100 });
});

test('with the PID strategy nothing moves before ten windows are known', () => {
  const { clock, cold } = control({ coldCtrStrategyEnable: true });
  const limits = (): unknown => (cold.info() as { configTable: object }).configTable;
  for (let window = 0; window < 9; window++) {
    cold.add('G', 200);
    clock.advance(WINDOW_MS);
    assert.deepEqual(limits(), {}, `window ${window}`);
  }
  cold.add('G', 200);
  clock.advance(WINDOW_MS);
  assert.deepEqual(limits(), { 'G||adaptive': 150 });
  cold.add('G', 50_000);
  clock.advance(WINDOW_MS);
  assert.deepEqual(limits(), { 'G||adaptive': 120 });
});

test('a pull that is held runs again 3 s later, at the end of a window; a stop forgets it', () => {
  const { clock, cold } = control();
  const told: string[] = [];
  const pull = (name: string): boolean =>
    cold.hold({ resume: () => told.push(`${name} runs`), forget: () => told.push(`${name} is forgotten`) });
  assert.ok(pull('early'));
  clock.advance(4000);
  pull('late');
  clock.advance(1000);
  assert.deepEqual(told, ['early runs']);
  cold.stop();
  assert.deepEqual(told, ['early runs', 'late is forgotten']);
});
