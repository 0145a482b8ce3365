// What a role runs with: the defaults of its tables, what a file says, and what the command line or the environment says over it.
// Everything that is wrong is found here, before anything is opened.

import { GantryError } from '../index.ts';
import { nearestName } from './nearest.ts';
import { type PropertyEntry, parseProperties } from './properties.ts';
import type { Setting, SettingTable, SettingValue } from './setting.ts';
import { allowedValues, parseValue } from './value.ts';

/** A configuration file: the path as the user wrote it, and its text. */
export interface SettingsFile {
  readonly path: string;
  readonly text: string;
}

/** A value from outside the file. `from` names the place for messages: "--port", "the environment variable NAMESRV_ADDR". */
export interface Override {
  readonly key: string;
  readonly value: string;
  readonly from: string;
}

export interface SettingsInput {
  readonly tables: readonly SettingTable[];
  readonly file?: SettingsFile | undefined;
  readonly overrides?: readonly Override[];
  /** Refuse unknown keys instead of warning. */
  readonly strict?: boolean;
}

interface Given {
  readonly value: SettingValue;
  /** "broker.conf line 7", "--port". */
  readonly from: string;
}

/** Checked settings of one role. */
export class Settings {
  /** What the operator should know, a line each. */
  readonly warnings: string[] = [];
  readonly file: SettingsFile | undefined;
  readonly #known: Map<string, Setting>;
  readonly #tables: readonly SettingTable[];
  readonly #given = new Map<string, Given>();

