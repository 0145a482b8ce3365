// Signals that ask a process to end.

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
const NUMBERS: Readonly<Record<(typeof SIGNALS)[number], number>> = { SIGINT: 2, SIGTERM: 15, SIGHUP: 1 };

/** Resolves with the first signal. A second one ends the process at once, with 128 + its number as any shell would say. */
export function untilSignal(): Promise<string> {
  return new Promise((resolve) => {
    let seen = false;
    for (const signal of SIGNALS) {
      process.on(signal, () => {
        if (seen) process.exit(128 + NUMBERS[signal]);
        seen = true;
        resolve(signal);
      });
    }
  });
}
