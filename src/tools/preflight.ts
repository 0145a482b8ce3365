// What is looked at before anything is opened or changed: directory rights and ports. Each failure is one line that names the
// setting, the thing, and the way out.

import * as fs from 'node:fs';
import { createServer } from 'node:net';
import { dirname } from 'node:path';
import { GantryError } from '../common/index.ts';

/** Checks that the store directory can be made or written; nothing is made. @throws GantryError STORE_UNWRITABLE */
export function checkStoreDirectory(path: string, from: string): void {
  const fail = (why: string): never => {
    throw new GantryError(
      'STORE_UNWRITABLE',
      `the store directory ${path} (${from}) ${why}: correct that or use --store DIR`,
    );
  };
  let existing = path;
  let stat = look(existing, fail);
  while (stat === undefined && dirname(existing) !== existing) {
    existing = dirname(existing);
    stat = look(existing, fail);
  }
  if (stat !== undefined && !stat.isDirectory()) {
    fail(existing === path ? 'is not a directory' : `cannot be made: ${existing} is not a directory`);
  }
  try {
    fs.accessSync(existing, fs.constants.R_OK | fs.constants.W_OK | fs.constants.X_OK);
  } catch {
    fail(existing === path ? `cannot be written by ${user()}` : `cannot be made by ${user()} in ${existing}`);
  }
}

function look(path: string, fail: (why: string) => never): fs.Stats | undefined {
  try {
    return fs.statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'ENOTDIR') return undefined;
    return fail(`cannot be looked at: ${code}`);
  }
}

function user(): string {
  return process.getuid === undefined ? 'this user' : `user ${process.getuid()}`;
}

/** A port that is about to be listened on. */
export interface PortQuestion {
  readonly host: string;
  readonly port: number;
  /** "listenPort, broker.conf line 7". */
  readonly from: string;
  /** Option that chooses another port. */
  readonly option: string;
}

/** Listens for a moment. @throws GantryError PORT_TAKEN or ADDRESS */
export async function checkPort(question: PortQuestion): Promise<void> {
  const { host, port } = question;
  if (port === 0) return;
  await new Promise<void>((resolve, reject) => {
    const server = createServer();
    server.once('error', (error) => reject(portError(error, question)));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve()));
  });
}

/** An error of listening as a line for the operator. */
export function portError(error: NodeJS.ErrnoException, question: PortQuestion): GantryError {
  const { host, port, from, option } = question;
  if (error.code === 'EADDRINUSE') {
    return new GantryError(
      'PORT_TAKEN',
      `port ${port} on ${host} (${from}) is in use: stop what listens there or choose another with ${option}`,
      { cause: error },
    );
  }
  if (error.code === 'EACCES') {
    return new GantryError(
      'PORT_TAKEN',
      `port ${port} (${from}) needs rights that ${user()} lacks: choose another with ${option}`,
      {
        cause: error,
      },
    );
  }
  return new GantryError(
    'ADDRESS',
    `cannot listen on ${host}, port ${port}: ${error.code}; bindAddress must be an address of this machine, or 0.0.0.0 for all`,
    { cause: error },
  );
}
