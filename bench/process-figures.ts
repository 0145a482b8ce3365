// What the kernel says of a process: CPU time and memory, from /proc. Linux only.

import { readFileSync } from 'node:fs';

/** USER_HZ, which every Linux of today has as 100. */
const TICKS_PER_SECOND = 100;

/** CPU time of a process so far, user and system, in µs. */
export function cpuMicros(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  // The name in parentheses may hold blanks; utime and stime are fields 14 and 15.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return ((Number(fields[11]) + Number(fields[12])) * 1_000_000) / TICKS_PER_SECOND;
}

/** Resident memory of a process in MB (10⁶ bytes): all of it, and what is its own (heap, stacks, buffers). */
export interface Memory {
  rssMb: number;
  anonMb: number;
}

export function memory(pid: number): Memory {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  const kib = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0);
  return { rssMb: (kib('VmRSS') * 1024) / 1e6, anonMb: (kib('RssAnon') * 1024) / 1e6 };
}
