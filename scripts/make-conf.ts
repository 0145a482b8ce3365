// Writes conf/broker.conf and conf/namesrv.conf from the configuration tables: every honoured key, explained in place.
// Run it after a change of a table: node dist/scripts/make-conf.js

import { writeFileSync } from 'node:fs';
import { BROKER_TABLES, NAMESRV_TABLES, type Setting, type SettingTable } from '../src/common/config/index.ts';

const WIDTH = 110;

/** The other units are the noun of the sentence itself. */
const TOLD_UNITS = ['ms', 's', 'h', '%', 'bytes', 'pages of 4 KiB', 'ms since 1970'];

/** The files by their path in the repository. */
export function renderConfFiles(): Record<string, string> {
  return {
    'conf/broker.conf': render(BROKER_TABLES, [
      'Settings of a broker: gantry broker -c broker.conf, or gantry start -c broker.conf.',
      'Every setting that is honoured stands here with its default; take away the # in front of a line to change it. A broker.conf of RocketMQ is read as it is: keys that are known but not honoured yet are named in a warning, and those that decide who may write, who may connect, what is durable or where data lies refuse the start.',
      'With a file that names no storePathRootDir the store is ~/store, as with RocketMQ.',
    ]),
    'conf/namesrv.conf': render(NAMESRV_TABLES, [
      'Settings of a name server: gantry namesrv -c namesrv.conf.',
      'Every setting that is honoured stands here with its default; take away the # in front of a line to change it. A namesrv.conf of RocketMQ is read as it is.',
    ]),
  };
}

function render(tables: readonly SettingTable[], head: string[]): string {
  const lines = ['# This file is made by scripts/make-conf.ts from src/common/config.', '#', ...head.flatMap(comment)];
  for (const { part, settings } of tables) {
    const honoured = settings.filter((setting) => setting.state === 'honoured');
    if (honoured.length === 0) continue;
    lines.push('', `## ${part}`);
    for (const setting of honoured)
      lines.push('', ...comment(describe(setting)), `#${setting.key}=${setting.default ?? ''}`);
  }
  return `${lines.join('\n')}\n`;
}

function describe(setting: Setting): string {
  const { text, type, min, max, unit, rocketmq, live, guard } = setting;
  const parts = [text];
  if (typeof type !== 'string') parts.push(`One of ${type.filter((name) => guard?.passes(name) ?? true).join(', ')}.`);
  else if (max !== undefined) parts.push(`From ${min} to ${max}.`);
  else if (TOLD_UNITS.includes(unit))
    parts.push(`In ${unit}${min !== undefined && min > 1 ? `, at least ${min}` : ''}.`);
  if (rocketmq !== undefined) parts.push(`RocketMQ's default: ${rocketmq}.`);
  if (live === true) parts.push('Can be changed while running.');
  return parts.join(' ');
}

function comment(text: string): string[] {
  const lines: string[] = [];
  let line = '#';
  for (const word of text.split(' ')) {
    if (line.length + 1 + word.length > WIDTH) {
      lines.push(line);
      line = '#';
    }
    line += ` ${word}`;
  }
  return [...lines, line];
}

if (import.meta.filename === process.argv[1]) {
  const root = import.meta.dirname.replace(/\/(dist|\.build\/[^/]+)\/scripts$/, '');
  for (const [path, text] of Object.entries(renderConfFiles())) writeFileSync(`${root}/${path}`, text);
}
