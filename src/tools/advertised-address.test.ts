import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GantryError } from '../common/index.ts';
import {
  type AdvertisedAddress,
  chooseAdvertisedAddress,
  formatAddress,
  type LocalAddress,
} from './advertised-address.ts';

const names: Readonly<Record<string, string>> = { 'mq.example': '203.0.113.7', localhost: '127.0.0.1' };

function choose(listen: string, local: LocalAddress[] = [], brokerIP1?: string): Promise<AdvertisedAddress> {
  return chooseAdvertisedAddress({
    listen,
    configured: brokerIP1 === undefined ? undefined : { host: brokerIP1, from: 'broker.conf line 3' },
    local,
    resolve: async (host) => {
      const ip = names[host];
      if (ip === undefined) throw new Error('ENOTFOUND');
      return ip;
    },
  });
}

function local(name: string, address: string, more: Partial<LocalAddress> = {}): LocalAddress {
  return { name, address, internal: false, bridge: false, defaultRoute: false, ...more };
}

const lo = local('lo', '127.0.0.1', { internal: true });
const docker = local('docker0', '172.17.0.1', { bridge: true });

test('what is configured counts, be it an address or a name', async () => {
  assert.deepEqual(await choose('0.0.0.0', [lo], '10.1.2.3'), {
    host: '10.1.2.3',
    ip: '10.1.2.3',
    why: 'as broker.conf line 3 says',
    warning: undefined,
  });
  const named = await choose('0.0.0.0', [lo], 'mq.example');
  assert.equal(named.host, 'mq.example');
  assert.equal(named.ip, '203.0.113.7');
});

test('what clients cannot dial is refused', async () => {
  for (const [host, text] of [
    ['0.0.0.0', 'cannot be dialled by clients'],
    ['::', 'cannot be dialled by clients'],
    ['nowhere.example', 'does not resolve'],
  ] as const) {
    await assert.rejects(
      choose('0.0.0.0', [lo], host),
      (error) =>
        error instanceof GantryError &&
        error.code === 'ADDRESS' &&
        error.message.includes(host) &&
        error.message.includes('broker.conf line 3') &&
        error.message.includes(text),
    );
  }
});

test('a port that listens on one address advertises it', async () => {
  assert.equal((await choose('127.0.0.1', [lo, docker])).why, 'since the ports listen on this machine only');
  assert.equal((await choose('localhost')).host, 'localhost');
  assert.deepEqual((await choose('10.0.0.4')).ip, '10.0.0.4');
});

test('the only address of the machine is taken, never that of a bridge', async () => {
  const chosen = await choose('0.0.0.0', [lo, docker, local('eth0', '10.0.0.4'), local('eth0', 'fe80::1')]);
  assert.equal(chosen.host, '10.0.0.4');
  assert.equal(chosen.why, 'the only address of this machine (eth0)');
});

test('of two network cards the one towards the default route is taken, and the other named', async () => {
  const cards = [lo, local('eth1', '192.168.7.2'), local('eth0', '10.0.0.4', { defaultRoute: true })];
  const chosen = await choose('::', cards);
  assert.equal(chosen.host, '10.0.0.4');
  assert.equal(chosen.why, 'the address of eth0, which leads to the default route; others: 192.168.7.2 (eth1)');
});

test('a machine with IPv6 only advertises that', async () => {
  assert.equal((await choose('::', [local('eth0', '2001:db8::5')])).host, '2001:db8::5');
});

test('with nothing but bridges it is the loopback address, and a warning', async () => {
  const chosen = await choose('0.0.0.0', [lo, docker]);
  assert.equal(chosen.host, '127.0.0.1');
  assert.match(chosen.warning ?? '', /set brokerIP1/);
});

test('addresses with ports', () => {
  assert.equal(formatAddress('10.0.0.4', 1), '10.0.0.4:1');
  assert.equal(formatAddress('::1', 1), '[::1]:1');
  assert.equal(formatAddress('[::1]', 1), '[::1]:1');
});
