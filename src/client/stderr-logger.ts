// What a client says when nobody handed it a logger: warnings and errors on standard error, so that a wrong address does not fail in
// silence. Pass `silentLogger` for none, or any object of four methods (pino fits).

import type { Logger } from '../common/index.ts';

function line(level: string, text: string): void {
  process.stderr.write(`gantry ${level}: ${text}\n`);
}

/** Writes `warn` and `error` lines to standard error and drops the rest. */
export const stderrLogger: Logger = {
  debug() {},
  info() {},
  warn: (text) => line('warning', text),
  error: (text) => line('error', text),
};
