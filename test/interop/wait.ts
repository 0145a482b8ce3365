// Waiting for a condition, never for a time: the only clock of the interop suite. Limits are generous, because they only
// end what has already failed; the machine may be busy.

import { setTimeout as delay } from 'node:timers/promises';

/** A wait that ended without its condition, or a child that did not do what it should. */
export class InteropError extends Error {
  override name = 'InteropError';
}

/** Asks `condition` until it answers something other than undefined and false, and returns that; throws after `limitMs`. */
export async function until<T>(
  what: string,
  condition: () => T | undefined | false | Promise<T | undefined | false>,
  limitMs = 90_000,
): Promise<T> {
  const end = performance.now() + limitMs;
  for (;;) {
    const value = await condition();
    if (value !== undefined && value !== false) return value;
    if (performance.now() > end) throw new InteropError(`waited ${limitMs / 1000} s in vain for: ${what}`);
    await delay(50);
  }
}

/** The outcome of `promise`, or an error that names `what` after `limitMs`. */
export async function within<T>(what: string, promise: Promise<T>, limitMs: number): Promise<T> {
  const stop = new AbortController();
  const limit = delay(limitMs, undefined, { signal: stop.signal }).then(
    () => {
      throw new InteropError(`took longer than ${limitMs / 1000} s: ${what}`);
    },
    () => new Promise<never>(() => {}),
  );
  try {
    return await Promise.race([promise, limit]);
  } finally {
    stop.abort();
  }
}
