import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, GantryError } from '../../common/index.ts';
import { type RemotingResponse, RequestCode, toJsonBytes } from '../../remoting/index.ts';
import { BrokerPeers } from './broker-peers.ts';

function response(code: number, body: object = {}): RemotingResponse {
  return { code, remark: null, ext: {}, body: toJsonBytes(body), opaque: 0 } as unknown as RemotingResponse;
}

function clusterOf(addresses: Record<string, string>): RemotingResponse {
  const table = Object.entries(addresses).map(([name, address]) => [name, { brokerAddrs: { 0: address } }]);
  return response(0, { brokerAddrTable: Object.fromEntries(table) });
}

test('two requests at once for a broker that is not known yet: one question, and both go there', async () => {
  const asked: string[] = [];
  const peers = new BrokerPeers({
    clock: new FakeClock(),
    nameServers: () => ['ns:1'],
    invoke: async (address, code) => {
      asked.push(address);
      return code === RequestCode.GET_BROKER_CLUSTER_INFO ? clusterOf({ b: 'b:1', c: 'c:1' }) : response(0);
    },
  });
  const answers = await Promise.all(['b', 'b', 'c'].map((name) => peers.invoke(name, 11, {}, null, 100)));
  assert.deepEqual(
    answers.map(({ code }) => code),
    [0, 0, 0],
  );
  assert.deepEqual(asked, ['ns:1', 'b:1', 'b:1', 'c:1']);
});

test('a broker that has moved is asked for anew when a second is over, and its new address stays', async () => {
  const clock = new FakeClock();
  let address = 'b:1';
  const peers = new BrokerPeers({
    clock,
    nameServers: () => ['ns:1'],
    invoke: async (to, code) => {
      if (code === RequestCode.GET_BROKER_CLUSTER_INFO) return clusterOf({ b: address });
      if (to !== address) throw new GantryError('REMOTING_CONNECT', `nobody at ${to}`);
      return response(0);
    },
  });
  assert.equal((await peers.invoke('b', 11, {}, null, 100)).code, 0);
  address = 'b:2';
  await assert.rejects(peers.invoke('b', 11, {}, null, 100), /nobody at b:1/);
  await assert.rejects(peers.invoke('b', 11, {}, null, 100), /cannot find addr for broker b/);
  clock.advance(1000);
  assert.equal((await peers.invoke('b', 11, {}, null, 100)).code, 0);
  await assert.rejects(peers.invoke('d', 11, {}, null, 100), /cannot find addr for broker d/);
});