  /**
   * Reads and checks all settings.
   * @throws GantryError CONFIG_FILE for a text that is no properties file, CONFIG_VALUE for a value that is not allowed (the text
   * names key, value, place and what is allowed), CONFIG_UNSUPPORTED for one that a guard refuses.
   */
  constructor(input: SettingsInput) {
    this.#tables = input.tables;
    this.#known = knownSettings(input.tables);
    this.file = input.file;
    if (input.file !== undefined) this.#readFile(input.file, input.strict ?? false);
    for (const { key, value, from } of input.overrides ?? []) this.#set(key, value, from);
    for (const [key, given] of this.#given) this.#guard(key, given);
  }

  /** The value in force. */
  value(key: string): SettingValue {
    const given = this.#given.get(key);
    return given === undefined ? this.setting(key).default : given.value;
  }

  /** The value in force as a text; undefined if there is none or it is empty. */
  text(key: string): string | undefined {
    const value = this.value(key);
    return value === null || value === '' ? undefined : String(value);
  }

  number(key: string): number {
    return Number(this.value(key) ?? 0);
  }

  isGiven(key: string): boolean {
    return this.#given.has(key);
  }

  /** Where the value comes from: "broker.conf line 7", "--port", or "default". */
  origin(key: string): string {
    return this.#given.get(key)?.from ?? 'default';
  }

  /** Whether a table has the key. */
  knows(key: string): boolean {
    return this.#known.has(key);
  }

  /** All keys. */
  keys(): Iterable<string> {
    return this.#known.keys();
  }

  /** The row of the table. @throws RangeError for a key that no table has. */
  setting(key: string): Setting {
    const setting = this.#known.get(key);
    if (setting === undefined) throw new RangeError(`no table has the setting ${key}`);
    return setting;
  }

  /** `defaults` with every field that was given replaced. Fields that no table knows stay. */
  fill<T extends object>(defaults: T): T {
    const result: T = { ...defaults };
    for (const key of Object.keys(defaults) as Array<keyof T & string>) {
      const given = this.#given.get(key);
      if (given !== undefined) result[key] = given.value as T[keyof T & string];
    }
    return result;
  }

  /** Every key with its value in force, in the order of the tables; those without a value are left out. */
  entries(which: 'all' | 'important' = 'all'): Array<[key: string, value: string]> {
    const result: Array<[string, string]> = [];
    const seen = new Set<string>();
    for (const table of this.#tables) {
      for (const { key, important } of table.settings) {
        if (seen.has(key) || (which === 'important' && important !== true)) continue;
        seen.add(key);
        const value = this.value(key);
        if (value !== null) result.push([key, String(value)]);
      }
    }
    return result;
  }

  /**
   * Checks a change while the broker runs and takes it over; the caller saves it (`editProperties`).
   * @throws GantryError CONFIG_VALUE (response code 1) for an unknown key or a value that is not allowed, CONFIG_UNSUPPORTED
   * (response code 16, NO_PERMISSION) for a setting that only a start reads or that is not honoured.
   */
  change(key: string, text: string, from: string): SettingValue {
    const setting = this.#known.get(key);
    if (setting === undefined) {
      throw new GantryError('CONFIG_VALUE', `${key} is not a setting${this.#hint(key)}`, { responseCode: 1 });
    }
    const value = parseValue(setting, text);
    if (value === undefined) {
      throw new GantryError('CONFIG_VALUE', `${key}=${text} is not allowed: use ${allowedValues(setting)}`, {
        responseCode: 1,
      });
    }
    if (setting.live !== true) {
      const why = setting.state === 'honoured' ? 'it is read at the start only' : 'it is not honoured';
      throw new GantryError('CONFIG_UNSUPPORTED', `${key} cannot be changed while the broker runs: ${why}`, {
        responseCode: 16,
      });
    }
    this.#given.set(key, { value, from });
    return value;
  }

  #readFile(file: SettingsFile, strict: boolean): void {
    const last = new Map<string, PropertyEntry>();
    const repeated: string[] = [];
    for (const entry of parseProperties(file.text, file.path)) {
      const earlier = last.get(entry.key);
      if (earlier !== undefined) repeated.push(`${entry.key} (lines ${earlier.line} and ${entry.line})`);
      last.set(entry.key, entry);
    }
    const unknown: string[] = [];
    const empty: string[] = [];
    const later: string[] = [];
    const moot: string[] = [];
    for (const { key, value, line } of last.values()) {
      const setting = this.#known.get(key);
      if (setting === undefined) {
        unknown.push(`${key} (line ${line}${this.#hint(key)})`);
        continue;
      }
      if (value.trim() === '' && setting.type !== 'text') {
        empty.push(`${key} (line ${line})`);
        continue;
      }
      const typed = this.#set(key, value, `${file.path} line ${line}`);
      if (typed === (setting.rocketmq ?? setting.default) || setting.state === 'honoured') continue;
      if (typed === '' && setting.default === null) continue;
      (setting.state === 'later' ? later : moot).push(`${key}=${typed}`);
    }
    if (strict && unknown.length > 0) {
      throw new GantryError('CONFIG_VALUE', `${file.path}: unknown settings: ${unknown.join(', ')}`);
    }
    if (unknown.length > 0) this.warnings.push(`${file.path}: unknown settings, ignored: ${unknown.join(', ')}`);
    const clauses: string[] = [];
    if (later.length > 0) clauses.push(`settings that are not honoured yet: ${later.join(', ')}`);
    if (moot.length > 0) clauses.push(`settings that have nothing to decide here: ${moot.join(', ')}`);
    if (clauses.length > 0) this.warnings.push(`${file.path}: ${clauses.join('; ')}`);
    if (repeated.length > 0) {
      this.warnings.push(`${file.path}: given more than once, the last one counts: ${repeated.join(', ')}`);
    }
    if (empty.length > 0) this.warnings.push(`${file.path}: without a value, the default counts: ${empty.join(', ')}`);
  }

  #set(key: string, text: string, from: string): SettingValue {
    const setting = this.setting(key);
    const value = parseValue(setting, text);
    if (value === undefined) {
      const place = from.startsWith('-') ? `${from} ${text}` : `${key}=${text} (${from})`;
      throw new GantryError('CONFIG_VALUE', `${place} is not allowed: use ${allowedValues(setting)}`);
    }
    this.#given.set(key, { value, from });
    return value;
  }

  #guard(key: string, given: Given): void {
    const { guard } = this.setting(key);
    if (guard === undefined || guard.passes(given.value)) return;
    throw new GantryError(
      'CONFIG_UNSUPPORTED',
      `${key}=${given.value} (${given.from}) is not supported: ${guard.why}; remove the setting or use a RocketMQ broker`,
    );
  }

  #hint(key: string): string {
    const name = nearestName(key, this.#known.keys());
    return name === undefined ? '' : `; did you mean ${name}?`;
  }
}

/** Key to row. Where two tables have a key, an honoured row wins, then the earlier one. */
function knownSettings(tables: readonly SettingTable[]): Map<string, Setting> {
  const known = new Map<string, Setting>();
  for (const table of tables) {
    for (const setting of table.settings) {
      const earlier = known.get(setting.key);
      if (earlier === undefined || (earlier.state !== 'honoured' && setting.state === 'honoured')) {
        known.set(setting.key, setting);
      }
    }
  }
  return known;
}
