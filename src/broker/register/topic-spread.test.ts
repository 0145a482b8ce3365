import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { CollectingLogger, FakeClock, GantryError } from '../../common/index.ts';
import { type ExtFields, type RemotingResponse, RequestCode, ResponseCode, toJsonBytes } from '../../remoting/index.ts';
import { TopicConfig } from '../topic/topic-config.ts';
import { TopicSpread } from './topic-spread.ts';
import { MOST_WAITING, SECOND_TRY_MS } from './two-tries.ts';

const NAME_SERVER = 'n:1';
const CODES: Record<number, string> = {
  [RequestCode.GET_ROUTEINFO_BY_TOPIC]: 'route',
  [RequestCode.GET_BROKER_CONFIG]: 'settings',
  [RequestCode.GET_TOPIC_CONFIG]: 'topic',
  [RequestCode.UPDATE_AND_CREATE_TOPIC]: 'create',
};

interface Other {
  address?: string;
  cluster?: string;
  brokerId?: string;
  /** Of TBW102 there. Default 7. */
  perm?: number;
  autoCreate?: boolean;
  topics?: string[];
}

/** A name server that answers at once, and brokers that do unless `hold` is set; and a broker `a` whose new topics spread. */
class World {
  readonly clock: FakeClock = new FakeClock();
  readonly logger: CollectingLogger = new CollectingLogger();
  /** `address what topic`. */
  readonly asked: string[] = [];
  readonly created: ExtFields[] = [];
  readonly here = new Map<string, TopicConfig>();
  readonly spread: TopicSpread;
  /** Addresses that refuse connections. */
  readonly dead = new Set<string>();
  /** Answers instead of the usual ones, by `address what`. */
  readonly answers = new Map<string, Partial<RemotingResponse>>();
  hold = false;
  underWay = 0;
  mostUnderWay = 0;
  #held: Array<() => void> = [];
  readonly others: Record<string, Other>;

