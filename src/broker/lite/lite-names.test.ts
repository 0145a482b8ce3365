import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger, FakeClock } from '../../common/index.ts';
import { isLiteQueue, isLiteQueueOf, liteParts, liteTopicFault } from './lite-names.ts';
import { consistentHash, LiteSharding } from './lite-sharding.ts';
import { brokersOfQueues } from './write-queues.ts';

test('the queue of a lite topic says its parent and its name; anything else says none', () => {
  assert.deepEqual(liteParts('%LMQ%$p$l'), { parent: 'p', lite: 'l' });
  assert.deepEqual(liteParts('%LMQ%$p$alice@example.org'), { parent: 'p', lite: 'alice@example.org' });
  for (const name of ['%LMQ%p', '%LMQ%$p', '%LMQ%$p$', '%LMQ%$$l', '%LMQ%$p$l$m', 'p$l', '']) {
    assert.equal(liteParts(name), undefined, name);
  }
  assert.ok(isLiteQueue('%LMQ%$p$l') && !isLiteQueue('%LMQ%p'));
  assert.ok(isLiteQueueOf('%LMQ%$p$l', 'p') && !isLiteQueueOf('%LMQ%$pp$l', 'p'));
});

test('names that can have no queue of their own are found', () => {
  for (const lite of ['l', 'order-1', 'alice@example.org', '主题', '%a*'])
    assert.equal(liteTopicFault('p', lite), undefined, lite);
  for (const lite of ['a/b', 'a,b', 'a$b', 'a\tb', 'x'.repeat(250), '主'.repeat(83)]) {
    assert.match(liteTopicFault('p', lite)!, /may not contain|too long/, lite);
  }
});

test('the consistent hash is that of Guava', () => {
  const first = [0, 55, 62, 8, 45, 59, 86, 97, 82, 59, 73, 37, 17, 56, 86, 21, 90, 37, 38, 83];
  assert.deepEqual(
    first.map((_, i) => consistentHash(i, 100)),
    first,
  );
  assert.equal(consistentHash(10863919174838991n, 11), 6);
  assert.equal(consistentHash(2016238256797177309n, 11), 3);
  assert.equal(consistentHash(1673758223894951030n, 11), 5);
  assert.equal(consistentHash(2, 100001), 80343);
  assert.equal(consistentHash(2201, 100001), 22152);
  assert.equal(consistentHash(2202, 100001), 15018);
  assert.ok(consistentHash(-5, 7) < 7);
});

test('lite topics are shared out over the write queues of all brokers, and all are own while no route is known', async () => {
  const clock = new FakeClock();
  const logger = new CollectingLogger();
  const sharding = new LiteSharding('b0', clock, logger);
  assert.ok(sharding.isKnown('P') && sharding.isOwn('P', '%LMQ%$P$l'));
  let asked = 0;
  let route: readonly string[] | undefined = ['b0', 'b0', 'b1', 'b1'];
  sharding.writeQueues = async () => {
    asked++;
    return await Promise.resolve(route);
  };
  assert.ok(!sharding.isKnown('P'));
  await Promise.all([sharding.know('P'), sharding.know('P')]);
  assert.equal(asked, 1);
  const own = Array.from({ length: 100 }, (_, i) => sharding.isOwn('P', `%LMQ%$P$lite${i}`)).filter(Boolean).length;
  assert.ok(own > 30 && own < 70, `${own} of 100`);
  await sharding.know('P');
  assert.equal(asked, 1, 'the route is fresh');
  clock.advance(30_000);
  route = undefined;
  await sharding.know('P');
  assert.equal(asked, 2);
  assert.ok(sharding.isOwn('P', '%LMQ%$P$lite1'), 'a topic without a route is at home here');
  sharding.writeQueues = () => Promise.reject(new Error('nobody answers'));
  clock.advance(30_000);
  await sharding.know('P');
  assert.ok(sharding.isKnown('P'), 'a name server that is gone is not asked by every request');
});

test('routes that are not to be had are forgotten as others are, however many topics are named', async () => {
  const sharding = new LiteSharding('b0', new FakeClock(), new CollectingLogger());
  sharding.writeQueues = () => Promise.reject(new Error('nobody answers'));
  for (let i = 0; i <= 4096; i++) await sharding.know(`P${i}`);
  assert.deepEqual([sharding.isKnown('P0'), sharding.isKnown('P4096')], [false, true]);
});

test('write queues come by broker name, from masters that may be written to, or as an order configuration says', () => {
  const queue = (brokerName: string, writeQueueNums: number, perm = 6) => ({
    brokerName,
    writeQueueNums,
    readQueueNums: 8,
    perm,
  });
  const broker = (brokerName: string, id = '0') => ({ brokerName, cluster: 'c', brokerAddrs: { [id]: '127.0.0.1:1' } });
  const route = {
    queueDatas: [queue('b', 2), queue('a', 1), queue('c', 3, 4), queue('d', 2)],
    brokerDatas: [broker('a'), broker('b'), broker('c'), broker('d', '1')],
  };
  assert.deepEqual(brokersOfQueues(route), ['a', 'b', 'b']);
  assert.deepEqual(brokersOfQueues({ ...route, orderTopicConf: 'x:2;a:1' }), ['x', 'x', 'a']);
  assert.equal(brokersOfQueues({ orderTopicConf: 'x:2147483647' }).length, 65_536);
});
