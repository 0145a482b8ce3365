// What a configuration table is made of. One table per role lists every key that RocketMQ 5.5.0 knows there, with type, default,
// unit and a sentence, and says what this broker does with it. Parsing, checks, help and conf/*.conf all come from the tables.

/** A typed value. `null` means that the setting has no value, or one that is worked out at the start. */
export type SettingValue = string | number | boolean | null;

/** A list is an enumeration: these spellings and no others. */
export type SettingType = 'bool' | 'int' | 'long' | 'double' | 'text' | readonly string[];

/**
 * `honoured`: read and obeyed. `later`: RocketMQ's meaning is not there yet; a value other than the default is named in a warning.
 * `moot`: there is nothing here that it could decide (thread pools, mapped memory); named likewise, but nothing is missing.
 */
export type SettingState = 'honoured' | 'later' | 'moot';

/** One key of a configuration file. */
export interface Setting {
  readonly key: string;
  readonly type: SettingType;
  /** Our default. */
  readonly default: SettingValue;
  /** RocketMQ's default, where ours differs. */
  readonly rocketmq?: SettingValue;
  /** Unit of a number: ms, s, h, bytes, %, pages, ... Empty for a plain count or a text. */
  readonly unit: string;
  /** One or two sentences for the operator. */
  readonly text: string;
  readonly state: SettingState;
  /** Least and greatest value of a number. */
  readonly min?: number;
  readonly max?: number;
  /**
   * Present on a setting that decides who may write, who may connect, what is durable or where data lies: a value that does not
   * pass refuses the start, since ignoring it would be a lie.
   */
  readonly guard?: Guard;
  /** May be changed while the broker runs. */
  readonly live?: boolean;
  /** Of the few that `-m` prints. */
  readonly important?: boolean;
}

export interface Guard {
  readonly passes: (value: SettingValue) => boolean;
  /** Completes "KEY=VALUE is not supported: ...". */
  readonly why: string;
}

/** The keys of one RocketMQ configuration class. */
export interface SettingTable {
  /** Name of the part, for headings. */
  readonly part: string;
  readonly settings: readonly Setting[];
}

type Extra = Partial<Pick<Setting, 'rocketmq' | 'min' | 'max' | 'guard' | 'live' | 'important'>>;
type Row = (
  key: string,
  type: SettingType,
  defaultValue: SettingValue,
  unit: string,
  text: string,
  extra?: Extra,
) => Setting;

function row(state: SettingState): Row {
  return (key, type, defaultValue, unit, text, extra) => ({
    key,
    type,
    default: defaultValue,
    unit,
    text,
    state,
    ...extra,
  });
}

/** A setting that is read and obeyed. */
export const honoured: Row = row('honoured');
/** A setting of RocketMQ's whose meaning is not there yet. */
export const later: Row = row('later');
/** A setting of RocketMQ's that has nothing to decide here. */
export const moot: Row = row('moot');

/** A guard that lets only `false` (or no value) pass. */
export function mustBeOff(why: string): Extra {
  return { guard: { passes: (value) => value !== true, why } };
}

/** A guard that lets only `true` (or no value) pass. */
export function mustBeOn(why: string): Extra {
  return { guard: { passes: (value) => value !== false, why } };
}

/** A guard that lets only an empty value pass. */
export function mustBeEmpty(why: string): Extra {
  return { guard: { passes: (value) => value === null || value === '', why } };
}
