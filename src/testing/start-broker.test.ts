import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Producer, PullConsumer, type SendResult } from '../client/index.ts';
import { CollectingLogger, GantryError, silentLogger } from '../common/index.ts';
import { FakeClock, startBroker, type TestBroker } from './index.ts';
import { withProducer } from './with-producer.test.support.ts';

const TOPIC = 'Orders';
const TWO_HOURS = 2 * 60 * 60 * 1000;

function send(server: TestBroker, ...bodies: string[]): Promise<SendResult[]> {
  return withProducer(server, async (producer) => {
    const results: SendResult[] = [];
    for (const body of bodies) results.push(await producer.send({ topic: TOPIC, body }));
    return results;
  });
}

/** Reads until `count` messages of the topic have come; their bodies, sorted. */
async function receive(server: TestBroker, count: number): Promise<string[]> {
  const consumer = new PullConsumer({
    namesrvAddr: server.namesrvAddress,
    group: 'CG',
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    logger: silentLogger,
  });
  await consumer.start();
  try {
    await consumer.subscribe(TOPIC);
    const bodies: string[] = [];
    while (bodies.length < count) bodies.push(...(await consumer.poll()).map((message) => message.text()));
    return bodies.sort();
  } finally {
    await consumer.close();
  }
}

test('a first message is sent and received, with nothing prepared', async () => {
  const server = await startBroker();
  const [result] = await send(server, 'hello');
  assert.equal(result!.status, 'SEND_OK');
  assert.deepEqual(await receive(server, 1), ['hello']);
  await server.stop();
});

test('a stop may be called twice, and leaves no handle', async () => {
  const cycle = async (): Promise<void> => {
    const server = await startBroker();
    await send(server, 'x');
    await Promise.all([server.stop(), server.stop()]);
  };
  await cycle();
  const before = handles();
  for (let i = 0; i < 10; i++) await cycle();
  await assertHandles(before);
});

/** Node closes handles within the next turns of the loop. */
async function assertHandles(expected: readonly string[]): Promise<void> {
  for (let turn = 0; turn < 100 && handles().length !== expected.length; turn++) {
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
  assert.deepEqual(handles(), expected);
}

function handles(): string[] {
  return process
    .getActiveResourcesInfo()
    .filter((name) => /TCP|Timeout|Worker|MessagePort|File/.test(name))
    .sort();
}

test('twenty brokers at once do not get into each other’s way', async () => {
  const servers = await Promise.all(Array.from({ length: 20 }, () => startBroker()));
  const addresses = new Set(servers.flatMap((server) => [server.address, server.namesrvAddress]));
  assert.equal(addresses.size, 40);
  await Promise.all(servers.map((server, i) => send(server, `to ${i}`)));
  const received = await Promise.all(servers.map((server) => receive(server, 1)));
  assert.deepEqual(
    received.map(([body]) => body),
    servers.map((_server, i) => `to ${i}`),
  );
  await Promise.all(servers.map((server) => server.stop()));
});

test('two brokers with one name server: a new topic has queues on both', async () => {
  const first = await startBroker({ config: { brokerName: 'broker-a' } });
  const second = await startBroker({ namesrvAddress: first.namesrvAddress, config: { brokerName: 'broker-b' } });
  assert.equal(second.nameServer, undefined);
  const bodies = Array.from({ length: 16 }, (_, i) => `message ${i}`);
  const results = await send(first, ...bodies);
  assert.deepEqual([...new Set(results.map((result) => result.queue.brokerName))].sort(), ['broker-a', 'broker-b']);
  assert.deepEqual(await receive(first, 16), bodies.sort());
  await second.stop();
  await first.stop();
});

for (const kind of ['kill', 'power cut'] as const) {
  test(`after a ${kind} a message that was acknowledged under SYNC_FLUSH is still there`, async () => {
    const storeConfig = { flushDiskType: 'SYNC_FLUSH' } as const;
    const server = await startBroker({ storeConfig });
    const results = await send(server, 'a', 'b', 'c');
    assert.deepEqual(
      results.map((result) => result.status),
      ['SEND_OK', 'SEND_OK', 'SEND_OK'],
    );
    const disk = await server.crash(kind, 7);
    const again = await startBroker({ disk, storeConfig });
    assert.deepEqual(await receive(again, 3), ['a', 'b', 'c']);
    await again.stop();
  });
}

test('a delay of two hours is over when the test says so', async () => {
  const clock = new FakeClock();
  const server = await startBroker({ clock });
  await withProducer(server, (producer) => producer.send({ topic: TOPIC, body: 'later', delayLevel: 18 }));
  let received: string[] | undefined;
  const receiving = receive(server, 1).then((bodies) => {
    received = bodies;
  });
  // Time moves on in steps, with room for the wire in between, until the message has come.
  let passed = 0;
  while (received === undefined) {
    clock.advance(1000);
    passed += 1000;
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
  await receiving;
  assert.deepEqual(received, ['later']);
  assert.ok(passed >= TWO_HOURS);
  await server.stop();
});

test('a disk that is full refuses a send, and takes it again when there is room', async () => {
  const server = await startBroker({ storeConfig: { flushDiskType: 'SYNC_FLUSH' } });
  await send(server, 'before');
  const fault = server.disk!.fail({ operation: 'write', code: 'DISK_FULL', times: Number.POSITIVE_INFINITY });
  const producer = new Producer({ namesrvAddr: server.namesrvAddress, group: 'PG', logger: silentLogger });
  await producer.start();
  const outcome = await producer.send({ topic: TOPIC, body: 'x' }).then(
    (result) => result.status,
    (error: unknown) => (error instanceof GantryError ? error.code : String(error)),
  );
  assert.notEqual(outcome, 'SEND_OK');
  await producer.close();
  fault.clear();
  await server.stop();
});

test('with a folder the files lie there, and the next start finds them', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'gantry-'));
  try {
    const server = await startBroker({ dir });
    await send(server, 'kept');
    await server.stop();
    assert.ok(existsSync(join(dir, 'store', 'commitlog', '00000000000000000000')));
    assert.equal(existsSync(join(dir, 'store', 'abort')), false);
    const again = await startBroker({ dir });
    assert.equal(again.disk, undefined);
    assert.deepEqual(await receive(again, 1), ['kept']);
    await assert.rejects(again.crash('kill'), TypeError);
    await again.stop();
  } finally {
    rmSync(dir, { recursive: true });
  }
});

test('a start that fails leaves nothing running', async () => {
  const server = await startBroker();
  const logger = new CollectingLogger();
  const before = handles();
  await assert.rejects(
    startBroker({ port: server.broker.port, logger }),
    (error) => error instanceof GantryError && error.code === 'PORT_TAKEN',
  );
  await assert.rejects(startBroker({ dir: '/x', disk: server.disk! }), TypeError);
  await assertHandles(before);
  await server.stop();
});
