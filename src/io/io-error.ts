// Failures of the real disk as GantryError.

import { GantryError } from '../common/index.ts';

/** DISK_FULL when there is no space, IO for all else; `action` and `path` name what failed. */
export function ioError(error: unknown, action: string, path: string): GantryError {
  const code = (error as NodeJS.ErrnoException).code;
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return new GantryError('DISK_FULL', `no space left while trying to ${action} ${path}`, { cause: error });
  }
  return new GantryError('IO', `cannot ${action} ${path}: ${code ?? String(error)}`, { cause: error });
}