  constructor(others: Record<string, Other>, nameServers: string[] = [NAME_SERVER]) {
    this.others = others;
    this.spread = new TopicSpread(
      { clusterName: 'C', brokerName: 'a', nameServers: () => nameServers, select: (topic) => this.here.get(topic) },
      { clock: this.clock, logger: this.logger, invoke: (address, code, ext) => this.#invoke(address, code, ext) },
    );
  }

  create(name: string, queues = 4): TopicConfig {
    const topic = new TopicConfig(name, { readQueueNums: queues, writeQueueNums: queues });
    this.here.set(name, topic);
    this.spread.add(topic);
    return topic;
  }

  /** Lets everything happen that needs no time; gives back what was asked. */
  async settle(): Promise<string[]> {
    for (let quiet = 0, seen = -1; quiet < 3; quiet = seen === this.asked.length ? quiet + 1 : 0) {
      seen = this.asked.length;
      await setImmediate();
    }
    return this.asked.splice(0);
  }

  release(): void {
    this.hold = false;
    for (const answer of this.#held.splice(0)) answer();
  }

  #invoke(address: string, code: number, ext: ExtFields): Promise<RemotingResponse> {
    const what = CODES[code] ?? String(code);
    const topic = what === 'topic' || what === 'create' ? ` ${ext['topic']}` : '';
    this.asked.push(`${address} ${what}${topic}`);
    if (this.dead.has(address))
      return Promise.reject(new GantryError('REMOTING_CONNECT', `cannot connect to ${address}`));
    this.mostUnderWay = Math.max(this.mostUnderWay, ++this.underWay);
    return new Promise((resolve) => {
      const answer = (): void => {
        this.underWay--;
        const empty = { code: 0, remark: undefined, ext: {}, body: new Uint8Array(), version: 513 };
        resolve({ ...empty, ...(this.answers.get(`${address} ${what}`) ?? this.#answer(address, what, ext)) });
      };
      if (this.hold && address !== NAME_SERVER) this.#held.push(answer);
      else queueMicrotask(answer);
    });
  }

  #answer(address: string, what: string, ext: ExtFields): Partial<RemotingResponse> {
    if (what === 'route') return { body: this.#route() };
    const other = this.others[address.slice(0, address.indexOf(':'))]!;
    const topics = other.topics ?? [];
    other.topics = topics;
    const topic = String(ext['topic']);
    if (what === 'settings') {
      return { body: Buffer.from(`brokerName=x\nautoCreateTopicEnable=${other.autoCreate ?? true}\nz=\n`) };
    }
    if (what === 'topic') return { code: topics.includes(topic) ? ResponseCode.SUCCESS : ResponseCode.TOPIC_NOT_EXIST };
    this.created.push(ext);
    topics.push(topic);
    return {};
  }

  #route(): Uint8Array {
    const brokerDatas = Object.entries(this.others).map(([brokerName, other]) => {
      const brokerAddrs = { [other.brokerId ?? '0']: other.address ?? `${brokerName}:1` };
      return { brokerName, cluster: other.cluster ?? 'C', brokerAddrs };
    });
    const queueDatas = Object.entries(this.others).map(([brokerName, other]) => {
      return { brokerName, perm: other.perm ?? 7, readQueueNums: 8, writeQueueNums: 8, topicSysFlag: 0 };
    });
    return toJsonBytes({ brokerDatas, filterServerTable: {}, queueDatas });
  }
}

test('a new topic is created at every other master of the cluster, as a tool would create it', async () => {
  const world = new World({ a: {}, b: {}, c: {}, d: { cluster: 'D' }, e: { brokerId: '1' } });
  world.create('T', 3);
  assert.deepEqual(world.asked, [], 'nothing is sent within the turn of the send');
  assert.deepEqual(
    (await world.settle()).sort(),
    ['b:1', 'c:1'].flatMap((at) => [`${at} create T`, `${at} settings`, `${at} topic T`]).concat('n:1 route'),
  );
  const header = {
    topic: 'T',
    defaultTopic: 'TBW102',
    readQueueNums: 3,
    writeQueueNums: 3,
    perm: 6,
    topicFilterType: 'SINGLE_TAG',
    topicSysFlag: 0,
    order: false,
    attributes: '',
    force: false,
    gantryOnlyIfAbsent: true,
  };
  assert.deepEqual(world.created, [header, header]);
  assert.deepEqual(world.logger.texts(), ['a new topic spread to b', 'a new topic spread to c']);
});

test('it does not spread to brokers that create no topics, or that are out of service', async () => {
  const world = new World({ a: {}, b: { autoCreate: false }, c: { perm: 5 } });
  world.create('T');
  assert.deepEqual(await world.settle(), ['n:1 route', 'b:1 settings']);
  assert.deepEqual(world.logger.texts(), ['new topics do not spread to b: sends create none there']);
  assert.equal(world.logger.lines[0]!.level, 'debug');
});

test('a topic that is there is left as it is', async () => {
  const world = new World({ b: { topics: ['T'] } });
  world.create('T');
  assert.deepEqual(await world.settle(), ['n:1 route', 'b:1 settings', 'b:1 topic T']);
});

test('nothing is asked where nobody can be: no name server, no route of TBW102', async () => {
  const alone = new World({}, []);
  alone.create('T');
  assert.deepEqual(await alone.settle(), []);
  const world = new World({});
  world.answers.set('n:1 route', { code: ResponseCode.TOPIC_NOT_EXIST });
  world.create('T');
  assert.deepEqual(await world.settle(), ['n:1 route']);
  world.clock.advance(SECOND_TRY_MS);
  assert.deepEqual(await world.settle(), []);
  assert.deepEqual([...alone.logger.lines, ...world.logger.lines], []);
});

test('the second name server is asked if the first one fails', async () => {
  const world = new World({ b: {} }, ['n:1', 'n:2']);
  world.dead.add('n:1');
  world.create('T');
  assert.deepEqual(await world.settle(), ['n:1 route', 'n:2 route', 'b:1 settings', 'b:1 topic T', 'b:1 create T']);
});

test('a topic that was deleted or changed before its turn does not spread', async () => {
  const world = new World({ b: {} });
  for (const name of ['Deleted', 'Changed', 'Same']) world.create(name);
  world.here.delete('Deleted');
  world.here.set('Changed', new TopicConfig('Changed', { writeQueueNums: 100 }));
  assert.deepEqual(await world.settle(), ['n:1 route', 'b:1 settings', 'b:1 topic Same', 'b:1 create Same']);
  world.create('Late');
  world.answers.set('b:1 topic', { code: ResponseCode.TOPIC_NOT_EXIST });
  world.hold = true;
  await world.settle();
  world.release();
  world.hold = true;
  assert.deepEqual(await world.settle(), ['b:1 topic Late']);
  world.here.delete('Late');
  world.release();
  assert.deepEqual(await world.settle(), [], 'deleted while the other broker was asked');
});

test('a burst is one round: one look at the route and the settings, one request at a time', async () => {
  const world = new World({ b: {} });
  for (let i = 0; i < 500; i++) world.create(`T${i}`);
  const asked = await world.settle();
  assert.deepEqual([asked[0], asked[1], asked.length], ['n:1 route', 'b:1 settings', 2 + 2 * 500]);
  assert.equal(world.created.length, 500);
  assert.equal(world.mostUnderWay, 1);
});

test('however many topics a peer makes, a bounded number waits, and one line says that the rest does not spread', async () => {
  const world = new World({ b: {} });
  for (let i = 0; i < 3 * MOST_WAITING; i++) world.create(`T${i}`);
  await world.settle();
  assert.equal(world.created.length, MOST_WAITING);
  assert.deepEqual(world.logger.texts('warn'), ['1000 new topics wait to spread: T1000 stays here alone']);
  // A broker that does not answer holds no more than that either.
  world.hold = true;
  for (let round = 0; round < 5; round++) {
    for (let i = 0; i < MOST_WAITING; i++) world.create(`U${round}-${i}`);
    await world.settle();
  }
  world.release();
  await world.settle();
  assert.equal(world.created.length, 3 * MOST_WAITING, 'one round under way, one that waits');
});

test('a broker that does not answer holds up no other', async () => {
  const world = new World({ b: {}, c: {} });
  world.hold = true;
  world.create('T');
  await world.settle();
  world.release();
  world.dead.add('b:1');
  await world.settle();
  world.create('U');
  assert.deepEqual(
    (await world.settle()).filter((asked) => asked.startsWith('c')),
    ['c:1 settings', 'c:1 topic U', 'c:1 create U'],
  );
});

test('what failed is tried once more, with what has come since, and then forgotten', async () => {
  const world = new World({ b: {} });
  world.dead.add('b:1');
  world.create('T');
  assert.deepEqual(await world.settle(), ['n:1 route', 'b:1 settings']);
  assert.deepEqual(world.logger.texts(), ['new topics do not spread to b at b:1: cannot connect to b:1']);
  world.clock.advance(SECOND_TRY_MS - 1);
  assert.deepEqual(await world.settle(), []);
  world.clock.advance(1);
  assert.deepEqual(await world.settle(), ['b:1 settings']);
  world.clock.advance(10 * SECOND_TRY_MS);
  assert.deepEqual(await world.settle(), []);
  assert.equal(world.logger.lines.length, 1);
  world.create('U');
  await world.settle();
  world.dead.clear();
  world.clock.advance(SECOND_TRY_MS);
  assert.deepEqual(await world.settle(), ['b:1 settings', 'b:1 topic U', 'b:1 create U']);
});

test('a name server that fails is asked once more', async () => {
  const world = new World({ b: {} });
  world.answers.set('n:1 route', { code: 1, remark: 'no' });
  world.create('T');
  assert.deepEqual(await world.settle(), ['n:1 route']);
  world.answers.set('n:1 route', { body: Buffer.from('[]') });
  world.clock.advance(SECOND_TRY_MS);
  assert.deepEqual(await world.settle(), ['n:1 route']);
  world.clock.advance(10 * SECOND_TRY_MS);
  assert.deepEqual(await world.settle(), []);
  assert.deepEqual(world.logger.texts(), ['new topics do not spread, as other brokers are not found: n:1: code 1, no']);
});

test('one topic that is refused does not stop those behind it; one that cannot be asked for is not created', async () => {
  const world = new World({ b: {} });
  world.answers.set('b:1 create', { code: 1, remark: 'slave broker' });
  world.create('T');
  world.create('U');
  const both = ['b:1 settings', 'b:1 topic T', 'b:1 create T', 'b:1 topic U', 'b:1 create U'];
  assert.deepEqual(await world.settle(), ['n:1 route', ...both]);
  assert.deepEqual(world.logger.texts(), ['new topics do not spread to b at b:1: T: code 1, slave broker']);
  world.clock.advance(SECOND_TRY_MS);
  assert.deepEqual(await world.settle(), both);
  world.answers.set('b:1 topic', { code: ResponseCode.REQUEST_CODE_NOT_SUPPORTED });
  world.create('V');
  assert.deepEqual(await world.settle(), ['n:1 route', 'b:1 settings', 'b:1 topic V']);
});

test('a stop ends it: nothing more is asked or said', async () => {
  const world = new World({ b: {} });
  world.hold = true;
  for (const name of ['T', 'U', 'V']) world.create(name);
  await world.settle();
  world.release();
  world.hold = true;
  await world.settle();
  world.spread.stop();
  world.dead.add('b:1');
  world.release();
  world.create('W');
  world.clock.advance(10 * SECOND_TRY_MS);
  assert.deepEqual(await world.settle(), []);
  assert.deepEqual(world.logger.lines, []);
});
