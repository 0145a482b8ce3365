// Runs the built tests: `npm test`, or `npm test -- store` for the files whose path holds a word. (Node 20 takes no patterns.)

import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const dist = dirname(dirname(fileURLToPath(import.meta.url)));
const words = process.argv.slice(2);

const files = readdirSync(dist, { recursive: true, encoding: 'utf8' })
  .map((file) => join(dist, file))
  .filter((file) => file.endsWith('.test.js') && !file.includes(join('test', 'interop')))
  .filter((file) => words.length === 0 || words.some((word) => relative(dist, file).includes(word)))
  .sort();
if (files.length === 0) {
  console.error(`no test file matches ${words.join(' ')}`);
  process.exit(2);
}
const reporter = process.stdout.isTTY ? 'spec' : 'tap';
const run = spawnSync(process.execPath, ['--test', `--test-reporter=${reporter}`, ...files], { stdio: 'inherit' });
process.exit(run.status ?? 1);
