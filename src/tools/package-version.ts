// The version of this package, from its package.json, which lies some folders above wherever this file was built to.

import { existsSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** Version of the package, as "0.1.0". */
export function packageVersion(): string {
  let folder = import.meta.dirname;
  while (!existsSync(`${folder}/package.json`) && dirname(folder) !== folder) folder = dirname(folder);
  return (JSON.parse(readFileSync(`${folder}/package.json`, 'utf8')) as { version: string }).version;
}
