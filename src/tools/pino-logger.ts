// The engine's Logger on pino: lines for people by default, JSON for machines. Everything goes to stderr, so that what a command
// prints on stdout can be piped.

import pino from 'pino';
import type { Logger } from '../common/index.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

export interface LogOptions {
  readonly json: boolean;
  readonly level: LogLevel;
}

/** A logger that must be flushed before the process exits. */
export interface ProcessLogger extends Logger {
  /** Writes out what waits. */
  flush(): void;
}

/** Opens the logger of this process. pino-pretty is loaded only for people. */
export async function openLogger(options: LogOptions): Promise<ProcessLogger> {
  // Asynchronous: a reader of stderr that stalls must not stall the broker.
  const stderr = pino.destination({ fd: 2, sync: false });
  let target: { write(line: string): void } = stderr;
  if (!options.json) {
    const { prettyFactory } = await import('pino-pretty');
    const pretty = prettyFactory({
      colorize: process.stderr.isTTY === true && process.env['NO_COLOR'] === undefined,
      translateTime: 'SYS:HH:MM:ss.l',
      ignore: 'pid,hostname',
      singleLine: true,
    });
    target = { write: (line) => void stderr.write(pretty(line)) };
  }
  const log = pino({ level: options.level }, target);
  return {
    debug: (text, fields) => log.debug(fields ?? {}, text),
    info: (text, fields) => log.info(fields ?? {}, text),
    warn: (text, fields) => log.warn(fields ?? {}, text),
    error: (text, fields) => log.error(fields ?? {}, text),
    flush: () => stderr.flushSync(),
  };
}
