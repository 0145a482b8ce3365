// gantry config explain KEY: what a setting means, what it is here, and why.

import { allowedValues, nearestName, type Setting } from '../common/config/index.ts';
import { CommandFailure } from './exit.ts';
import { brokerSettings, namesrvSettings } from './server-settings.ts';

export interface ExplainOptions {
  configFile?: string;
  namesrv?: boolean;
  json?: boolean;
}

const STATES: Readonly<Record<Setting['state'], string>> = {
  honoured: 'yes',
  later: 'not yet',
  moot: 'it has nothing to decide here',
};

/** @throws CommandFailure for an unknown key, GantryError for a file with faults. */
export function explain(key: string, options: ExplainOptions): string {
  const file = options.configFile === undefined ? {} : { configFile: options.configFile };
  const settings =
    options.namesrv === true
      ? namesrvSettings({ ...file, logLevel: 'info' })
      : brokerSettings({ ...file, logLevel: 'info' }, {});
  if (!settings.knows(key)) {
    const near = nearestName(key, settings.keys());
    throw new CommandFailure(`${key} is not a setting${near === undefined ? '' : `; did you mean ${near}?`}`);
  }
  const setting = settings.setting(key);
  const facts = {
    key,
    value: settings.value(key),
    source: settings.origin(key),
    default: setting.default,
    ...(setting.rocketmq === undefined ? {} : { rocketmqDefault: setting.rocketmq }),
    allowed: allowedValues(setting),
    honoured: STATES[setting.state],
    changeable: setting.live === true ? 'while running' : 'at a start',
    meaning: setting.text,
  };
  if (options.json === true) return `${JSON.stringify(facts)}\n`;
  return Object.entries(facts)
    .map(([name, value]) => `${name.padEnd(16)}${value ?? '(none)'}\n`)
    .join('');
}
