// The table that a person reads: medians of A and B with their spread, and the ratio of the medians.

import type { Figures } from './workloads.ts';

/** The figures of all rounds of one workload against both brokers. */
export interface WorkloadResult {
  name: string;
  title: string;
  /** Rounds against the Java broker; empty if there is none. */
  java: Figures[];
  gantry: Figures[];
}

/** One line of the table. */
export interface Line {
  figure: string;
  java: Spread | undefined;
  gantry: Spread | undefined;
  /** Gantry by Java, of the medians. */
  ratio: number | undefined;
}

/** A figure over the rounds. */
export interface Spread {
  median: number;
  min: number;
  max: number;
}

export function spread(values: readonly number[]): Spread | undefined {
  if (values.length === 0) return undefined;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const median = sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
  return { median, min: sorted[0]!, max: sorted.at(-1)! };
}

/** A line for each figure that any round has. */
export function linesOf(result: WorkloadResult): Line[] {
  const names = new Set([...result.java, ...result.gantry].flatMap((figures) => Object.keys(figures)));
  return [...names].map((figure) => {
    const of = (rounds: readonly Figures[]) =>
      spread(rounds.map((round) => round[figure]).filter((value) => value !== undefined));
    const java = of(result.java);
    const gantry = of(result.gantry);
    const ratio =
      java !== undefined && gantry !== undefined && java.median > 0 ? gantry.median / java.median : undefined;
    return { figure, java, gantry, ratio };
  });
}

/** The table as text. */
export function table(results: readonly WorkloadResult[]): string {
  const rows: string[][] = [['', 'A: Java 5.5.0', 'B: Gantry', 'B/A']];
  for (const result of results) {
    rows.push([`${result.name}: ${result.title}`]);
    for (const line of linesOf(result)) {
      const ratio = line.ratio === undefined ? '-' : line.ratio.toPrecision(3);
      rows.push([`  ${line.figure}`, cell(line.java), cell(line.gantry), ratio]);
    }
  }
  const widths = [0, 1, 2, 3].map((column) =>
    Math.max(...rows.filter((row) => row.length > 1).map((row) => row[column]!.length)),
  );
  return rows
    .map((row) =>
      row
        .map((text, i) => (row.length === 1 || i === 0 ? text.padEnd(widths[0]!) : text.padStart(widths[i]! + 2)))
        .join(''),
    )
    .join('\n');
}

function cell(value: Spread | undefined): string {
  if (value === undefined) return '-';
  const middle = short(value.median);
  return value.min === value.max ? middle : `${middle} (${short(value.min)} to ${short(value.max)})`;
}

function short(value: number): string {
  if (value === 0) return '0';
  if (value >= 10_000) return Math.round(value).toLocaleString('en-US');
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}
