// What decides how a name server answers: the keys of RocketMQ's NamesrvConfig that mean something here (common/config has the whole
// table), and how they are read, shown and changed while it runs (GET_NAMESRV_CONFIG, UPDATE_NAMESRV_CONFIG).

import {
  decodeProperties,
  editProperties,
  NAMESRV_TABLES,
  parseProperties,
  type Settings,
} from '../common/config/index.ts';
import { errorText, GantryError, type Logger } from '../common/index.ts';
import { type FileSystem, readWhole, saveDurably } from '../io/index.ts';
import { ResponseCode } from '../remoting/index.ts';

/** The values in force; changed in place by an update. */
export interface NamesrvConfig {
  /** Put the queue layout of ordered topics into routes. */
  orderMessageEnable: boolean;
  /** Answer a registration with the table of ordered topics. */
  returnOrderTopicConfigToBroker: boolean;
  /** Ms between two looks for brokers that went silent. */
  scanNotActiveBrokerInterval: number;
  /** Show the smallest slave as master while a group has none. */
  supportActingMaster: boolean;
  enableAllTopicList: boolean;
  enableTopicList: boolean;
  /** Tell a group when its smallest broker id changes. */
  notifyMinBrokerIdChanged: boolean;
  /** Answer no route before `waitSecondsForService` seconds have passed. */
  needWaitForService: boolean;
  waitSecondsForService: number;
  deleteTopicWithBrokerRegistration: boolean;
  /** Keys with semicolons that cannot be changed at run time. */
  configBlackList: string;
}

/** RocketMQ's defaults. */
export function defaultNamesrvConfig(): NamesrvConfig {
  return {
    orderMessageEnable: false,
    returnOrderTopicConfigToBroker: true,
    scanNotActiveBrokerInterval: 5_000,
    supportActingMaster: false,
    enableAllTopicList: true,
    enableTopicList: true,
    notifyMinBrokerIdChanged: false,
    needWaitForService: false,
    waitSecondsForService: 45,
    deleteTopicWithBrokerRegistration: false,
    configBlackList: 'configBlackList;configStorePath;kvConfigPath',
  };
}

/** Keys that are fixed whatever `configBlackList` says. */
const ALWAYS_FIXED = ['configBlackList', 'configStorePath', 'kvConfigPath', 'rocketmqHome'];

/** Parts of the tables that RocketMQ lists too; the file may also hold what a controller in the same process needs. */
const OWN_PARTS = ['name server', 'listening side'];

/** Why an update was not made. */
export interface UpdateRefused {
  code: number;
  remark: string;
}

export class NamesrvSettings {
  /** The values in force. The object stays the same. */
  readonly config: NamesrvConfig;
  readonly #settings: Settings;
  readonly #fs: FileSystem;
  readonly #logger: Logger;
  #shown: Readonly<Record<string, string>> = {};

  constructor(settings: Settings, fs: FileSystem, logger: Logger) {
    this.#settings = settings;
    this.#fs = fs;
    this.#logger = logger;
    this.config = settings.fill(defaultNamesrvConfig());
  }

  /** The path that a setting names; undefined if it names none. */
  path(key: 'kvConfigPath' | 'configStorePath'): string | undefined {
    return this.#settings.text(key);
  }

  /** Values that are known only after the start (the port, the file of the KV configuration) and shown in place of the settings'. */
  show(values: Readonly<Record<string, string>>): void {
    this.#shown = values;
  }

  /** The settings of a name server and of its listening side, and all that were given, as `key=value` lines in alphabetical order. */
  list(): string {
    const own = new Set(NAMESRV_TABLES.filter((table) => OWN_PARTS.includes(table.part)).flatMap(keysOf));
    const entries = this.#settings.entries().filter(([key]) => own.has(key) || this.#settings.isGiven(key));
    const all = { ...Object.fromEntries(entries), ...this.#shown };
    return Object.entries(all)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, value]) => `${key}=${value}\n`)
      .join('');
  }

  /**
   * Changes settings, given as properties text: all of them or none, and only their lines in the configuration file.
   * RocketMQ: ignores unknown keys and unreadable values, and writes all settings over the file.
   */
  update(properties: string): UpdateRefused | undefined {
    let changes: Map<string, string>;
    try {
      changes = new Map(parseProperties(properties, 'the request').map((entry) => [entry.key, entry.value]));
    } catch {
      return { code: ResponseCode.SYSTEM_ERROR, remark: 'string2Properties error' };
    }
    const fixed = [...ALWAYS_FIXED, ...this.config.configBlackList.split(';')];
    if (fixed.some((key) => changes.has(key))) {
      return { code: ResponseCode.NO_PERMISSION, remark: 'Can not update config in black list.' };
    }
    const before = new Map<string, string>();
    try {
      for (const [key, value] of changes) this.#change(key, value, before);
      this.#save(changes);
    } catch (error) {
      for (const [key, value] of before) this.#change(key, value, new Map());
      const code = error instanceof GantryError ? error.responseCode : undefined;
      return { code: code ?? ResponseCode.SYSTEM_ERROR, remark: errorText(error) };
    }
    return undefined;
  }

  #change(key: string, text: string, before: Map<string, string>): void {
    const old = this.config[key as keyof NamesrvConfig];
    const value = this.#settings.change(key, text, 'a command');
    before.set(key, String(old));
    if (Object.hasOwn(this.config, key)) (this.config as unknown as Record<string, unknown>)[key] = value;
  }

  #save(changes: ReadonlyMap<string, string>): void {
    const path = this.#settings.file?.path ?? this.path('configStorePath');
    if (path === undefined) {
      this.#logger.warn('settings were changed until the next start only: there is no configuration file');
      return;
    }
    const { text, encoding } = decodeProperties(readWhole(this.#fs, path) ?? new Uint8Array());
    let edited = text;
    for (const [key, value] of changes) edited = editProperties(edited, key, value);
    saveDurably(this.#fs, path.includes('/') ? path : `./${path}`, Buffer.from(edited, encoding));
  }
}

function keysOf(table: { settings: ReadonlyArray<{ key: string }> }): string[] {
  return table.settings.map((setting) => setting.key);
}
