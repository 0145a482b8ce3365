// Addresses of peers: as text (`ip:port`, IPv6 in brackets) and as the bytes that a record and a message id hold.

import { isIPv4, isIPv6 } from 'node:net';
import { GantryError } from '../common/index.ts';

/** `ip:port`, or `[ip]:port` for IPv6. */
export function addressText(ip: string, port: number): string {
  return ip.includes(':') ? `[${ip}]:${port}` : `${ip}:${port}`;
}

/**
 * Splits `host:port` at its last colon; brackets around an IPv6 host are taken off.
 * @throws GantryError ADDRESS if there is no port.
 */
export function splitAddress(address: string): { host: string; port: number } {
  const colon = address.lastIndexOf(':');
  const port = Number(address.slice(colon + 1));
  if (colon <= 0 || !/^[0-9]{1,5}$/.test(address.slice(colon + 1)) || port > 65535) {
    throw new GantryError('ADDRESS', `"${address}" is no address: host:port is needed`);
  }
  return { host: address.slice(0, colon).replace(/^\[(.*)\]$/, '$1'), port };
}

/** Takes the IPv6 dress off an IPv4 address: a dual-stack socket reports `::ffff:1.2.3.4`. */
export function plainIp(ip: string): string {
  return ip.startsWith('::ffff:') && isIPv4(ip.slice(7)) ? ip.slice(7) : ip.replace(/%.*$/, '');
}

/**
 * The 4 or 16 bytes of an IP address.
 * @throws GantryError ADDRESS if it is none.
 */
export function ipBytes(ip: string): Uint8Array {
  if (isIPv4(ip)) return Uint8Array.from(ip.split('.'), Number);
  if (!isIPv6(ip)) throw new GantryError('ADDRESS', `"${ip}" is no IP address`);
  const tail = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(ip);
  const hex = tail === null ? ip : `${tail[1]}${pair(tail[2]!, tail[3]!)}:${pair(tail[4]!, tail[5]!)}`;
  const [left, right] = hex.split('::').map((half) => (half === '' ? [] : half.split(':')));
  const groups =
    right === undefined ? left! : [...left!, ...Array(8 - left!.length - right.length).fill('0'), ...right];
  const bytes = new Uint8Array(16);
  groups.forEach((group, i) => {
    const value = Number.parseInt(group, 16);
    bytes[2 * i] = value >> 8;
    bytes[2 * i + 1] = value;
  });
  return bytes;
}

function pair(high: string, low: string): string {
  return (Number(high) * 256 + Number(low)).toString(16);
}

/** Address bytes, then the port as i32: the host fields of a record. */
export function hostBytes(ip: string, port: number): Uint8Array {
  const address = ipBytes(ip);
  const bytes = new Uint8Array(address.length + 4);
  bytes.set(address);
  new DataView(bytes.buffer).setInt32(address.length, port);
  return bytes;
}
