// Invariants of this process, on in production. Bytes from a disk or a peer never reach an assertion.

/** Thrown when the process finds its own state wrong; the process should stop. */
export class InvariantError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'InvariantError';
  }
}

/** Stops the process's work when an invariant is broken. Keep the message a constant on hot paths. */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new InvariantError(message);
}
