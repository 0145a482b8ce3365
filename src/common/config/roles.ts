// The roles: which tables each reads from its one file, and the checks that need more than one setting.

import { GantryError } from '../index.ts';
import { AUTH_SETTINGS } from './auth-settings.ts';
import { BROKER_SETTINGS } from './broker-settings.ts';
import { CONTROLLER_SETTINGS, NAMESRV_SETTINGS } from './namesrv-settings.ts';
import { CLIENT_SETTINGS, SERVER_SETTINGS, TLS_SETTINGS } from './remoting-settings.ts';
import type { SettingTable } from './setting.ts';
import { Settings, type SettingsInput } from './settings.ts';
import { STORE_SETTINGS } from './store-settings.ts';

/** What a broker.conf may hold. */
export const BROKER_TABLES: readonly SettingTable[] = [
  BROKER_SETTINGS,
  STORE_SETTINGS,
  SERVER_SETTINGS,
  CLIENT_SETTINGS,
  TLS_SETTINGS,
  AUTH_SETTINGS,
];

/** What a namesrv.conf may hold. */
export const NAMESRV_TABLES: readonly SettingTable[] = [
  NAMESRV_SETTINGS,
  SERVER_SETTINGS,
  CLIENT_SETTINGS,
  TLS_SETTINGS,
  CONTROLLER_SETTINGS,
];

/** Reads and checks the settings of a broker. @throws as Settings. */
export function readBrokerSettings(input: Omit<SettingsInput, 'tables'>): Settings {
  const settings = new Settings({ ...input, tables: BROKER_TABLES });
  checkIdentity(settings);
  checkReplication(settings);
  checkStore(settings);
  checkAddresses(settings, 'namesrvAddr');
  return settings;
}

/** Reads and checks the settings of a name server. @throws as Settings. */
export function readNamesrvSettings(input: Omit<SettingsInput, 'tables'>): Settings {
  return new Settings({ ...input, tables: NAMESRV_TABLES });
}

function refuse(settings: Settings, key: string, why: string): never {
  throw new GantryError('CONFIG_VALUE', `${key}=${settings.value(key)} (${settings.origin(key)}) ${why}`);
}

function checkIdentity(settings: Settings): void {
  for (const key of ['brokerName', 'brokerClusterName']) {
    if (settings.isGiven(key) && settings.text(key) === undefined) refuse(settings, key, 'must not be empty');
  }
  // RocketMQ: BrokerStartup sets 0 for a master without a word, whatever the file says.
  if (settings.number('brokerId') !== 0) {
    settings.warnings.push(
      `brokerId=${settings.value('brokerId')} (${settings.origin('brokerId')}) is taken as 0: a master`,
    );
  }
}

function checkReplication(settings: Settings): void {
  if (settings.value('brokerRole') !== 'SYNC_MASTER') return;
  for (const key of ['inSyncReplicas', 'minInSyncReplicas']) {
    if (settings.number(key) > 1) {
      throw new GantryError(
        'CONFIG_UNSUPPORTED',
        `${key}=${settings.value(key)} (${settings.origin(key)}) with brokerRole=SYNC_MASTER is not supported: no replica can confirm a send; use 1`,
      );
    }
  }
  settings.warnings.push(
    `brokerRole=SYNC_MASTER (${settings.origin('brokerRole')}) with inSyncReplicas=1 waits for no replica, like ASYNC_MASTER`,
  );
}

const INDEX_FILE_HEAD = 40;
const INT_MAX = 2_147_483_647;

function checkStore(settings: Settings): void {
  const length = INDEX_FILE_HEAD + settings.number('maxHashSlotNum') * 4 + settings.number('maxIndexNum') * 20;
  if (length > INT_MAX) {
    const key = settings.isGiven('maxIndexNum') ? 'maxIndexNum' : 'maxHashSlotNum';
    refuse(settings, key, `makes an index file of ${length} bytes: at most ${INT_MAX} are possible`);
  }
  if (!/^\d+[smhd]( \d+[smhd])*$/.test(settings.text('messageDelayLevel') ?? '')) {
    refuse(settings, 'messageDelayLevel', 'is not allowed: use times such as 1s 5m 2h, with one blank between two');
  }
  if (!/^([01]?\d|2[0-3])(;([01]?\d|2[0-3]))*;?$/.test(settings.text('deleteWhen') ?? '')) {
    refuse(settings, 'deleteWhen', 'is not allowed: use hours from 00 to 23, several with a semicolon');
  }
  for (const key of ['storePathRootDir', 'storePathCommitLog']) {
    const path = settings.text(key);
    if (path?.includes('${')) {
      settings.warnings.push(
        `${key}=${path} (${settings.origin(key)}): nothing is put in for \${...}, the name is used as it is`,
      );
    }
  }
}

/** Splits "host:port;host:port". IPv6 addresses stand in brackets. @throws GantryError CONFIG_VALUE. */
export function parseAddressList(text: string, place: string): string[] {
  const addresses = text
    .split(';')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  for (const address of addresses) {
    const colon = address.lastIndexOf(':');
    const host = address.slice(0, Math.max(colon, 0));
    const port = address.slice(colon + 1);
    const bracketed = host.startsWith('[') && host.endsWith(']');
    if (
      host === '' ||
      (host.includes(':') && !bracketed) ||
      !/^\d+$/.test(port) ||
      Number(port) < 1 ||
      Number(port) > 65_535
    ) {
      throw new GantryError(
        'CONFIG_VALUE',
        `${place}: ${address} is no address: use host:port, several with a semicolon`,
      );
    }
  }
  return addresses;
}

function checkAddresses(settings: Settings, key: string): void {
  const text = settings.text(key);
  if (text !== undefined) parseAddressList(text, `${key}=${text} (${settings.origin(key)})`);
}
