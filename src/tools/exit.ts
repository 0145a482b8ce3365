// How a command ends. Scripts may rely on these codes; README.md has the same table.

import { errorText, GantryError } from '../common/index.ts';

export const ExitCode = {
  /** Done, or stopped by a signal in good order. */
  OK: 0,
  /** It could not start, or what was asked for did not happen. One line on stderr says why. */
  FAILED: 1,
  /** The command line cannot be understood. Nothing was done. */
  USAGE: 2,
} as const;

/** Ends a command with one line on stderr. */
export class CommandFailure extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number = ExitCode.FAILED) {
    super(message);
    this.name = 'CommandFailure';
    this.exitCode = exitCode;
  }
}

/** The one line for an error of any kind. Faults of the program itself keep their stack, since that is what a report needs. */
export function failureLine(error: unknown): string {
  if (error instanceof CommandFailure || error instanceof GantryError) return oneLine(error.message);
  if (error instanceof Error && (error as NodeJS.ErrnoException).code !== undefined) return oneLine(errorText(error));
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

function oneLine(text: string): string {
  return text.replace(/\s*\n\s*/g, ' ');
}

/** Prints the line and gives the exit code. */
export function reportFailure(error: unknown): number {
  process.stderr.write(`gantry: ${failureLine(error)}\n`);
  return error instanceof CommandFailure ? error.exitCode : ExitCode.FAILED;
}
