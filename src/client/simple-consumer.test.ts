import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { RequestCode, ResponseCode } from '../remoting/index.ts';
import { ClientInstance } from './client-instance.ts';
import { FakeCluster, record } from './fake-cluster.test.support.ts';
import { SimpleConsumer, type SimpleConsumerOptions } from './simple-consumer.ts';
import { MessageSelector } from './subscription.ts';

async function rig(
  t: TestContext,
  options: Partial<SimpleConsumerOptions> = {},
  ...brokers: string[]
): Promise<{ cluster: FakeCluster; consumer: SimpleConsumer }> {
  const cluster = await FakeCluster.open({ T: 2, Other: 1 }, ...brokers);
  const consumer = new SimpleConsumer({ ...cluster.options(), group: 'G', ...options });
  await consumer.start();
  t.after(async () => {
    await consumer.close();
    await cluster.close();
  });
  return { cluster, consumer };
}

const texts = (messages: ReadonlyArray<{ text(): string }>): string[] => messages.map((message) => message.text());

test('a pop asks any queue of the broker, with what it needs to know', async (t) => {
  const { cluster, consumer } = await rig(t, { consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET' });
  cluster.broker.append('T', 1, 'hello', { tags: 'A' });
  await consumer.subscribe('T', 'A || B');
  const [message] = await consumer.receive(8, 30_000, 2000);
  assert.equal(message!.text(), 'hello');
  assert.equal(message!.receiptHandle, '0 1700000000000 30000 5 0 a 1 0');
  assert.equal(message!.properties.get('POP_CK'), message!.receiptHandle);
  assert.equal(message!.visibleAt, 1_700_000_030_000);
  assert.deepEqual(message!.queue, { topic: 'T', brokerName: 'a', queueId: 1 });
  const { ext } = cluster.broker.of(RequestCode.POP_MESSAGE)[0]!;
  assert.deepEqual(
    { ...ext },
    {
      consumerGroup: 'G',
      topic: 'T',
      queueId: '-1',
      maxMsgNums: '8',
      invisibleTime: '30000',
      pollTime: '2000',
      bornTime: String(cluster.clock.now()),
      initMode: '0',
      expType: 'TAG',
      exp: 'A || B',
      order: 'false',
      bname: 'a',
    },
  );
});

test('ack names one message; a second one is refused with what the broker says', async (t) => {
  const { cluster, consumer } = await rig(t);
  for (const body of ['m0', 'm1']) cluster.broker.append('T', 0, body);
  await consumer.subscribe('T');
  const messages = await consumer.receive();
  assert.deepEqual(texts(messages), ['m0', 'm1']);
  await consumer.ack(messages[1]!);
  assert.deepEqual(cluster.broker.pops.acked, ['G T 0 1']);
  const { ext } = cluster.broker.of(RequestCode.ACK_MESSAGE)[0]!;
  assert.equal(ext['extraInfo'], messages[1]!.receiptHandle);
  assert.equal(ext['offset'], '1');
  await assert.rejects(consumer.ack(messages[1]!), { code: 'RESPONSE', responseCode: ResponseCode.NO_MESSAGE });
});

test('ackAll sends one request for each broker, with a bit for each message of a pop', async (t) => {
  const { cluster, consumer } = await rig(t, {}, 'a', 'b');
  for (const broker of cluster.brokers) {
    for (let i = 0; i < 11; i++) broker.append('T', 0, `${broker.name}${i}`);
    broker.append('T', 1, 'x');
  }
  await consumer.subscribe('T');
  const messages = [...(await consumer.receive(32)), ...(await consumer.receive(32))];
  assert.equal(messages.length, 24);
  await consumer.ackAll(messages.filter((message) => !message.text().endsWith('3')));
  for (const broker of cluster.brokers) {
    const requests = broker.of(RequestCode.BATCH_ACK_MESSAGE);
    assert.equal(requests.length, 1);
    const { brokerName, acks } = JSON.parse(requests[0]!.body.toString());
    assert.equal(brokerName, broker.name);
    assert.deepEqual(acks[0], {
      b: '9wc=',
      c: 'G',
      it: 60000,
      pt: 1_700_000_000_000,
      q: 0,
      r: '0',
      rq: 5,
      so: 0,
      t: 'T',
    });
    assert.equal(acks[1].b, 'AQ==');
    assert.deepEqual([...broker.pops.inFlight], ['G T 0 3']);
  }
  await consumer.ackAll([]);
  assert.equal(cluster.broker.requests.filter(({ code }) => code === RequestCode.ACK_MESSAGE).length, 0);
});

test('a change of the invisible time gives the message a new handle, which the next ack names', async (t) => {
  const { cluster, consumer } = await rig(t);
  for (const body of ['m0', 'm1']) cluster.broker.append('T', 0, body);
  await consumer.subscribe('T');
  const [, message] = await consumer.receive();
  await consumer.changeInvisibleDuration(message!, 120_000);
  assert.deepEqual(cluster.broker.pops.changed, ['G T 0 1: 120000']);
  assert.equal(message!.receiptHandle, '1 1700000000001 120000 3 0 a 0 1');
  assert.equal(message!.visibleAt, 1_700_000_120_001);
  await consumer.ack(message!);
  assert.equal(cluster.broker.of(RequestCode.ACK_MESSAGE)[0]!.ext['extraInfo'], message!.receiptHandle);
});

test('a message from the retry topic is acknowledged in that topic, and shows the one that it was sent to', async (t) => {
  const { cluster, consumer } = await rig(t);
  const handle = '7 1700000000000 60000 2 1 a 0 9';
  cluster.broker.answer = ({ code }) => {
    if (code === RequestCode.ACK_MESSAGE) return { code: 0 };
    if (code !== RequestCode.POP_MESSAGE) return undefined;
    const ext = {
      popTime: 1_700_000_000_000,
      invisibleTime: 60_000,
      reviveQid: 2,
      restNum: 0,
      startOffsetInfo: '1 0 7',
      msgOffsetInfo: '1 0 9',
    };
    return { code: 0, ext, body: record('T', 0, 9, 'again', { properties: { POP_CK: handle }, reconsumeTimes: 2 }) };
  };
  await consumer.subscribe('T');
  const [message] = await consumer.receive();
  assert.equal(message!.topic, 'T');
  assert.equal(message!.reconsumeTimes, 2);
  assert.equal(message!.receiptHandle, handle);
  await consumer.ack(message!);
  assert.equal(cluster.broker.of(RequestCode.ACK_MESSAGE)[0]!.ext['topic'], '%RETRY%G_T');
});

test('a broker that returns the retry topic itself is understood, of both versions', async (t) => {
  const { cluster, consumer } = await rig(t);
  for (const [topic, flag] of [
    ['%RETRY%G_T', '1'],
    ['%RETRY%G+T', '2'],
  ] as const) {
    cluster.broker.answer = ({ code }) => {
      if (code !== RequestCode.POP_MESSAGE) return undefined;
      const ext = {
        popTime: 1,
        invisibleTime: 2,
        reviveQid: 3,
        restNum: 0,
        startOffsetInfo: `${flag} 0 4`,
        msgOffsetInfo: `${flag} 0 5`,
      };
      return { code: 0, ext, body: record(topic, 0, 5, 'again') };
    };
    await consumer.subscribe('T');
    const [message] = await consumer.receive();
    assert.equal(message!.topic, 'T');
    assert.equal(message!.receiptHandle, `4 1 2 3 ${flag} a 0 5`);
  }
});

test('in order: the broker is told, and its counts are the tries of a message', async (t) => {
  const { cluster, consumer } = await rig(t, { fifo: true });
  cluster.broker.answer = ({ code, ext }) => {
    if (code !== RequestCode.POP_MESSAGE) return undefined;
    assert.equal(ext['order'], 'true');
    const fields = {
      popTime: 1,
      invisibleTime: 2,
      reviveQid: 999,
      restNum: 0,
      startOffsetInfo: '0 1 4',
      msgOffsetInfo: '0 1 4,5',
      orderCountInfo: '0 qo1%5 3;0 1 1',
    };
    return { code: 0, ext: fields, body: Buffer.concat([record('T', 1, 4, 'a'), record('T', 1, 5, 'b')]) };
  };
  await consumer.subscribe('T');
  const messages = await consumer.receive();
  assert.deepEqual(
    messages.map((message) => message.reconsumeTimes),
    [1, 3],
  );
});

test('a message whose tag only shares the hash is acknowledged unseen', async (t) => {
  const { cluster, consumer } = await rig(t);
  // Java's hash of both is the same.
  cluster.broker.append('T', 0, 'wanted', { tags: 'Aa' });
  cluster.broker.append('T', 0, 'not wanted', { tags: 'BB' });
  await consumer.subscribe('T', 'Aa');
  assert.deepEqual(texts(await consumer.receive()), ['wanted']);
  await cluster.until('the other is acknowledged', () => cluster.broker.pops.acked.length === 1);
  assert.deepEqual(cluster.broker.pops.acked, ['G T 0 1']);
});

test('an SQL92 expression goes along, and the broker is asked first whether it takes it', async (t) => {
  const { cluster, consumer } = await rig(t);
  const refused: string[] = [];
  cluster.broker.answer = ({ code, body }) => {
    if (code !== RequestCode.CHECK_CLIENT_CONFIG) return undefined;
    refused.push(JSON.parse(body.toString()).subscriptionData.subString);
    return { code: refused.length === 1 ? ResponseCode.SUBSCRIPTION_PARSE_FAILED : 0 };
  };
  const selector = MessageSelector.bySql('a > 1');
  await assert.rejects(consumer.subscribe('T', selector), { responseCode: ResponseCode.SUBSCRIPTION_PARSE_FAILED });
  assert.deepEqual(consumer.topics, []);
  await consumer.subscribe('T', selector);
  cluster.broker.append('T', 0, 'm');
  assert.equal((await consumer.receive()).length, 1);
  const { ext } = cluster.broker.of(RequestCode.POP_MESSAGE)[0]!;
  assert.equal(ext['expType'], 'SQL92');
  assert.equal(ext['exp'], 'a > 1');
});

test('one place is waited at; a message that comes meanwhile ends the wait', async (t) => {
  const { cluster, consumer } = await rig(t);
  await consumer.subscribe('T');
  const waiting = consumer.receive();
  await cluster.until('the pop waits', () => cluster.broker.pops.waiting === 1);
  assert.equal(cluster.broker.of(RequestCode.POP_MESSAGE)[0]!.ext['pollTime'], '15000');
  cluster.broker.append('T', 0, 'late');
  assert.deepEqual(texts(await waiting), ['late']);
});

test('several topics and brokers are all asked before any is waited at, each for a moment', async (t) => {
  const { cluster, consumer } = await rig(t, {}, 'a', 'b');
  await consumer.subscribe('T');
  await consumer.subscribe('Other');
  cluster.brokers[1]!.append('Other', 0, 'far away');
  assert.deepEqual(texts(await consumer.receive()), ['far away']);
  const pops = (): Record<string, string>[] =>
    cluster.brokers.flatMap((broker) => broker.of(RequestCode.POP_MESSAGE)).map(({ ext }) => ext);
  assert.ok(pops().every((ext) => ext['pollTime'] === '0'));
  const waiting = consumer.receive();
  const held = (): number => cluster.brokers.reduce((sum, broker) => sum + broker.pops.waiting, 0);
  await cluster.until('one place is waited at', () => held() === 1);
  assert.equal(pops().filter((ext) => ext['pollTime'] === '1000').length, 1);
  cluster.clock.advance(1000);
  for (const broker of cluster.brokers) broker.pops.expire();
  await cluster.until('the next is waited at', () => held() === 1);
  for (const broker of cluster.brokers) for (const topic of ['T', 'Other']) broker.append(topic, 0, 'now');
  assert.deepEqual(texts(await waiting), ['now']);
});

test('receive ends empty when its time is over, and at close', async (t) => {
  const { cluster, consumer } = await rig(t);
  await consumer.subscribe('T');
  assert.deepEqual(await consumer.receive(1, 1000, 0), []);
  const inTime = consumer.receive(1, 1000, 3000);
  await cluster.until('the pop waits', () => cluster.broker.pops.waiting === 1);
  cluster.clock.advance(3000);
  cluster.broker.pops.expire();
  assert.deepEqual(await inTime, []);
  const atClose = consumer.receive();
  await cluster.until('the pop waits', () => cluster.broker.pops.waiting === 1);
  await consumer.close();
  assert.deepEqual(await atClose, []);
  await assert.rejects(consumer.receive(), { code: 'CLIENT_STATE' });
});

test('POLLING_FULL is no error: it is asked again a little later', async (t) => {
  const { cluster, consumer } = await rig(t);
  cluster.broker.append('T', 0, 'm');
  let full = true;
  cluster.broker.answer = ({ code }) =>
    code === RequestCode.POP_MESSAGE && full ? { code: ResponseCode.POLLING_FULL } : undefined;
  await consumer.subscribe('T');
  const receiving = consumer.receive();
  await cluster.until('it was full', () => cluster.broker.of(RequestCode.POP_MESSAGE).length === 1);
  full = false;
  await cluster.until('it is asked again', () => cluster.broker.of(RequestCode.POP_MESSAGE).length === 2, 100);
  assert.deepEqual(texts(await receiving), ['m']);
});

test('other answers are errors with the number of the broker', async (t) => {
  const { cluster, consumer } = await rig(t);
  cluster.broker.answer = ({ code }) =>
    code === RequestCode.POP_MESSAGE ? { code: ResponseCode.NO_PERMISSION, remark: 'not now' } : undefined;
  await consumer.subscribe('T');
  await assert.rejects(consumer.receive(), {
    code: 'RESPONSE',
    responseCode: ResponseCode.NO_PERMISSION,
    remark: 'not now',
  });
});

test('a topic without a route is waited for, and is an error when the time is over', async (t) => {
  const { cluster, consumer } = await rig(t);
  await consumer.subscribe('Later');
  await assert.rejects(consumer.receive(1, 1000, 0), { code: 'NO_ROUTE' });
  const receiving = consumer.receive();
  cluster.topics.set('Later', 1);
  cluster.broker.append('Later', 0, 'm');
  await cluster.until('the route is known', () => cluster.broker.of(RequestCode.POP_MESSAGE).length > 0, 100);
  assert.deepEqual(texts(await receiving), ['m']);
});

test('what cannot be is refused at once', async (t) => {
  const { cluster, consumer } = await rig(t);
  await assert.rejects(consumer.receive(), { code: 'CLIENT_STATE' });
  await consumer.subscribe('T');
  for (const [count, invisible, wait] of [
    [0, 1, 1],
    [33, 1, 1],
    [1, 0, 1],
    [1, 1, -1],
    [1.5, 1, 1],
  ] as const) {
    await assert.rejects(consumer.receive(count, invisible, wait), { code: 'CONFIG_VALUE' });
  }
  const options = cluster.options();
  assert.throws(() => new SimpleConsumer({ ...options, group: 'G', awaitDurationMs: -1 }), { code: 'CONFIG_VALUE' });
  assert.throws(() => new SimpleConsumer({ ...options, group: '' }), { code: 'CONFIG_VALUE' });
  await assert.rejects(consumer.start(), { code: 'CLIENT_STATE' });
});

test('brokers hear of the group at its start and at its end', async (t) => {
  const { cluster, consumer } = await rig(t);
  await consumer.subscribe('T');
  assert.deepEqual([...cluster.broker.members.get('G')!], [consumer.client.clientId]);
  const [info] = await cluster.broker.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, { consumerGroup: 'G', clientId: 'x' });
  assert.match(info!.body.toString(), /"PROP_CONSUME_TYPE":"CONSUME_ACTIVELY"/);
  await consumer.close();
  assert.deepEqual([...cluster.broker.members.get('G')!], []);
});

test('an answer whose header leaves a message out is logged, and the others are received', async (t) => {
  const { cluster, consumer } = await rig(t);
  cluster.broker.answer = ({ code }) => {
    if (code !== RequestCode.POP_MESSAGE) return undefined;
    const ext = {
      popTime: 1,
      invisibleTime: 2,
      reviveQid: 3,
      restNum: 0,
      startOffsetInfo: '0 0 4',
      msgOffsetInfo: '0 0 4',
    };
    return { code: 0, ext, body: Buffer.concat([record('T', 0, 4, 'a'), record('T', 1, 4, 'nowhere')]) };
  };
  await consumer.subscribe('T');
  assert.deepEqual(texts(await consumer.receive()), ['a']);
  assert.match(cluster.logger.texts().join('\n'), /1 messages of it have no place in its header/);
});

test('close ends a receive at once, also on an instance that goes on for others', async (t) => {
  const cluster = await FakeCluster.open({ T: 1 });
  const client = new ClientInstance(cluster.options());
  const [consumer, other] = ['G', 'H'].map((group) => new SimpleConsumer({ namesrvAddr: '', group, client }));
  for (const one of [consumer!, other!]) {
    await one.start();
    await one.subscribe('T');
  }
  t.after(async () => {
    await other!.close();
    await cluster.close();
  });
  const atClose = consumer!.receive();
  const goesOn = other!.receive();
  await cluster.until('both pops wait', () => cluster.broker.pops.waiting === 2);
  let ended: unknown;
  void atClose.then((messages) => (ended = messages));
  await consumer!.close();
  await cluster.until('it ends', () => ended !== undefined);
  assert.deepEqual(ended, []);
  cluster.broker.append('T', 0, 'm');
  assert.deepEqual(texts(await goesOn), ['m']);
});

test('close ends a receive that looks for a route', async (t) => {
  const { cluster, consumer } = await rig(t);
  await consumer.subscribe('Later');
  const before = cluster.routeRequests.length;
  const receiving = consumer.receive();
  cluster.clock.advance(1000);
  await cluster.until('the route is asked for', () => cluster.routeRequests.length > before, 100);
  await consumer.close();
  assert.deepEqual(await receiving, []);
});

test('a broker that is away does not keep from a receive what the others have, and is asked again when it is back', async (t) => {
  const { cluster, consumer } = await rig(t, {}, 'a', 'b');
  const [away, there] = [cluster.brokers[0]!, cluster.brokers[1]!];
  await consumer.subscribe('T');
  const port = Number(away.address.split(':')[1]);
  await away.close();
  for (const body of ['m0', 'm1', 'm2', 'm3']) there.append('T', 0, body);
  for (const body of ['m0', 'm1', 'm2', 'm3']) assert.deepEqual(texts(await consumer.receive(1)), [body]);
  assert.match(cluster.logger.texts().join('\n'), /G: .*receives from the others meanwhile/);
  await there.close();
  await assert.rejects(consumer.receive(1), { code: /^REMOTING_/ });
  await away.open(port);
  away.append('T', 0, 'back');
  const receiving = consumer.receive(1);
  assert.deepEqual(texts(await receiving), ['back']);
});

test('a receive that waits says so when its broker goes, and the next one finds it again', async (t) => {
  const { cluster, consumer } = await rig(t);
  await consumer.subscribe('T');
  const waiting = consumer.receive();
  await cluster.until('the pop waits', () => cluster.broker.pops.waiting === 1);
  cluster.broker.dropConnections();
  await assert.rejects(waiting, { code: /^REMOTING_/ });
  cluster.broker.append('T', 0, 'm');
  assert.deepEqual(texts(await consumer.receive()), ['m']);
});

test('a handle that a sender left in a message is not taken for the one of this pop', async (t) => {
  const { cluster, consumer } = await rig(t);
  cluster.broker.append('T', 1, 'forwarded', { properties: { POP_CK: '7 1600000000000 30000 2 0 a 0 9' } });
  await consumer.subscribe('T');
  const [message] = await consumer.receive();
  assert.equal(message!.receiptHandle, '0 1700000000000 60000 5 0 a 1 0');
  await consumer.ack(message!);
  assert.deepEqual(cluster.broker.pops.acked, ['G T 1 0']);
});

test('a broker that takes each pop for over at once, since its clock is far ahead, is not asked without a pause', async (t) => {
  const { cluster, consumer } = await rig(t);
  const { broker } = cluster;
  await consumer.subscribe('T');
  broker.answer = ({ code }) => (code === RequestCode.POP_MESSAGE ? { code: ResponseCode.POLLING_TIMEOUT } : undefined);
  let received: unknown[] | undefined;
  void consumer.receive(1, 30_000, 1000).then((messages) => {
    received = messages;
  });
  await cluster.until('the time to wait is over', () => received !== undefined, 1);
  assert.deepEqual(received, []);
  const count = broker.of(RequestCode.POP_MESSAGE).length;
  assert.ok(count > 2 && count < 30, `${count} pops`);
});
