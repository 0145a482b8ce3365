// Floods at a name server's port: garbage, registrations, and questions for topics that nobody has. Others are answered meanwhile, and
// when the flooding peers have gone nothing is left of them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger, FakeClock, SeededRandom } from '../../src/common/index.ts';
import { MemoryFileSystem } from '../../src/io/index.ts';
import { NameServer } from '../../src/namesrv/index.ts';
import { RequestCode, ResponseCode } from '../../src/remoting/index.ts';
import { HostileFrames } from './hostile-frames.ts';
import { type Fields, jsonRequest, until, WirePeer } from './wire-peer.ts';

const FLOOD = 3_000;
/** Requests of one peer that wait for their answers. */
const WINDOW = 50;

function registration(brokerName: string, topics: number, host = '10.0.0.1'): { ext: Fields; body: Buffer } {
  const topicConfigTable: Record<string, object> = {};
  for (let i = 0; i < topics; i++) {
    const topicName = `${brokerName}-T${i}`;
    topicConfigTable[topicName] = { topicName, perm: 6, readQueueNums: 4, writeQueueNums: 4, topicSysFlag: 0 };
  }
  const dataVersion = { counter: 1, stateVersion: 0, timestamp: 1 };
  const ext = { brokerName, brokerAddr: `${host}:${1 + topics}`, clusterName: 'C', brokerId: '0' };
  return { ext, body: Buffer.from(JSON.stringify({ topicConfigSerializeWrapper: { topicConfigTable, dataVersion } })) };
}

/** Sends `count` requests, some at a time, and waits for all answers; answers how often each code came. */
async function flood(
  peer: WirePeer,
  count: number,
  request: (i: number) => { code: number; ext: Fields; body?: Buffer },
): Promise<Map<number, number>> {
  const codes = new Map<number, number>();
  let sent = 0;
  let answered = 0;
  const send = (): void => {
    const { code, ext, body } = request(sent);
    peer.write(jsonRequest(code, sent++, ext, body));
  };
  peer.onFrame = ({ code }) => {
    answered++;
    codes.set(code, (codes.get(code) ?? 0) + 1);
    if (sent < count) send();
  };
  while (sent < Math.min(count, WINDOW)) send();
  await until(() => answered === count || peer.closed);
  assert.equal(answered, count);
  return codes;
}

test('a name server under floods of garbage, registrations and questions answers others, and keeps nothing of it', async () => {
  const clock = new FakeClock();
  const logger = new CollectingLogger();
  const deps = { fs: new MemoryFileSystem({ directories: ['/ns'] }), clock, logger };
  const server = await NameServer.start({ host: '127.0.0.1', port: 0, kvConfigPath: '/ns/kv.json', deps });
  const open = (): Promise<WirePeer> => WirePeer.open(server.address);
  const [honest, registering, asking] = [await open(), await open(), await open()];
  const own = registration('honest', 3, '10.0.0.2');
  assert.equal((await honest.call(RequestCode.REGISTER_BROKER, 1, own.ext, own.body)).code, ResponseCode.SUCCESS);
  const cluster = async (opaque: number): Promise<string> =>
    (await honest.call(RequestCode.GET_BROKER_CLUSTER_INFO, opaque)).body.toString();
  const before = await cluster(2);

  let attacking = true;
  const garbage = (async (): Promise<number> => {
    const frames = new HostileFrames(new SeededRandom(7));
    let closed = 0;
    while (attacking) {
      const peer = await open();
      peer.onFrame = () => {};
      for (let i = 0; i < 20; i++) peer.write(frames.next(i, false).bytes);
      peer.write(Buffer.from('GET / HTTP/1.1\r\n\r\n'));
      await until(() => peer.closed);
      closed++;
    }
    return closed;
  })();
  let routes = 0;
  const others = (async (): Promise<void> => {
    while (attacking) {
      const route = await honest.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, 100 + routes, { topic: 'honest-T1' });
      assert.equal(route.code, ResponseCode.SUCCESS);
      assert.match(route.body.toString(), /"brokerName":"honest"/);
      honest.frames.length = 0;
      routes++;
    }
  })();
  const [registered, unknown] = await Promise.all([
    // Ever other tables under a few names, and a body in ten that is none.
    flood(registering, FLOOD, (i) => {
      const { ext, body } = registration(`flood-${i % 7}`, i % 40);
      return { code: RequestCode.REGISTER_BROKER, ext, body: i % 10 === 0 ? body.subarray(1) : body };
    }),
    flood(asking, FLOOD, (i) => ({ code: RequestCode.GET_ROUTEINFO_BY_TOPIC, ext: { topic: `nowhere-${i}` } })),
  ]).finally(() => {
    attacking = false;
  });
  const closed = await garbage;
  await others;
  assert.deepEqual([...registered.keys()].sort(), [ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR]);
  assert.deepEqual([...unknown], [[ResponseCode.TOPIC_NOT_EXIST, FLOOD]]);
  assert.ok(routes > 10 && closed > 10, `${routes} routes, ${closed} connections of garbage`);
  assert.match(await cluster(3), /flood-6/);

  await registering.close();
  let after = '';
  for (let opaque = 10; after !== before && opaque < 10_000; opaque++) after = await cluster(opaque);
  assert.equal(after, before, 'what the flood registered went with its connections');
  const lost = await honest.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, 5, { topic: 'flood-1-T1' });
  assert.equal(lost.code, ResponseCode.TOPIC_NOT_EXIST);
  assert.deepEqual(
    logger.texts('error').filter((text) => text.startsWith('the handler of request')),
    [],
  );
  await Promise.all([honest.close(), asking.close()]);
  await server.stop();
});
