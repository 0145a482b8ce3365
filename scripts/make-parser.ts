// Makes src/filter/sql92-parser.ts from src/filter/sql92.peggy: `node dist/scripts/make-parser.js`. The file is committed, so that a build
// needs no generator; sql92-parser.test.ts compares the two.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import peggy from 'peggy';

/** The parser's source text, for the repository at `root`. @throws when the grammar is none. */
export function parserSource(root: string): string {
  const grammar = readFileSync(join(root, 'src/filter/sql92.peggy'), 'utf8');
  const parser = peggy.generate(grammar, { output: 'source', format: 'bare' });
  return [
    '// Made by scripts/make-parser.ts from sql92.peggy; not to be edited.',
    '// @ts-nocheck',
    '',
    'export interface GeneratedParser {',
    '  /** The tree of an expression, of which sql92-lexer.ts makes `letters` and `images`. @throws an Error on one that is none. */',
    '  parse(letters: string, options: { images: readonly string[] }): unknown;',
    '}',
    '',
    `export const sql92Parser: GeneratedParser = ${parser.trim()};`,
    '',
  ].join('\n');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  writeFileSync('src/filter/sql92-parser.ts', parserSource('.'));
}
