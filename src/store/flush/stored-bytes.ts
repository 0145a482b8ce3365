// What a store holds of its partition, by the lengths of its files. RocketMQ: DefaultMessageStore#getMajorFileSize.

import type { CommitLog } from '../commit-log/commit-log.ts';
import type { QueueKinds } from '../consume-queue/index.ts';
import type { IndexService } from '../index-file/index.ts';
import type { SegmentFile } from '../segment/index.ts';

/** Bytes of log, queues and index. */
export function storedBytes(log: CommitLog, kinds: QueueKinds, index: IndexService | undefined): number {
  let bytes = log.files.length * log.fileSize + (index?.storedBytes ?? 0);
  for (const queue of kinds.plain.all()) bytes += lengths(queue.files);
  for (const queue of kinds.batch.all()) bytes += lengths(queue.stream.files);
  return bytes;
}

function lengths(files: readonly SegmentFile[]): number {
  let bytes = 0;
  for (const file of files) bytes += file.size;
  return bytes;
}
