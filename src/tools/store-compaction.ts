// gantry store compaction: what the compaction logs of a store hold, and whether it is whole.

import { nodeFileSystem } from '../io/index.ts';
import { type CompactionFault, type CompactionReport, verifyCompaction } from '../store/index.ts';
import { CommandFailure, ExitCode } from './exit.ts';

/** Prints a report for each log. @throws CommandFailure if there is no such directory, or something is damaged; GantryError. */
export function storeCompaction(directory: string, json: boolean): number {
  if (nodeFileSystem.stat(directory)?.isDirectory !== true) throw new CommandFailure(`${directory} is no directory`);
  let faults = 0;
  for (const report of verifyCompaction(nodeFileSystem, directory)) {
    faults += report.faults.length;
    process.stdout.write(
      json ? `${JSON.stringify({ ...report, faults: report.faults.map(faultText) })}\n` : textOf(report),
    );
  }
  if (faults > 0) throw new CommandFailure(faults === 1 ? 'one fault' : `${faults} faults`);
  return ExitCode.OK;
}

function textOf({ topic, queueId, files, compactedTo, faults }: CompactionReport): string {
  const records = files.reduce((sum, file) => sum + file.records, 0);
  const head = `${topic} queue ${queueId}: ${records} records in ${files.length} files, compacted ${compactedTo < 0 ? 'never' : `up to message ${compactedTo}`}`;
  const rows = files.map(({ name, records: count, bytes, firstOffset, lastOffset }) =>
    count === 0
      ? `  ${name}  empty`
      : `  ${name}  ${count} records, ${bytes} bytes, messages ${firstOffset} to ${lastOffset}`,
  );
  return [head, ...rows, ...faults.map((fault) => `  damaged: ${faultText(fault)}`), ''].join('\n');
}

function faultText({ file, byte, reason }: CompactionFault): string {
  return `${file}: byte ${byte}: ${reason}`;
}
