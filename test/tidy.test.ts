// The rules of the tree that a machine can hold: imports point one way and through a folder's door, and what must be handed in (time,
// randomness, the console) is not reached for.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';

/** Lower layers first: a folder imports from those before it only. */
const LAYERS = [
  'common',
  'common/config',
  'io',
  'message',
  'filter',
  'store',
  'remoting',
  'client',
  'namesrv',
  'broker',
  'testing',
  'tools',
  'bin',
];
/** What a folder must not know although it lies below it. */
const STRANGERS: Record<string, string[]> = {
  remoting: ['store', 'filter', 'message', 'io'],
  client: ['store'],
  namesrv: ['store'],
  store: ['filter', 'common/config'],
};
/** Reaches for what is to be handed in. */
const BANNED =
  /\b(Date\.now|setTimeout|setInterval|setImmediate|Math\.random|performance\.now|process\.hrtime|console\.\w+)\b/;
const MAY_REACH = /^src\/(common\/(clock|random)\.ts|tools\/|bin\/)/;

const files = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts') && !/\.test(\.support)?\.ts$/.test(name))
  .map((name) => ({ path: `src/${name}`, text: readFileSync(join('src', name), 'utf8') }));

/** The layer that a file of src belongs to. */
function layerOf(path: string): string {
  const rest = path.replace(/^src\//, '');
  return rest.startsWith('common/config/') ? 'common/config' : rest.slice(0, rest.indexOf('/'));
}

test('imports point one way, and into another folder through its index.ts', () => {
  assert.ok(files.length > 150);
  const wrong: string[] = [];
  for (const { path, text } of files) {
    for (const [, target] of text.matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)) {
      const imported = normalize(join(dirname(path), target!));
      const [from, to] = [layerOf(path), layerOf(imported)];
      if (from === to) continue;
      if (imported !== `src/${to}/index.ts`) wrong.push(`${path} imports ${imported}, not src/${to}/index.ts`);
      if (LAYERS.indexOf(to) < 0 || LAYERS.indexOf(to) > LAYERS.indexOf(from)) wrong.push(`${path} imports from ${to}`);
      if (STRANGERS[from]?.includes(to)) wrong.push(`${path} should know nothing of ${to}`);
    }
  }
  assert.deepEqual(wrong, []);
});

test('time, randomness and the console are handed in', () => {
  const wrong: string[] = [];
  for (const { path, text } of files) {
    if (MAY_REACH.test(path)) continue;
    text.split('\n').forEach((line, i) => {
      const code = line.replace(/^\s*(\/\/|\*|\/\*).*/, '').replace(/\/\/.*/, '');
      const found = BANNED.exec(code);
      if (found !== null) wrong.push(`${path}:${i + 1} ${found[0]}`);
    });
  }
  assert.deepEqual(wrong, []);
});

test('every folder has a door', () => {
  const folders = new Set(files.map(({ path }) => layerOf(path)));
  for (const folder of folders) {
    if (folder === 'bin') continue;
    assert.ok(
      files.some(({ path }) => path === `src/${folder}/index.ts`),
      `src/${folder}/index.ts is missing`,
    );
  }
  for (const folder of folders) assert.ok(LAYERS.includes(folder), `${folder} has no place among the layers`);
});
