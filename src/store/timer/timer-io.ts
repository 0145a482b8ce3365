// The callbacks of a file as promises, for what is written once a second.

import type { FileHandle } from '../../io/index.ts';

export function writeAt(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  return new Promise((resolve, reject) => {
    file.write(bytes, 0, bytes.length, position, (error) => (error === undefined ? resolve() : reject(error)));
  });
}

export function syncFile(file: FileHandle): Promise<void> {
  return new Promise((resolve, reject) => {
    file.sync((error) => (error === undefined ? resolve() : reject(error)));
  });
}
