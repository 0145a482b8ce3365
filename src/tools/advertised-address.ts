// The address that clients are told to connect to. Nothing makes more trouble with RocketMQ than a wrong one, so that the choice is
// made by plain rules, comes with its reason, and is printed at every start.
//
//   1. what brokerIP1 says (a file, --advertise, GANTRY_ADVERTISE), if clients could dial it
//   2. the address that the port listens on, if that is one address
//   3. of the machine's addresses, those of bridges and containers aside: the only one, or the one towards the default route
//   4. the loopback address, with a warning

import { lookup } from 'node:dns/promises';
import { existsSync, readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { GantryError } from '../common/index.ts';

/** An address of this machine. */
export interface LocalAddress {
  readonly name: string;
  readonly address: string;
  readonly internal: boolean;
  readonly bridge: boolean;
  /** The default route leaves here. */
  readonly defaultRoute: boolean;
}

export interface AddressQuestion {
  /** What the port listens on: an address or a host name. */
  readonly listen: string;
  /** What brokerIP1 says, and where it says so. */
  readonly configured: { readonly host: string; readonly from: string } | undefined;
  readonly local: readonly LocalAddress[];
  /** The address of a host name. Rejects if there is none. */
  readonly resolve: (host: string) => Promise<string>;
}

export interface AdvertisedAddress {
  /** As clients are told: an IP address or a host name. */
  readonly host: string;
  /** The IP address behind it, which goes into records. */
  readonly ip: string;
  /** Completes "clients connect to HOST, ...". */
  readonly why: string;
  readonly warning: string | undefined;
}

/** @throws GantryError ADDRESS when what is configured cannot be dialled. */
export async function chooseAdvertisedAddress(question: AddressQuestion): Promise<AdvertisedAddress> {
  const { configured, listen } = question;
  if (configured !== undefined) {
    const ip = await resolveOrRefuse(configured.host, configured.from, question);
    if (isWildcard(ip)) {
      throw new GantryError(
        'ADDRESS',
        `brokerIP1=${configured.host} (${configured.from}) cannot be dialled by clients: name an address or host name of this machine`,
      );
    }
    return { host: configured.host, ip, why: `as ${configured.from} says`, warning: undefined };
  }
  const listenIp = await resolveOrRefuse(listen, 'bindAddress', question);
  if (!isWildcard(listenIp)) {
    const why = isLoopback(listenIp)
      ? 'since the ports listen on this machine only'
      : 'since the ports listen on it only';
    return { host: listen, ip: listenIp, why, warning: undefined };
  }
  return chooseLocal(question.local);
}

async function resolveOrRefuse(host: string, from: string, question: AddressQuestion): Promise<string> {
  const bare = host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host;
  if (isIP(bare) !== 0) return bare;
  try {
    return await question.resolve(bare);
  } catch (error) {
    throw new GantryError(
      'ADDRESS',
      `the host name ${host} (${from}) does not resolve: correct it or give an IP address`,
      {
        cause: error,
      },
    );
  }
}

function chooseLocal(local: readonly LocalAddress[]): AdvertisedAddress {
  const usable = local.filter((a) => !a.internal && !a.bridge && !isLinkLocal(a.address));
  const v4 = usable.filter((a) => isIP(a.address) === 4);
  const candidates = v4.length > 0 ? v4 : usable;
  const chosen = candidates.find((a) => a.defaultRoute) ?? candidates[0];
  if (chosen === undefined) {
    return {
      host: '127.0.0.1',
      ip: '127.0.0.1',
      why: 'since this machine has no other address than those of bridges',
      warning: 'clients on other machines cannot connect: set brokerIP1 to an address that they reach',
    };
  }
  const others = candidates.filter((a) => a !== chosen).map((a) => `${a.address} (${a.name})`);
  const name = `the address of ${chosen.name}`;
  const reach = chosen.defaultRoute ? `${name}, which leads to the default route` : name;
  const why =
    others.length === 0
      ? `the only address of this machine (${chosen.name})`
      : `${reach}; others: ${others.join(', ')}`;
  return { host: chosen.address, ip: chosen.address, why, warning: undefined };
}

export function isLoopback(ip: string): boolean {
  return ip === '::1' || ip.startsWith('127.') || ip.toLowerCase().startsWith('::ffff:127.');
}

export function isWildcard(ip: string): boolean {
  return ip === '0.0.0.0' || ip === '::' || /^[0:]+$/.test(ip);
}

function isLinkLocal(ip: string): boolean {
  return ip.startsWith('169.254.') || /^fe[89ab]/i.test(ip);
}

/** Names that Docker, Podman, Kubernetes networks, libvirt and VMware give to interfaces that clients elsewhere do not reach. */
const BRIDGE_NAMES = /^(docker|br-|virbr|veth|cni|flannel|cali|podman|lxc|lxd|vmnet|vboxnet|kube-|tunl|weave|cilium)/;

/** The addresses of this machine. */
export function localAddresses(): LocalAddress[] {
  const routes = defaultRouteNames();
  const result: LocalAddress[] = [];
  for (const [name, list] of Object.entries(networkInterfaces())) {
    const bridge = BRIDGE_NAMES.test(name) || existsSync(`/sys/class/net/${name}/bridge`);
    for (const { address, internal } of list ?? []) {
      result.push({ name, address, internal, bridge, defaultRoute: routes.has(name) });
    }
  }
  return result;
}

/** Interfaces of the IPv4 default route, as Linux tells. */
function defaultRouteNames(): Set<string> {
  const names = new Set<string>();
  try {
    for (const line of readFileSync('/proc/net/route', 'utf8').split('\n').slice(1)) {
      const [name, destination] = line.split('\t');
      if (name !== undefined && destination === '00000000') names.add(name);
    }
  } catch {
    // Other systems do not have this file; then the order of the interfaces decides.
  }
  return names;
}

/** The system's resolver; an IPv4 address if there is one, as old clients know nothing else. */
export async function resolveHost(host: string): Promise<string> {
  const all = await lookup(host, { all: true });
  return (all.find((entry) => entry.family === 4) ?? all[0]!).address;
}

/** host:port, with brackets around an IPv6 address. */
export function formatAddress(host: string, port: number): string {
  return host.includes(':') && !host.startsWith('[') ? `[${host}]:${port}` : `${host}:${port}`;
}
