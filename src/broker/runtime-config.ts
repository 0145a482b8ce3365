// Settings while the broker runs: shown to administrators, and changed by them. A change takes effect in memory and in the file that the
// broker was started with: only that setting's line changes, or one is added; comments and order stay.
//
// RocketMQ: Configuration. It writes every setting, defaults included, over the user's file, and takes unknown names and wrong values.

import { errorText, GantryError, type Logger } from '../common/index.ts';
import { type FileSystem, readWhole, saveDurably } from '../io/index.ts';
import { DataVersion } from './data-version.ts';

/** Settings of which a running broker's parts have taken note already. */
const FIXED: ReadonlySet<string> = new Set([
  'brokerName',
  'brokerClusterName',
  'brokerId',
  'brokerIP1',
  'listenPort',
  'reviveQueueNum',
  'storePathRootDir',
  'storePathCommitLog',
  'mappedFileSizeCommitLog',
  'mappedFileSizeConsumeQueue',
  'flushDiskType',
  'brokerRole',
  'maxHashSlotNum',
  'maxIndexNum',
]);

type Setting = string | number | boolean | null;

/** What `RuntimeConfig` works on. */
export interface RuntimeConfigOptions {
  readonly fs: FileSystem;
  readonly logger: Logger;
  readonly nowMs: number;
  /** The file that the broker was started with; undefined if there was none. */
  readonly path: string | undefined;
  /** The objects that hold the settings; the first that has a name owns it. */
  readonly tables: readonly object[];
  /** Names, with `;` between them, that nobody may change. */
  readonly blackList: string;
}

export class RuntimeConfig {
  readonly dataVersion: DataVersion;
  readonly #options: RuntimeConfigOptions;

  constructor(options: RuntimeConfigOptions) {
    this.#options = options;
    this.dataVersion = new DataVersion(options.nowMs);
  }

  /** All settings, one `name=value` a line, in order of their names. */
  text(): string {
    const names = new Set(this.#options.tables.flatMap((table) => Object.keys(table)));
    const lines = [...names].sort().map((name) => `${name}=${this.#table(name)![name] ?? ''}\n`);
    return lines.join('');
  }

  /**
   * Changes settings, all or none.
   * @throws GantryError CONFIG_VALUE: responseCode 16 for a setting that may not change, 1 for an unknown name or a wrong value;
   * IO or DISK_FULL if the file cannot be saved, with the change in effect until the next start
   */
  update(changes: ReadonlyMap<string, string>, nowMs: number): void {
    const blackList = this.#options.blackList.split(';');
    const ready: Array<{ table: Record<string, Setting>; name: string; value: Setting }> = [];
    for (const [name, text] of changes) {
      if (blackList.includes(name)) throw refusal('Can not update config in black list.', 16);
      const table = this.#table(name);
      if (table === undefined) throw refusal(`the setting ${name} is not known`, 1);
      if (FIXED.has(name)) throw refusal(`the setting ${name} cannot be changed while the broker runs`, 16);
      ready.push({ table, name, value: parseSetting(name, text, table[name] ?? null) });
    }
    for (const { table, name, value } of ready) table[name] = value;
    this.dataVersion.next(nowMs);
    this.#options.logger.info('settings are changed', Object.fromEntries(changes));
    this.#save(changes);
  }

  #table(name: string): Record<string, Setting> | undefined {
    return this.#options.tables.find((table) => Object.hasOwn(table, name)) as Record<string, Setting> | undefined;
  }

  #save(changes: ReadonlyMap<string, string>): void {
    const { path, fs, logger } = this.#options;
    if (path === undefined) {
      logger.warn('the broker was started without a file of settings: the change lasts until it stops');
      return;
    }
    try {
      const old = readWhole(fs, path);
      const text = old === undefined ? '' : Buffer.from(old).toString('utf8');
      saveDurably(fs, path, editProperties(text, changes));
    } catch (error) {
      if (!(error instanceof GantryError)) throw error;
      throw new GantryError(error.code, `in effect until the next start, but ${path}: ${errorText(error)}`, {
        cause: error,
      });
    }
  }
}

function refusal(text: string, responseCode: number): GantryError {
  return new GantryError('CONFIG_VALUE', text, { responseCode });
}

/** The value that `text` means for a setting that now is `current`. */
function parseSetting(name: string, text: string, current: Setting): Setting {
  if (typeof current === 'number') {
    if (!/^-?\d+(\.\d+)?$/.test(text)) throw refusal(`${name}=${text}: a number is expected`, 1);
    return Number(text);
  }
  if (typeof current === 'boolean') {
    if (text !== 'true' && text !== 'false') throw refusal(`${name}=${text}: true or false is expected`, 1);
    return text === 'true';
  }
  return text;
}

/** Properties text as a map; blank lines and comments are passed over. @throws GantryError CONFIG_VALUE for a line without "=". */
export function readProperties(text: string): Map<string, string> {
  const map = new Map<string, string>();
  for (const line of text.split(/\r?\n/)) {
    const trimmed = line.trim();
    if (trimmed === '' || trimmed.startsWith('#') || trimmed.startsWith('!')) continue;
    const at = trimmed.indexOf('=');
    if (at <= 0) throw refusal('string2Properties error', 1);
    map.set(trimmed.slice(0, at).trim(), trimmed.slice(at + 1).trim());
  }
  return map;
}

/** The text with the last line of each changed name replaced, or one added at the end. */
export function editProperties(text: string, changes: ReadonlyMap<string, string>): string {
  const newline = text.includes('\r\n') ? '\r\n' : '\n';
  const lines = text.split(/\r?\n/);
  if (lines.at(-1) === '') lines.pop();
  for (const [name, value] of changes) {
    const index = lines.findLastIndex((line) => {
      const at = line.indexOf('=');
      return at > 0 && line.slice(0, at).trim() === name;
    });
    const line = `${name}=${value}`;
    if (index < 0) lines.push(line);
    else lines[index] = line;
  }
  return lines.join(newline) + newline;
}
