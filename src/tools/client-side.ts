// What the commands that are clients share.

import type { Logger } from '../common/index.ts';

/** Name servers from an option, the environment, or the one that `gantry start` brings up. */
export function clientAddress(option: string | undefined): string {
  return option ?? process.env['NAMESRV_ADDR'] ?? '127.0.0.1:9876';
}

/** A command prints its failures itself; warnings on the way go to stderr as plain lines. */
export const quietLogger: Logger = {
  debug() {},
  info() {},
  warn: (text) => void process.stderr.write(`gantry: ${text}\n`),
  error: (text) => void process.stderr.write(`gantry: ${text}\n`),
};
