// Settings that every kind of client has, with their defaults, and what they become. RocketMQ: ClientConfig.

import { homedir, networkInterfaces } from 'node:os';
import { type Clock, GantryError, type Logger, type Random, systemClock, systemRandom } from '../common/index.ts';
import { type FileSystem, nodeFileSystem } from '../io/index.ts';
import { stderrLogger } from './stderr-logger.ts';

/** Settings of a ClientInstance, and so of each producer, consumer and admin client that makes its own. */
export interface ClientOptions {
  /** Name servers as `host:port;host:port`. Default: the environment's NAMESRV_ADDR. */
  namesrvAddr?: string;
  /** Tells clients of one machine apart. Default: process id and a random number; `DEFAULT` for broadcast consumers, whose offsets are kept under it. */
  instanceName?: string;
  /** First part of the client id. Default: the first address of this machine that is not a loopback one. */
  clientIp?: string;
  /** Ms until a request other than a send or a pull fails. Default 3000. */
  requestTimeoutMs?: number;
  /** Ms until an attempt to connect fails. Default 3000. */
  connectTimeoutMs?: number;
  /** Ms between looks for changed routes. Default 30000. */
  pollNameServerIntervalMs?: number;
  /** Ms between heartbeats. Default 30000. */
  heartbeatBrokerIntervalMs?: number;
  /** Ms between saves of consumer offsets. Default 5000. */
  persistConsumerOffsetIntervalMs?: number;
  /** Folder of broadcast consumers' offsets. Default: `.rocketmq_offsets` in the home folder, as Java's. */
  localOffsetStoreDir?: string;
  /** Default: warnings and errors go to standard error. */
  logger?: Logger;
  clock?: Clock;
  random?: Random;
  fs?: FileSystem;
}

/** ClientOptions with every default filled in. */
export interface ClientSettings {
  namesrvAddrs: string[];
  instanceName: string | undefined;
  clientIp: string;
  requestTimeoutMs: number;
  connectTimeoutMs: number;
  pollNameServerIntervalMs: number;
  heartbeatBrokerIntervalMs: number;
  persistConsumerOffsetIntervalMs: number;
  localOffsetStoreDir: string;
  logger: Logger;
  clock: Clock;
  random: Random;
  fs: FileSystem;
}

/**
 * Splits a name server list.
 * @throws GantryError CONFIG_VALUE when there is none or one of them is not `host:port`.
 */
export function parseNamesrvAddr(text: string | undefined): string[] {
  const addresses = (text ?? '')
    .split(';')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  if (addresses.length === 0) {
    throw new GantryError('CONFIG_VALUE', 'no name server: set namesrvAddr ("host:port;host:port") or NAMESRV_ADDR');
  }
  for (const address of addresses) {
    const port = Number(address.slice(address.lastIndexOf(':') + 1));
    if (!address.includes(':') || !Number.isInteger(port) || port < 1 || port > 65_535) {
      throw new GantryError('CONFIG_VALUE', `the name server address "${address}" is not host:port`);
    }
  }
  return addresses;
}

/** The first IPv4 address of this machine that is not a loopback one; 127.0.0.1 if there is none. */
export function localAddress(): string {
  for (const list of Object.values(networkInterfaces())) {
    for (const item of list ?? []) if (item.family === 'IPv4' && !item.internal) return item.address;
  }
  return '127.0.0.1';
}

/** Fills in the defaults. @throws GantryError CONFIG_VALUE */
export function clientSettings(options: ClientOptions): ClientSettings {
  const settings: ClientSettings = {
    namesrvAddrs: parseNamesrvAddr(options.namesrvAddr ?? process.env['NAMESRV_ADDR']),
    instanceName: options.instanceName,
    clientIp: options.clientIp ?? localAddress(),
    requestTimeoutMs: options.requestTimeoutMs ?? 3000,
    connectTimeoutMs: options.connectTimeoutMs ?? 3000,
    pollNameServerIntervalMs: options.pollNameServerIntervalMs ?? 30_000,
    heartbeatBrokerIntervalMs: options.heartbeatBrokerIntervalMs ?? 30_000,
    persistConsumerOffsetIntervalMs: options.persistConsumerOffsetIntervalMs ?? 5000,
    localOffsetStoreDir: options.localOffsetStoreDir ?? `${homedir()}/.rocketmq_offsets`,
    logger: options.logger ?? stderrLogger,
    clock: options.clock ?? systemClock,
    random: options.random ?? systemRandom,
    fs: options.fs ?? nodeFileSystem,
  };
  for (const [name, value] of Object.entries(settings)) {
    if (name.endsWith('Ms') && !(typeof value === 'number' && Number.isFinite(value) && value >= 1)) {
      throw new GantryError('CONFIG_VALUE', `${name} is ${value}; it must be a number of milliseconds, at least 1`);
    }
  }
  return settings;
}
