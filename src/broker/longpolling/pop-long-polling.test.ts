// Pops that wait: who is woken by what, when their time is up, and how many may wait.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { type Clock, FakeClock, queueOffset } from '../../common/index.ts';
import { buildSubscription, MATCH_ALL, type TagFilter, tagFilterOf } from '../../filter/index.ts';
import { Polling, type WaitingPop } from '../pop/pop-parts.ts';
import { Arrivals } from './arrivals.ts';
import { PopLongPolling, type PopPollingSettings } from './pop-long-polling.ts';

type Listener = Parameters<ConstructorParameters<typeof Arrivals>[0]['onArrival']>[0];

/** The door of the store, as far as who waits for messages uses it. */
class FakeStore {
  readonly watched = new Set<string>();
  #listener: Listener = () => {};
  readonly #ends = new Map<string, number>();

  onArrival(listener: Listener): void {
    this.#listener = listener;
  }

  watch(topic: string, queueId: number, on: boolean): void {
    if (on) this.watched.add(`${topic}/${queueId}`);
    else this.watched.delete(`${topic}/${queueId}`);
  }

  /** A message comes into a queue; whether anybody is told. */
  put(topic: string, queueId: number, tag = ''): boolean {
    const key = `${topic}/${queueId}`;
    const end = (this.#ends.get(key) ?? 0) + 1;
    this.#ends.set(key, end);
    if (!this.watched.has(key)) return false;
    this.#listener(topic, queueId, queueOffset(end), codeOf(tag), new Uint8Array(0), 0, 0);
    return true;
  }
}

function codeOf(tag: string): number {
  return [...tag].reduce((hash, letter) => (Math.imul(hash, 31) + letter.charCodeAt(0)) | 0, 0);
}

function tagged(expression: string): TagFilter {
  return tagFilterOf(buildSubscription('T', expression, 'TAG'));
}

class Pop implements WaitingPop {
  readonly topic = 'T';
  readonly group = 'G';
  readonly queueId: number;
  readonly filter: TagFilter;
  readonly deadline: number;
  readonly pollTime: number;
  isWanted = true;
  resumed = 0;
  forgotten = 0;
  onResume: () => void = () => {};

  constructor(queueId: number, bornTime: number, pollTime = 15_000, filter: TagFilter = MATCH_ALL) {
    this.queueId = queueId;
    this.deadline = bornTime + pollTime;
    this.pollTime = pollTime;
    this.filter = filter;
  }

  resume(): void {
    this.resumed++;
    this.onResume();
  }

