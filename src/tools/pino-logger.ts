// The engine's Logger on pino: lines for people by default, JSON for machines. Everything goes to stderr, so that what a command
// prints on stdout can be piped.

import pino from 'pino';
import type { Logger } from '../common/index.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

export interface LogOptions {
  readonly json: boolean;
  readonly level: LogLevel;
}

/** The logger of a server process. It begins by holding its lines back. */
export interface ProcessLogger extends Logger {
  /** Lets lines through from now on, those held back first. */
  release(): void;
  /** Forgets what was held back. */
  drop(): void;
  /** Writes out what waits. */
  flush(): void;
}

/**
 * A start that fails at once says so in one line, and nothing before it; one that takes longer than this shows what it does.
 */
const HOLD_MS = 1000;

/** Characters of a line's text; what a peer called itself may be megabytes long. */
const MAX_TEXT = 2_000;

/** A text as one line that ends: names and texts of peers are quoted in many, and must not look like lines of our own. */
export function oneLine(text: string): string {
  const cut = text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}... (${text.length} characters)` : text;
  return cut.replace(/\p{Cc}|[\u2028\u2029]/gu, (char) =>
    JSON.stringify(char)
      .slice(1, -1)
      .replace(/^[^\\]$/, visible),
  );
}

/** Control characters that JSON leaves as they are. */
function visible(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
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
  let held: string[] | undefined = [];
  const log = pino(
    { level: options.level },
    { write: (line) => (held === undefined ? target.write(line) : held.push(line)) },
  );
  const release = (): void => {
    const lines = held ?? [];
    held = undefined;
    for (const line of lines) target.write(line);
  };
  const timer = setTimeout(release, HOLD_MS);
  timer.unref();
  return {
    debug: (text, fields) => log.debug(fields ?? {}, oneLine(text)),
    info: (text, fields) => log.info(fields ?? {}, oneLine(text)),
    warn: (text, fields) => log.warn(fields ?? {}, oneLine(text)),
    error: (text, fields) => log.error(fields ?? {}, oneLine(text)),
    release: () => {
      clearTimeout(timer);
      release();
    },
    drop: () => {
      clearTimeout(timer);
      if (held !== undefined) held = [];
    },
    flush: () => stderr.flushSync(),
  };
}
