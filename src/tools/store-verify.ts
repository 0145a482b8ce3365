// gantry store verify and repair: whether a store is whole, byte for byte, and what is derived from the log out of the way where it is not.

import { systemClock } from '../common/index.ts';
import { nodeFileSystem } from '../io/index.ts';
import { defaultStoreConfig, type Fault, repairStore, type StoreReport, verifyStore } from '../store/index.ts';
import { CommandFailure, ExitCode } from './exit.ts';
import { lockStore } from './store-lock.ts';

const PROGRESS_EVERY_MS = 1000;
/** RocketMQ's timerPrecisionMs. */
const TIMER_PRECISION_MS = 1000;

export interface StoreVerifyOptions {
  storePathCommitLog?: string;
  maxHashSlotNum?: string;
  maxIndexNum?: string;
  messageDelayLevel?: string;
  timerPrecisionMs?: string;
  json?: boolean;
}

/** Prints a report. @throws CommandFailure if there is no such directory, or something is damaged and stays so; GantryError. */
export async function storeVerify(directory: string, options: StoreVerifyOptions, mends: boolean): Promise<number> {
  if (nodeFileSystem.stat(directory)?.isDirectory !== true) throw new CommandFailure(`${directory} is no directory`);
  const lock = mends ? lockStore(directory) : undefined;
  try {
    const config = defaultStoreConfig(directory);
    const report = await verifyStore(nodeFileSystem, directory, {
      maxHashSlotNum: numberOf('maxHashSlotNum', options.maxHashSlotNum) ?? config.maxHashSlotNum,
      maxIndexNum: numberOf('maxIndexNum', options.maxIndexNum) ?? config.maxIndexNum,
      messageDelayLevel: options.messageDelayLevel ?? config.messageDelayLevel,
      timerPrecisionMs: numberOf('timerPrecisionMs', options.timerPrecisionMs) ?? TIMER_PRECISION_MS,
      progress: progressLines(),
      ...(options.storePathCommitLog === undefined ? {} : { commitLog: options.storePathCommitLog }),
    });
    const { moved, left } = mends ? repairStore(nodeFileSystem, directory, report) : { moved: [], left: report.faults };
    process.stdout.write(options.json === true ? `${JSON.stringify({ ...report, moved })}\n` : textOf(report, moved));
    if (left.length > 0) throw new CommandFailure(left.length === 1 ? 'one fault' : `${left.length} faults`);
    return ExitCode.OK;
  } finally {
    lock?.release(true);
  }
}

/** Says on stderr, each second, how far it is. */
function progressLines(): (scanned: number, total: number) => void {
  let toldAt = systemClock.monotonic();
  return (scanned, total) => {
    const now = systemClock.monotonic();
    if (now - toldAt < PROGRESS_EVERY_MS) return;
    toldAt = now;
    process.stderr.write(
      `${Math.round(scanned / 1e6)} of at most ${Math.round(total / 1e6)} MB of the log are looked at\n`,
    );
  };
}

function numberOf(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^[1-9]\d{0,9}$/.test(text)) throw new CommandFailure(`--${name} ${text} is no number`);
  return Number(text);
}

function textOf(report: StoreReport, moved: ReadonlyArray<{ from: string; to: string }>): string {
  const { files, records, start, end, queues, units, extUnits, lag, indexFiles, indexUnits } = report;
  const { timerUnits, timerSlots, compactionRecords, faults, notes } = report;
  const lags = lag === 0 ? '' : `; ${lag} messages have none yet, which a start adds`;
  return [
    `log: ${records} records in ${files} files, ${start} to ${end}`,
    `queues: ${units} units in ${queues} queues${extUnits === 0 ? '' : `, ${extUnits} ext units`}${lags}`,
    `index: ${indexUnits} units in ${indexFiles} files`,
    ...(timerUnits === 0 ? [] : [`timer: ${timerUnits} units, ${timerSlots} slots that are not done`]),
    ...(compactionRecords === 0 ? [] : [`compaction: ${compactionRecords} records`]),
    ...notes.map((note) => `note: ${note}`),
    ...faults.map((fault) => `damaged: ${faultText(fault)}`),
    ...moved.map(({ from, to }) => `moved: ${from} to ${to}; the next start builds it again`),
    '',
  ].join('\n');
}

function faultText({ file, byte, reason }: Fault): string {
  return `${file}: byte ${byte}: ${reason}`;
}
