// Operating failures are one family with stable codes; match on `code`, never on the text.
// Expected outcomes (a put refused, nothing to pull) are values, and broken invariants are assertions (assert.ts).

/** Every code that a GantryError can carry, with what it means. */
export const ErrorCode = {
  NUMBER_RANGE: 'a 64-bit value is outside the exact range of a number',
  IO: 'the operating system refused a file operation',
  DISK_FULL: 'no space left on the device',
  FSYNC_FAILED: 'a sync of the CommitLog failed; the store takes no more writes',
  STORE_LOCKED: 'another process holds the store',
  STORE_FILE_SIZE: "a store file's length differs from the configured size",
  STORE_DAMAGED: 'a store file is damaged in a way that the start may not repair by itself',
  REMOVED: 'a message was removed by retention while it was being read',
  STORE_CLOSED: 'the store is closed',
  STORE_UNWRITABLE: 'the store directory cannot be written',
  CONFIG_FILE: 'a configuration or state file cannot be read',
  CONFIG_VALUE: 'a setting has a value that is not allowed',
  CONFIG_UNSUPPORTED: 'a setting asks for something that is not supported and may not be ignored',
  PORT_TAKEN: 'a listening port is in use',
  ADDRESS: 'an address cannot be used',
  FRAME: 'a peer sent a frame that cannot be decoded',
  HEADER: 'a request header field is missing or cannot be read',
  JSON: 'a text that should be JSON is not',
  SUBSCRIPTION: 'a subscription expression cannot be understood',
  BODY: 'a request body is missing or cannot be read',
  MESSAGE: 'a message cannot be encoded or decoded',
  REMOTING_CONNECT: 'no connection to the peer',
  REMOTING_TIMEOUT: 'the peer did not answer in time',
  REMOTING_CLOSED: 'the connection was closed before the answer came',
  RESPONSE: 'the peer answered with an error code',
  NO_ROUTE: 'no route to the topic',
  CLIENT_STATE: 'the client is not in a state that allows this call',
} as const;

export type ErrorCode = keyof typeof ErrorCode;

/** An operating failure. `code` is stable; `responseCode` is what a remoting client is answered, when it matters. */
export class GantryError extends Error {
  readonly code: ErrorCode;
  readonly responseCode: number | undefined;

  constructor(code: ErrorCode, message: string, options: { cause?: unknown; responseCode?: number } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'GantryError';
    this.code = code;
    this.responseCode = options.responseCode;
  }
}

/** The text of anything that was thrown, for one log line. */
export function errorText(error: unknown): string {
  if (error instanceof Error) return error.message;
  try {
    return String(error);
  } catch {
    return 'something without a text';
  }
}
