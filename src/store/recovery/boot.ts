// Whether the last process of a store ran since the machine came up: then what it wrote is in the system's memory, all of it, and a kill
// has lost nothing that it handed over. `<root>/gantry/boot` names the boot and itself, so that a copy of the folder, taken while
// the broker wrote, is not taken for the original.

import { type FileSystem, readWhole, writeWhole } from '../../io/index.ts';

function pathOf(root: string): string {
  return `${root}/gantry/boot`;
}

function mark(fs: FileSystem, root: string): string | undefined {
  const boot = fs.bootId();
  const file = fs.stat(pathOf(root));
  return boot === undefined || file === undefined ? undefined : `${boot} ${file.id}`;
}

/** True only if the mark of this boot is there. */
export function isSameBoot(fs: FileSystem, root: string): boolean {
  const expected = mark(fs, root);
  const bytes = expected === undefined ? undefined : readWhole(fs, pathOf(root));
  return bytes !== undefined && Buffer.from(bytes).toString('utf8') === expected;
}

/** Leaves the mark of this boot; to be called before anything is written. @throws GantryError IO, DISK_FULL. */
export function markBoot(fs: FileSystem, root: string): void {
  writeWhole(fs, pathOf(root), '');
  const text = mark(fs, root);
  if (text !== undefined) writeWhole(fs, pathOf(root), text);
}
