// What the engine needs of a logger. The command line hands in pino; tests hand in a collecting one.

/** One line per call; `fields` are for machines, the text is for a person. */
export interface Logger {
  debug(text: string, fields?: object): void;
  info(text: string, fields?: object): void;
  warn(text: string, fields?: object): void;
  error(text: string, fields?: object): void;
}

export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** Keeps every line in memory, for tests that ask what was said. */
export class CollectingLogger implements Logger {
  readonly lines: Array<{ level: string; text: string; fields: object | undefined }> = [];
  debug(text: string, fields?: object): void {
    this.lines.push({ level: 'debug', text, fields });
  }
  info(text: string, fields?: object): void {
    this.lines.push({ level: 'info', text, fields });
  }
  warn(text: string, fields?: object): void {
    this.lines.push({ level: 'warn', text, fields });
  }
  error(text: string, fields?: object): void {
    this.lines.push({ level: 'error', text, fields });
  }
  /** All texts of one level, or of all levels. */
  texts(level?: string): string[] {
    return this.lines.filter((line) => level === undefined || line.level === level).map((line) => line.text);
  }
}
