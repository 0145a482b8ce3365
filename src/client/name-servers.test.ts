import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { CollectingLogger, SeededRandom, systemClock } from '../common/index.ts';
import { RemotingServer, RequestCode, ResponseCode, toJsonBytes } from '../remoting/index.ts';
import { ClientInstance } from './client-instance.ts';

interface Server {
  address: string;
  asked: number;
  close(): Promise<void>;
}

async function server(answer: 'route' | 'unknown' | 'empty'): Promise<Server> {
  const remoting = new RemotingServer({ clock: systemClock, logger: new CollectingLogger() });
  const result: Server = { address: '', asked: 0, close: () => remoting.close() };
  remoting.register(RequestCode.GET_ROUTEINFO_BY_TOPIC, (request) => {
    result.asked++;
    if (answer === 'unknown') return request.respond(ResponseCode.TOPIC_NOT_EXIST);
    const body = answer === 'empty' ? null : toJsonBytes({ brokerDatas: [], queueDatas: [] });
    request.respond(ResponseCode.SUCCESS, null, null, body);
  });
  result.address = `127.0.0.1:${await remoting.listen('127.0.0.1', 0)}`;
  return result;
}

function instance(t: TestContext, addresses: string[]): ClientInstance {
  const logger = new CollectingLogger();
  const client = new ClientInstance({ namesrvAddr: addresses.join(';'), logger, random: new SeededRandom(1) });
  client.acquire();
  t.after(() => client.release());
  return client;
}

test('one server is asked until it fails, then the others', async (t) => {
  const servers = [await server('route'), await server('route')];
  t.after(() => Promise.all(servers.map((one) => one.close())));
  const { nameServers } = instance(
    t,
    servers.map((one) => one.address),
  );
  const first = servers.find((one) => one.address === nameServers.current)!;
  const second = servers.find((one) => one !== first)!;
  await nameServers.topicRoute('T');
  await nameServers.topicRoute('T');
  assert.deepEqual([first.asked, second.asked], [2, 0]);
  await first.close();
  await nameServers.topicRoute('T');
  await nameServers.topicRoute('T');
  assert.deepEqual([first.asked, second.asked], [2, 2]);
});

test('with all of them away the error is that of a connection', async (t) => {
  const gone = [await server('route'), await server('route')];
  await Promise.all(gone.map((one) => one.close()));
  const { nameServers } = instance(
    t,
    gone.map((one) => one.address),
  );
  await assert.rejects(nameServers.topicRoute('T'), { code: 'REMOTING_CONNECT' });
});

test('"no such topic" is no route; a success without a body is an error', async (t) => {
  const unknown = await server('unknown');
  const empty = await server('empty');
  t.after(() => Promise.all([unknown.close(), empty.close()]));
  assert.equal(await instance(t, [unknown.address]).nameServers.topicRoute('T'), undefined);
  await assert.rejects(instance(t, [empty.address]).nameServers.topicRoute('T'), { code: 'FRAME' });
});

test('an instance must be started, and can be started again', async (t) => {
  const one = await server('route');
  t.after(() => one.close());
  const client = new ClientInstance({ namesrvAddr: one.address, logger: new CollectingLogger() });
  assert.throws(() => client.nameServers, { code: 'CLIENT_STATE' });
  for (let i = 0; i < 2; i++) {
    client.acquire();
    await client.nameServers.topicRoute('T');
    await client.release();
  }
  assert.equal(one.asked, 2);
  assert.throws(() => client.routes, { code: 'CLIENT_STATE' });
});
