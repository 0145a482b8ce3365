import assert from 'node:assert/strict';
import { createServer, type Socket } from 'node:net';
import { describe, it } from 'node:test';
import { CollectingLogger, FakeClock } from '../common/index.ts';
import { ResponseCode, SerializeType } from './codes.ts';
import { until } from './raw-peer.test.support.ts';
import { RemotingClient } from './remoting-client.ts';
import { RemotingServer } from './server.ts';
import type { Channel } from './types.ts';

const CODE = 30;

async function serverOn(
  port = 0,
): Promise<{ server: RemotingServer; port: number; address: string; channels: Channel[] }> {
  const server = new RemotingServer({ clock: new FakeClock(), logger: new CollectingLogger() });
  const channels: Channel[] = [];
  server.onConnect((channel) => channels.push(channel));
  server.register(CODE, (request) => request.respond(0, null, request.header.toObject(), request.bodyCopy()));
  const bound = await server.listen('127.0.0.1', port);
  return { server, port: bound, address: `127.0.0.1:${bound}`, channels };
}

function clientOf(clock = new FakeClock(), serializeType?: SerializeType): RemotingClient {
  const options = { clock, logger: new CollectingLogger() };
  return new RemotingClient(serializeType === undefined ? options : { ...options, serializeType });
}

describe('RemotingClient', () => {
  it('shares one connection an address, also while it is being made', async () => {
    const { server, address, channels } = await serverOn();
    const client = clientOf();
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, i) => client.invoke(address, CODE, { i }, Buffer.from(`b${i}`), 1_000)),
    );
    answers.forEach((answer, i) => {
      assert.deepEqual(answer.ext, { i: `${i}` });
      assert.equal(Buffer.from(answer.body).toString(), `b${i}`);
      assert.equal(answer.version, 513);
    });
    assert.equal(channels.length, 1);
    await client.close();
    await server.close();
  });

  it('speaks binary headers where asked to', async () => {
    const { server, address } = await serverOn();
    const client = clientOf(new FakeClock(), SerializeType.ROCKETMQ);
    const answer = await client.invoke(address, CODE, { topic: 'T', empty: '' }, Buffer.from('x'), 1_000);
    assert.deepEqual(answer.ext, { topic: 'T' });
    await client.close();
    await server.close();
  });

  it('connects again after the connection has gone', async () => {
    const { server, address, channels } = await serverOn();
    const client = clientOf();
    const gone: string[] = [];
    client.onDisconnect((at) => gone.push(at));
    await client.invoke(address, CODE, null, null, 1_000);
    channels[0]!.close('for the test');
    await until(() => gone.length === 1);
    assert.equal(client.channel(address), undefined);
    await client.invoke(address, CODE, null, null, 1_000);
    assert.equal(channels.length, 2);
    assert.ok(client.channel(address)?.isOpen);
    await client.close();
    await server.close();
  });

  it('answers what servers ask of it', async () => {
    const { server, address, channels } = await serverOn();
    const client = clientOf();
    const notified: string[] = [];
    client.register(40, (request) => notified.push(request.header.required('consumerGroup')));
    client.register(307, (request) => request.respond(0, null, { running: true }));
    await client.connect(address);
    await until(() => channels.length === 1);
    channels[0]!.sendOneway(40, { consumerGroup: 'g' });
    assert.deepEqual((await channels[0]!.invoke(307, null, null, 1_000)).ext, { running: 'true' });
    assert.equal((await channels[0]!.invoke(221, null, null, 1_000)).code, ResponseCode.REQUEST_CODE_NOT_SUPPORTED);
    assert.deepEqual(notified, ['g']);
    await client.close();
    await server.close();
  });

  it('rejects with a code that says what failed', async () => {
    const clock = new FakeClock();
    const client = clientOf(clock);
    await assert.rejects(client.invoke('127.0.0.1:1', CODE, null, null, 1_000), {
      code: 'REMOTING_CONNECT',
      message: 'cannot connect to 127.0.0.1:1: ECONNREFUSED',
    });
    await assert.rejects(client.invoke('nowhere', CODE, null, null, 1_000), { code: 'ADDRESS' });

    const sockets: Socket[] = [];
    const silent = createServer((socket) => sockets.push(socket.on('error', () => {})));
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const address = `127.0.0.1:${(silent.address() as { port: number }).port}`;
    await client.connect(address);
    const late = assert.rejects(client.invoke(address, CODE, null, null, 700), { code: 'REMOTING_TIMEOUT' });
    const lost = assert.rejects(client.invoke(address, CODE, null, null, 5_000), { code: 'REMOTING_CLOSED' });
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(700);
    await late;
    await until(() => sockets.length === 1);
    sockets[0]!.destroy();
    await lost;
    await client.close();
    await assert.rejects(client.connect(address), { code: 'CLIENT_STATE' });
    silent.close();
  });

  it('closes the connection of a server that sends nonsense', async () => {
    const strange = createServer((socket) => socket.on('error', () => {}).write('HTTP/1.1 400 Bad Request\r\n\r\n'));
    await new Promise<void>((resolve) => strange.listen(0, '127.0.0.1', resolve));
    const address = `127.0.0.1:${(strange.address() as { port: number }).port}`;
    const client = clientOf();
    await assert.rejects(client.invoke(address, CODE, null, null, 5_000), { code: 'REMOTING_CLOSED' });
    await client.close();
    strange.close();
  });

  it('asks once more on a new connection when told to go away', async () => {
    const first = await serverOn();
    const client = clientOf();
    await client.invoke(first.address, CODE, null, null, 1_000);
    let away = true;
    first.server.register(CODE, (request) => {
      request.respond(away ? ResponseCode.GO_AWAY : 0, away ? 'please go away' : null);
      away = false;
    });
    assert.equal((await client.invoke(first.address, CODE, null, null, 1_000)).code, 0);
    assert.equal(first.channels.length, 2);
    await client.close();
    await first.server.close();
  });
});