  forget(): void {
    this.forgotten++;
  }
}

const DEFAULTS: PopPollingSettings = {
  popPollingSize: 1024,
  popPollingMapSize: 100_000,
  maxPopPollingSize: 100_000,
  popLongPollingForceNotifyInterval: 800,
};

function world(settings: Partial<PopPollingSettings> = {}, more: { notifications?: boolean; clock?: Clock } = {}) {
  const clock = new FakeClock();
  const store = new FakeStore();
  const arrivals = new Arrivals(store);
  const queues = new Map([
    ['T', 4],
    ['%RETRY%G_T', 1],
    ['%RETRY%G+T', 1],
  ]);
  const polling = new PopLongPolling({
    clock,
    arrivals,
    config: { ...DEFAULTS, ...settings },
    queuesOf: (topic) => queues.get(topic) ?? 0,
    ...more,
  });
  const poll = (pop: Pop): Polling => polling.polling(pop, pop.pollTime);
  const hold = (queueId = -1, filter?: TagFilter, pollTime?: number): Pop => {
    const pop = new Pop(queueId, clock.now(), pollTime, filter);
    assert.equal(poll(pop), Polling.HELD);
    return pop;
  };
  return { clock, store, arrivals, queues, polling, poll, hold };
}

test('a message wakes one pop of any queue and one of its own queue, once a turn; what it leaves behind is for the next', async () => {
  const { store, polling, hold } = world();
  const any = [hold(), hold()];
  const own = [hold(2), hold(2)];
  const other = hold(1);
  for (let i = 0; i < 10; i++) assert.ok(store.put('T', 2));
  assert.equal(any[0]!.resumed, 0);
  await setImmediate();
  const counts = (): number[] => [...any, ...own, other].map((pop) => pop.resumed);
  assert.deepEqual(counts(), [1, 0, 1, 0, 0]);
  assert.equal(polling.size, 3);
  assert.equal(polling.notify('T', 'G', -1), true);
  await setImmediate();
  assert.deepEqual(counts(), [1, 1, 1, 0, 0]);
  assert.equal(polling.notify('T', 'G', -1), false);
  assert.deepEqual(
    [polling.sizeOf('T', 'G', 2), polling.sizeOf('T', 'G', -1), polling.sizeOf('T', 'H', -1)],
    [1, 0, 0],
  );
});

test('a pop is woken by messages that match its filter, and by every so many that do not', async () => {
  const { store, hold } = world({ popLongPollingForceNotifyInterval: 100 });
  const [rare, all] = [hold(-1, tagged('rare')), hold(-1, tagged('common || rare'))];
  for (let i = 0; i < 3; i++) store.put('T', 0, 'other');
  await setImmediate();
  // The first message of a queue has offset 0, at which everybody looks.
  assert.deepEqual([rare.resumed, all.resumed], [1, 0]);
  store.put('T', 0, 'common');
  await setImmediate();
  assert.deepEqual([rare.resumed, all.resumed], [1, 1]);
  const waiting = hold(-1, tagged('rare'));
  for (let offset = 4; offset < 100; offset++) store.put('T', 0, 'other');
  await setImmediate();
  assert.equal(waiting.resumed, 0);
  store.put('T', 0, 'other');
  await setImmediate();
  assert.equal(waiting.resumed, 1);
});

test('a message that is not for the first that waits is for the next', async () => {
  const { store, hold } = world({ popLongPollingForceNotifyInterval: 0 });
  const [first, second] = [hold(-1, tagged('a')), hold(-1, tagged('b'))];
  store.put('T', 0, 'b');
  await setImmediate();
  assert.deepEqual([first.resumed, second.resumed], [0, 1]);
});

for (const [name, retryTopic] of [
  ['V1', '%RETRY%G_T'],
  ['V2', '%RETRY%G+T'],
]) {
  test(`apache/rocketmq#9632, #6681: a message that comes back (${name}) wakes a pop, also one of a single queue`, async () => {
    const { store, hold } = world();
    const one = hold(3, tagged('a'));
    assert.ok(store.put(retryTopic!, 0, 'other'));
    await setImmediate();
    assert.equal(one.resumed, 1);
    const [own, any] = [hold(3), hold()];
    store.put(retryTopic!, 0);
    await setImmediate();
    assert.deepEqual([own.resumed, any.resumed], [0, 1]);
  });
}

test('a pop whose time is up looks once more, a little early, and may not wait again', () => {
  const { clock, polling, poll, hold } = world();
  const pop = hold(-1, MATCH_ALL, 1000);
  let again: Polling | undefined;
  pop.onResume = () => {
    again = poll(pop);
  };
  const late = hold(0, MATCH_ALL, 20_000);
  clock.advance(950);
  assert.equal(pop.resumed, 0);
  clock.advance(21);
  assert.deepEqual([pop.resumed, again, polling.size], [1, Polling.TIMEOUT, 1]);
  clock.advance(18_900);
  assert.equal(late.resumed, 0);
  clock.advance(100);
  assert.deepEqual([late.resumed, polling.size], [1, 0]);
});

test('who waits is answered within its time, whatever its clock says', () => {
  const { clock, poll } = world();
  const ahead = new Pop(-1, clock.now() + 3_600_000, 2000);
  assert.equal(poll(ahead), Polling.HELD);
  clock.advance(2000);
  assert.equal(ahead.resumed, 1);
  assert.equal(poll(new Pop(-1, clock.now() - 2000, 2000)), Polling.TIMEOUT);
  assert.equal(poll(new Pop(-1, clock.now(), 0)), Polling.NOT_POLLING);
});

test('so many may wait for a queue, for so many queues, and so many altogether', () => {
  const { clock, poll, hold } = world({ popPollingSize: 1, popPollingMapSize: 2, maxPopPollingSize: 4 });
  const tryHold = (queueId: number): Polling => poll(new Pop(queueId, clock.now()));
  hold(0);
  hold(0);
  // RocketMQ: one more than it says.
  assert.equal(tryHold(0), Polling.FULL);
  hold(1);
  assert.equal(tryHold(2), Polling.FULL);
  hold(1);
  assert.equal(tryHold(-1), Polling.FULL);
});

test('of a pop whose client has gone nothing is kept, and what woke it wakes the next', async () => {
  const { clock, store, polling, hold } = world();
  const [gone, next] = [hold(), hold()];
  gone.isWanted = false;
  store.put('T', 0);
  await setImmediate();
  await setImmediate();
  assert.deepEqual([gone.resumed, gone.forgotten, next.resumed], [0, 1, 1]);
  const later = hold(-1, MATCH_ALL, Number.MAX_SAFE_INTEGER);
  later.isWanted = false;
  clock.advance(1000);
  assert.deepEqual([later.forgotten, polling.size], [1, 0]);
});

test('queues are watched while somebody waits for them, be it a pull or a pop', async () => {
  const { clock, store, arrivals, queues, hold } = world();
  const pulled = new Set(['T/1']);
  arrivals.add({ arrived: () => {}, waitsFor: (topic, queueId) => pulled.has(`${topic}/${queueId}`) });
  assert.deepEqual([...store.watched], []);
  hold();
  const all = ['T/0', 'T/1', 'T/2', 'T/3', '%RETRY%G_T/0', '%RETRY%G+T/0'];
  assert.deepEqual([...store.watched].sort(), [...all].sort());
  queues.set('T', 5);
  hold();
  assert.ok(store.watched.has('T/4'));
  store.put('T', 4);
  store.put('%RETRY%G_T', 0);
  await setImmediate();
  clock.advance(14_000);
  assert.ok(store.watched.has('T/0'), 'one still waits');
  store.put('T', 4);
  await setImmediate();
  clock.advance(1000);
  assert.deepEqual([...store.watched], ['T/1'], 'a pull waits for this one');
});

test('a retry topic that comes into being while a pop waits is noticed within a second', async () => {
  const { clock, store, queues, hold } = world();
  queues.delete('%RETRY%G_T');
  const pop = hold(2);
  clock.advance(2000);
  assert.ok(!store.watched.has('%RETRY%G_T/0'));
  queues.set('%RETRY%G_T', 1);
  assert.equal(store.put('%RETRY%G_T', 0), false);
  clock.advance(1000);
  await setImmediate();
  assert.equal(pop.resumed, 1);
  assert.ok(store.watched.has('%RETRY%G_T/0'));
});

test('while nobody waits, nothing runs', async () => {
  const timers: number[] = [];
  const clock = new FakeClock();
  const counting: Clock = {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    every: () => assert.fail('nothing runs for ever'),
    soon: (fn) => clock.soon(fn),
    after: (ms, fn) => {
      timers.push(ms);
      return clock.after(ms, fn);
    },
  };
  const { store, poll } = world({}, { clock: counting });
  clock.advance(60_000);
  assert.equal(timers.length, 0);
  assert.equal(poll(new Pop(-1, clock.now())), Polling.HELD);
  store.put('T', 0);
  await setImmediate();
  clock.advance(2000);
  const after = timers.length;
  clock.advance(60_000);
  assert.equal(timers.length, after);
});

test('a stop lets go of all that wait and of all that come', async () => {
  const { store, polling, poll, hold, clock } = world();
  const pops = [hold(), hold(1)];
  store.put('T', 0);
  polling.stop();
  await setImmediate();
  assert.deepEqual(
    pops.map(({ resumed, forgotten }) => [resumed, forgotten]),
    [
      [0, 1],
      [0, 1],
    ],
  );
  assert.equal(polling.size, 0);
  const late = new Pop(-1, clock.now());
  assert.deepEqual([poll(late), late.forgotten], [Polling.HELD, 1]);
});

test('of notifications each message wakes one, the one that waits longest still', async () => {
  const { store, polling, hold } = world({}, { notifications: true });
  const held = [hold(), hold(), hold()];
  store.put('T', 0);
  store.put('T', 1);
  await setImmediate();
  assert.deepEqual(
    held.map((pop) => pop.resumed),
    [0, 1, 1],
  );
  polling.notifyGroups('T', 3);
  await setImmediate();
  assert.equal(held[0]!.resumed, 1);
});
