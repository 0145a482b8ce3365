// What a start found and did, for the operator who waited for it and for whoever asks later.

import type { Aside } from './keep-aside.ts';

/** The report of recovery. */
export interface RecoveryReport {
  clean: boolean;
  /** Where the scan began, from where on records were dispatched again, and where the log ends. */
  scannedFrom: number;
  dispatchedFrom: number;
  end: number;
  scannedBytes: number;
  /** Sound records, and how many of them went to the queues and the index again. */
  records: number;
  dispatched: number;
  /** Queues that got records again. */
  queuesRebuilt: number;
  /** Why the scan began where it did. */
  reason: string;
  /** What was wrong at the end of the log, and where its bytes are now. */
  damage: string | undefined;
  aside: Aside | undefined;
  /** Damaged bytes that were replaced, and by how many records (gantryDamagedRecord=skip). */
  skipped: ReadonlyArray<{ offset: number; bytes: number; records: number }>;
  /** Start of the last sound record, -1 if there is none. */
  lastRecord: number;
  /** Milliseconds, from the first look at the files on, and what took them. */
  tookMs: number;
  phases: { queues: number; look: number; index: number; scan: number; sync: number; cut: number };
}

export function emptyReport(clean: boolean): RecoveryReport {
  return {
    clean,
    scannedFrom: 0,
    dispatchedFrom: 0,
    end: 0,
    scannedBytes: 0,
    records: 0,
    dispatched: 0,
    queuesRebuilt: 0,
    reason: '',
    damage: undefined,
    aside: undefined,
    skipped: [],
    lastRecord: -1,
    tookMs: 0,
    phases: { queues: 0, look: 0, index: 0, scan: 0, sync: 0, cut: 0 },
  };
}

/** One line: scanned, kept, cut, rebuilt, and why it took as long as it did. */
export function describeRecovery(report: RecoveryReport): string {
  const { phases } = report;
  const cut = report.aside === undefined ? 'nothing was cut' : `${report.aside.bytes} bytes were cut`;
  const skipped = report.skipped.length === 0 ? '' : `${report.skipped.length} damaged places were skipped, `;
  const rebuilt =
    report.dispatched === 0
      ? 'nothing was missing in the queues and the index'
      : `${report.dispatched} records went to ${report.queuesRebuilt} queues and the index again`;
  const times = Object.entries(phases)
    .filter(([, ms]) => ms >= 1)
    .map(([name, ms]) => `${name} ${Math.round(ms)}`);
  return (
    `the store was opened after ${report.clean ? 'a clean stop' : 'an unclean stop'} in ${Math.round(report.tookMs)} ms ` +
    `(${times.join(', ')}): scanned ${megabytes(report.scannedBytes)} from offset ${report.scannedFrom} on, since ${report.reason}; ` +
    `${report.records} sound records up to ${report.end}, ${cut}, ${skipped}${rebuilt}`
  );
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(bytes < 1e6 ? 2 : 0)} MB`;
}
