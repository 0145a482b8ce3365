// gantry replay GROUP: the dead letters of a consumer group are sent again, with their ids and keys.

import { replayDeadLetters } from '../client/index.ts';
import { clientAddress, quietLogger, withHints } from './client-side.ts';
import { ExitCode } from './exit.ts';

export interface ReplayCommandOptions {
  namesrvAddr?: string;
  to?: string;
  count?: number;
  quiet?: boolean;
}

export async function replay(group: string, options: ReplayCommandOptions): Promise<number> {
  const namesrvAddr = clientAddress(options.namesrvAddr);
  const count = await withHints(namesrvAddr, () =>
    replayDeadLetters({
      namesrvAddr,
      group,
      logger: quietLogger,
      ...(options.to === undefined ? {} : { topic: options.to }),
      ...(options.count === undefined ? {} : { count: options.count }),
      onSent(message, { queue, queueOffset }) {
        if (options.quiet === true) return;
        process.stdout.write(
          `${message.msgId}  ${queue.topic} ${queue.brokerName} queue ${queue.queueId} offset ${queueOffset}\n`,
        );
      },
    }),
  );
  process.stderr.write(`gantry: ${count} dead letters of ${group} were sent again\n`);
  return ExitCode.OK;
}
