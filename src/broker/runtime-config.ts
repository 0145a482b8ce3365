// Settings while the broker runs: shown to administrators, and changed by them. A change takes effect in memory and in the file that the
// broker was started with: only that setting's line changes, or one is added; comments and order stay.
//
// RocketMQ: Configuration. It writes every setting, defaults included, over the user's file, and takes unknown names and wrong values.

import { decodeProperties, editProperties, parseProperties, type Settings } from '../common/config/index.ts';
import { errorText, GantryError, type Logger } from '../common/index.ts';
import { type FileSystem, readWhole, saveDurably } from '../io/index.ts';
import { DataVersion } from './data-version.ts';

/** What `RuntimeConfig` works on. */
export interface RuntimeConfigOptions {
  readonly fs: FileSystem;
  readonly logger: Logger;
  readonly nowMs: number;
  /** What the broker was started with, and its file. */
  readonly settings: Settings;
  /** The objects that the broker's parts read their settings from. */
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

  /** All settings in force, one `name=value` a line, in order of their names. */
  text(): string {
    const values = new Map(this.#options.settings.entries());
    for (const table of this.#options.tables) {
      for (const [name, value] of Object.entries(table)) if (value !== null) values.set(name, String(value));
    }
    return [...values.keys()]
      .sort()
      .map((name) => `${name}=${values.get(name)}\n`)
      .join('');
  }

  /**
   * Changes settings, all or none; `body` is properties text. Answers their names.
   * @throws GantryError CONFIG_VALUE or CONFIG_UNSUPPORTED: responseCode 16 for a setting that may not change, 1 for an unknown name or
   * a wrong value; IO or DISK_FULL if the file cannot be saved, with the change in effect until the next start
   */
  update(body: Uint8Array, from: string, nowMs: number): string[] {
    const changes = parseProperties(decodeProperties(body).text, 'the request');
    const blackList = this.#options.blackList.split(';');
    if (changes.some(({ key }) => blackList.includes(key))) {
      throw new GantryError('CONFIG_UNSUPPORTED', 'Can not update config in black list.', { responseCode: 16 });
    }
    this.#takeOver(changes, from);
    this.dataVersion.next(nowMs);
    this.#options.logger.info(
      'settings are changed',
      Object.fromEntries(changes.map(({ key, value }) => [key, value])),
    );
    this.#save(changes);
    return changes.map(({ key }) => key);
  }

  #takeOver(changes: ReadonlyArray<{ key: string; value: string }>, from: string): void {
    const { settings, tables } = this.#options;
    const undo: Array<{ key: string; value: string; origin: string }> = [];
    const typed = new Map<string, string | number | boolean | null>();
    try {
      for (const { key, value } of changes) {
        const before = settings.knows(key) ? String(settings.value(key) ?? '') : '';
        const origin = settings.knows(key) ? settings.origin(key) : '';
        typed.set(key, settings.change(key, value, from));
        undo.push({ key, value: before, origin });
      }
    } catch (error) {
      for (const { key, value, origin } of undo.reverse()) settings.change(key, value, origin);
      throw error;
    }
    for (const [key, value] of typed) {
      for (const table of tables) {
        if (Object.hasOwn(table, key)) (table as Record<string, unknown>)[key] = value;
      }
    }
  }

  #save(changes: ReadonlyArray<{ key: string; value: string }>): void {
    const { settings, fs, logger } = this.#options;
    const path = settings.file?.path;
    if (path === undefined) {
      logger.warn('the broker was started without a file of settings: the change lasts until it stops');
      return;
    }
    try {
      const { text, encoding } = decodeProperties(readWhole(fs, path) ?? new Uint8Array(0));
      const edited = changes.reduce((before, { key, value }) => editProperties(before, key, value), text);
      saveDurably(fs, path, Buffer.from(edited, encoding));
    } catch (error) {
      if (!(error instanceof GantryError)) throw error;
      throw new GantryError(error.code, `in effect until the next start, but not saved: ${errorText(error)}`, {
        cause: error,
      });
    }
  }
}
