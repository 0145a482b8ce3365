// From the command line, the environment and a file to the checked settings of a server.

import { readFileSync } from 'node:fs';
import { homedir, hostname } from 'node:os';
import { resolve } from 'node:path';
import {
  decodeProperties,
  type Override,
  parseAddressList,
  readBrokerSettings,
  readNamesrvSettings,
  type Settings,
  type SettingsFile,
} from '../common/config/index.ts';
import { GantryError } from '../common/index.ts';
import type { LogLevel } from './pino-logger.ts';

/** Options that every server command has. */
export interface ServerOptions {
  configFile?: string;
  host?: string;
  port?: string;
  strict?: boolean;
  printConfigItem?: boolean;
  printImportantConfig?: boolean;
  logJson?: boolean;
  logLevel: LogLevel;
}

export interface BrokerOptions extends ServerOptions {
  namesrvAddr?: string;
  store?: string;
  advertise?: string;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** Reads a configuration file. @throws GantryError CONFIG_FILE */
export function readSettingsFile(path: string): SettingsFile {
  try {
    return { path, text: decodeProperties(readFileSync(path)).text };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    const why =
      code === 'ENOENT'
        ? 'there is no such file'
        : code === 'EISDIR'
          ? 'it is a directory'
          : code === 'EACCES'
            ? 'no permission'
            : code;
    throw new GantryError('CONFIG_FILE', `cannot read the configuration file ${path}: ${why}`, { cause: error });
  }
}

/** The settings of a broker. @throws GantryError CONFIG_FILE, CONFIG_VALUE, CONFIG_UNSUPPORTED */
export function brokerSettings(options: BrokerOptions, environment: Environment): Settings {
  const overrides: Override[] = [];
  const advertise = options.advertise ?? environment['GANTRY_ADVERTISE'];
  if (advertise !== undefined && advertise !== '') {
    const from = options.advertise === undefined ? 'the environment variable GANTRY_ADVERTISE' : '--advertise';
    overrides.push(...splitAdvertised(advertise, from));
  }
  add(overrides, 'bindAddress', options.host, '--host');
  add(overrides, 'listenPort', options.port, '--port');
  add(overrides, 'storePathRootDir', options.store, '--store');
  add(overrides, 'namesrvAddr', options.namesrvAddr, '-n');
  return readBrokerSettings({
    file: options.configFile === undefined ? undefined : readSettingsFile(options.configFile),
    overrides,
    strict: options.strict ?? false,
  });
}

/** The settings of a name server. @throws GantryError CONFIG_FILE, CONFIG_VALUE, CONFIG_UNSUPPORTED */
export function namesrvSettings(options: ServerOptions, portOption = '--port'): Settings {
  const overrides: Override[] = [];
  add(overrides, 'bindAddress', options.host, '--host');
  add(overrides, 'listenPort', options.port, portOption);
  return readNamesrvSettings({
    file: options.configFile === undefined ? undefined : readSettingsFile(options.configFile),
    overrides,
    strict: options.strict ?? false,
  });
}

function add(overrides: Override[], key: string, value: string | undefined, from: string): void {
  if (value !== undefined) overrides.push({ key, value, from });
}

function splitAdvertised(text: string, from: string): Override[] {
  const match = /^(\[[^\]]+\]|[^:]+)(?::(\d+))?$/.exec(text.trim());
  // A bare IPv6 address has more than one colon and no port.
  const host = match?.[1] ?? (text.split(':').length > 2 ? text.trim() : undefined);
  if (host === undefined) {
    throw new GantryError('CONFIG_VALUE', `${from}: ${text} is no address: use HOST or HOST:PORT`);
  }
  const overrides: Override[] = [{ key: 'brokerIP1', value: host.replace(/^\[|\]$/g, ''), from }];
  if (match?.[2] !== undefined) overrides.push({ key: 'gantryAdvertisedPort', value: match[2], from });
  return overrides;
}

/** Directory of the store, absolute. RocketMQ's default counts once there is a file. */
export function storeDirectory(settings: Settings): string {
  const named = settings.text('storePathRootDir');
  return resolve(named ?? (settings.file === undefined ? './gantry-data' : `${homedir()}/store`));
}

/** Name servers to register with, which may be none. NAMESRV_ADDR counts where neither a file nor an option names any. */
export function namesrvAddresses(settings: Settings, environment: Environment): string[] {
  const text = settings.text('namesrvAddr');
  if (text !== undefined) return parseAddressList(text, 'namesrvAddr');
  const fallback = environment['NAMESRV_ADDR'];
  return fallback === undefined ? [] : parseAddressList(fallback, 'the environment variable NAMESRV_ADDR');
}

/** RocketMQ: the host name, or DEFAULT_BROKER. */
export function hostBrokerName(): string {
  return hostname() || 'DEFAULT_BROKER';
}

/** What brokerIP1 says, and where. */
export function configuredAddress(settings: Settings): { host: string; from: string } | undefined {
  const host = settings.text('brokerIP1');
  return host === undefined ? undefined : { host, from: settings.origin('brokerIP1') };
}

/** Prints settings as mqbroker's -p and -m do, on stdout. */
export function printSettings(settings: Settings, which: 'all' | 'important'): void {
  const lines = settings.entries(which).map(([key, value]) => `${key}=${value}\n`);
  process.stdout.write(lines.join(''));
}
