import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { GantryError, toHex } from '../common/index.ts';
import { addressText, hostBytes, ipBytes, plainIp, splitAddress } from './address.ts';

describe('addresses', () => {
  it('are split at the last colon', () => {
    assert.deepEqual(splitAddress('broker-a:10911'), { host: 'broker-a', port: 10_911 });
    assert.deepEqual(splitAddress('[::1]:9876'), { host: '::1', port: 9_876 });
    assert.deepEqual(splitAddress('::1:9876'), { host: '::1', port: 9_876 });
    for (const bad of ['', 'host', ':1', 'host:', 'host:x', 'host:65536', 'host:-1']) {
      assert.throws(() => splitAddress(bad), { code: 'ADDRESS' });
    }
  });

  it('have the bytes that a record holds', () => {
    assert.equal(toHex(hostBytes('127.0.0.1', 10_911)), '7F00000100002A9F');
    assert.equal(toHex(ipBytes('::1')), `${'00'.repeat(15)}01`);
    assert.equal(toHex(ipBytes('2001:db8::ff00:42:8329')), '20010DB8000000000000FF0000428329');
    assert.equal(toHex(ipBytes('::ffff:1.2.3.4')), `${'00'.repeat(10)}FFFF01020304`);
    assert.equal(toHex(ipBytes('1:2:3:4:5:6:7:8')), '00010002000300040005000600070008');
    assert.throws(() => ipBytes('localhost'), GantryError);
  });

  it('lose the IPv6 dress of IPv4, and the zone', () => {
    assert.equal(plainIp('::ffff:10.0.0.1'), '10.0.0.1');
    assert.equal(plainIp('fe80::1%eth0'), 'fe80::1');
    assert.equal(addressText('10.0.0.1', 5), '10.0.0.1:5');
    assert.equal(addressText('fe80::1', 5), '[fe80::1]:5');
  });

  it('any IPv6 address becomes its 16 bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), (bytes) => {
        const groups = Array.from({ length: 8 }, (_, i) => ((bytes[2 * i]! << 8) | bytes[2 * i + 1]!).toString(16));
        assert.deepEqual(ipBytes(groups.join(':')), Uint8Array.from(bytes));
      }),
    );
    fc.assert(fc.property(fc.ipV6(), (ip) => ipBytes(ip).length === 16));
  });
});
