// What the commands that are clients share.

import { GantryError, type Logger } from '../common/index.ts';
import { CommandFailure } from './exit.ts';

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

/** Runs a command that talks to servers; one that is not there gets a hint. */
export async function withHints<T>(namesrvAddr: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (!(error instanceof GantryError) || error.code !== 'REMOTING_CONNECT') throw error;
    const isNameServer = namesrvAddr.split(';').some((address) => error.message.includes(address.trim()));
    const hint = isNameServer
      ? 'is a name server running there, as by "gantry start"? -n names another one'
      : 'the broker tells clients to connect there: is it running, and can it be reached from here (brokerIP1, --advertise)?';
    throw new CommandFailure(`${error.message}; ${hint}`);
  }
}

/** Resolves when the reader of stdout has gone. */
export function stdoutClosed(): Promise<void> {
  return new Promise((resolve) => {
    process.stdout.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') resolve();
    });
  });
}
