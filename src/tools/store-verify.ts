// gantry store verify and repair: whether a store is whole, byte for byte, and what is derived from the log out of the way where it is not.

import { systemClock } from '../common/index.ts';
import { nodeFileSystem } from '../io/index.ts';
import { defaultStoreConfig, type Fault, repairStore, type StoreReport, verifyStore } from '../store/index.ts';
import { CommandFailure, ExitCode } from './exit.ts';
import { lockStore } from './store-lock.ts';

const PROGRESS_EVERY_MS = 1000;

export interface StoreVerifyOptions {
  storePathCommitLog?: string;
  maxHashSlotNum?: string;
  maxIndexNum?: string;
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
      progress: progressLines(),
      ...(options.storePathCommitLog === undefined ? {} : { commitLog: options.storePathCommitLog }),
    });
    const moved = mends ? repairStore(nodeFileSystem, directory, report) : [];
    process.stdout.write(options.json === true ? `${JSON.stringify({ ...report, moved })}\n` : textOf(report, moved));
    const left = mends ? report.faults.filter((fault) => fault.of === 'log') : report.faults;
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
  const { files, records, start, end, queues, units, lag, indexFiles, indexUnits, faults } = report;
  return [
    `log: ${records} records in ${files} files, ${start} to ${end}`,
    `queues: ${units} units in ${queues} queues${lag === 0 ? '' : `; ${lag} messages have none yet, which a start adds`}`,
    `index: ${indexUnits} units in ${indexFiles} files`,
    ...faults.map((fault) => `damaged: ${faultText(fault)}`),
    ...moved.map(({ from, to }) => `moved: ${from} to ${to}; the next start builds it again`),
    '',
  ].join('\n');
}

function faultText({ file, byte, reason }: Fault): string {
  return `${file}: byte ${byte}: ${reason}`;
}
