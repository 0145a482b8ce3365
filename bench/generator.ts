// The load generator's own process: `generator.js send|pull|pop|transactions|delays {options as JSON}`. It prints the figures as JSON. A process of its
// own, so that what it costs neither slows the broker nor is counted with it.

import { type DelayOptions, delayLoad } from './delay-load.ts';
import { type PopOptions, popLoad } from './pop-load.ts';
import { type PullOptions, pullLoad } from './pull-load.ts';
import { type SendOptions, sendLoad } from './send-load.ts';
import { type TransactionOptions, transactionLoad } from './transaction-load.ts';

const [command, json] = process.argv.slice(2);
try {
  const options = JSON.parse(json ?? '') as unknown;
  const figures =
    command === 'pull'
      ? await pullLoad(options as PullOptions)
      : command === 'transactions'
        ? await transactionLoad(options as TransactionOptions)
        : command === 'delays'
          ? await delayLoad(options as DelayOptions)
          : command === 'pop'
            ? await popLoad(options as PopOptions)
            : await sendLoad(options as SendOptions);
  process.stdout.write(`${JSON.stringify(figures)}\n`);
  process.exit(0);
} catch (error) {
  process.stderr.write(`generator: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
}
