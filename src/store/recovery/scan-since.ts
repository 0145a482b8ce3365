// Reads the log's newest records again, for who remembers what they say (the broker's window of sends).

import type { Clock, Logger } from '../../common/index.ts';
import { type RecordView, Verify } from '../../message/index.ts';
import type { SegmentFile } from '../segment/index.ts';
import type { DeletedTopics } from './deleted-topics.ts';
import { topicOf } from './queue-trails.ts';
import { startByTime } from './recover.ts';
import { scanLog, scanProgress } from './scan-log.ts';

export interface ScanSinceOptions {
  files: readonly SegmentFile[];
  /** End of what is in the files. */
  end: number;
  /** Store time from which on records are shown. */
  since: number;
  visit: (bytes: Uint8Array, record: RecordView) => void;
  deleted: DeletedTopics;
  clock: Clock;
  logger: Logger;
}

/** Shows the records stored at `since` or later, but for those of topics' earlier lives. Damaged ones end it: recovery has dealt with them. */
export async function scanSince(options: ScanSinceOptions): Promise<void> {
  const { files, end, since, visit, deleted, clock, logger } = options;
  if (files.length === 0 || end <= files[0]!.base) return;
  const from = startByTime(files, since - 1);
  await scanLog({
    files,
    first: files.findIndex((file) => file.base === from),
    to: end,
    verify: Verify.STRUCTURE,
    visit: (bytes, record) => {
      if (record.storeTimestamp < since) return;
      if (deleted.isEmpty || record.physicalOffset >= deleted.endOf(topicOf(bytes, record))) visit(bytes, record);
    },
    progress: scanProgress(clock, logger, end - from, 'the last sends are read'),
  });
}
