// Records that were whole and durable, and are not any more. A log simply ends at its first bad record after a crash (a torn tail); but below
// what was synced a bad record is damage of the medium, and what stands behind it is not to be thrown away with it.
//
//   |== sound ==|xx bad xx|== sound ==|== sound ==|~~~~ written, not synced ~~~~|
//                                                 ^ durable: our own mark; in a store that Java left, the last record that was
//               damage: refuse, cut or skip         stored by checkpoint.physicMsgTimestamp     torn tail: cut
//
// Looked at before anything is changed, so that a start that is refused leaves every file as it was. RocketMQ: cuts the log at the
// first bad record, whatever stands behind it (the policy `cut`).

import { type Clock, GantryError, type Logger } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import type { RecordView, Verify } from '../../message/index.ts';
import type { Durable, StoreCheckpoint } from '../checkpoint/index.ts';
import type { ConsumeQueueStore } from '../consume-queue/index.ts';
import { type SegmentFile, segmentAt } from '../segment/index.ts';
import type { MessageStoreConfig } from '../store-config.ts';
import { type Placeholder, placeholdersFor } from './placeholders.ts';
import { QueueTrails } from './queue-trails.ts';
import { bytesAt, type DamagedRun, damagedRun, nextSound, recordLike } from './resync.ts';
import { scanLog, scanProgress } from './scan-log.ts';
import type { ShareParser } from './share-parser.ts';
import { endSkip, plannedSkip, skipRuns, writePlanned } from './skip-damage.ts';

/** In a store that Java left: so far behind bad bytes a sound record is looked for that proves them durable. */
const SEARCH_BYTES = 8 * 1024 * 1024;

export interface DamageInput {
  fs: FileSystem;
  clock: Clock;
  logger: Logger;
  config: MessageStoreConfig;
  root: string;
  files: SegmentFile[];
  queues: ConsumeQueueStore;
  checkpoint: StoreCheckpoint;
  /** What our own mark says; undefined: Java's checkpoint decides. */
  durable: Durable | undefined;
  verify: Verify;
  /** Threads that parse the log, if the settings want them. */
  parser: ShareParser | undefined;
}

/** All damage from one place of the log on, and what stands behind the first of it. */
interface Survey {
  runs: DamagedRun[];
  trails: QueueTrails;
  /** Store time of the last sound record before each run. */
  times: number[];
  /** Start and store time of the last sound record before the first run; -1 and 0 if there is none. */
  lastBefore: number;
  lastTime: number;
  behind: { records: number; bytes: number; first: number; last: number };
  /** The last run reaches what is known of the log: nothing sound stands behind it. */
  isOpen: boolean;
}

export class DamageCheck {
  readonly #input: DamageInput;
  /** What a start that was killed was going to write. */
  #planned: readonly Placeholder[];
  /** Bodies of this part of the log have been checked. */
  checked: { from: number; to: number } = { from: 0, to: 0 };
  /** Records there, and the last of them. */
  records = 0;
  readonly last: { physicalOffset: number; storeTimestamp: number } = { physicalOffset: -1, storeTimestamp: 0 };
  /** Records were replaced: what is derived from the log must be built again from here on. */
  mendedFrom: number = Number.POSITIVE_INFINITY;
  /** What was skipped, for the report. */
  readonly skipped: Array<{ offset: number; bytes: number; records: number }> = [];

  constructor(input: DamageInput) {
    this.#input = input;
    this.#planned = plannedSkip(input.fs, input.root, input.checkpoint);
    this.mendedFrom = this.#planned[0]?.start ?? Number.POSITIVE_INFINITY;
  }

  /**
   * Looks at the durable part of the log from a record's start on, what was not looked at before; damage refuses the start or is mended, as
   * gantryDamagedRecord says. @throws GantryError STORE_DAMAGED, with nothing changed; IO, DISK_FULL.
   */
  async look(from: number): Promise<void> {
    const { config, files } = this.#input;
    if (config.gantryDamagedRecord === 'cut') return;
    const { checked } = this;
    const limit = checked.to > checked.from ? checked.from : Number.POSITIVE_INFINITY;
    if (from >= limit) return;
    const first = await this.#findFirst(from, limit);
    if (first !== undefined) {
      const survey = await this.#survey(from, first.offset);
      if (config.gantryDamagedRecord === 'refuse') throw this.#refusal(survey);
      this.#skip(survey);
    } else writePlanned(files, this.#planned, this.#propertyCrc);
    this.#planned = [];
    const end = first === undefined ? this.#reached : Math.min(this.tornFrom, files.at(-1)!.end);
    this.checked = { from, to: limit === Number.POSITIVE_INFINITY ? end : checked.to };
  }

  /** The index has been cut to `mendedFrom`. @throws GantryError IO. */
  end(): void {
    endSkip(this.#input.fs, this.#input.root);
  }

  /** No record below can be torn by a power cut: it was synced. */
  get tornFrom(): number {
    return this.#input.durable?.flushed ?? 0;
  }

  get #propertyCrc(): boolean {
    const { enabledAppendPropCRC, forceVerifyPropCRC } = this.#input.config;
    return enabledAppendPropCRC || forceVerifyPropCRC;
  }

  /** How far the last look has come. */
  #reached = 0;

  /** The first durable record in [from, limit) that is bad. */
  async #findFirst(from: number, limit: number): Promise<{ offset: number } | undefined> {
    const { files, durable, verify, checkpoint, clock, logger } = this.#input;
    const to = Math.min(limit, durable?.flushed ?? Number.POSITIVE_INFINITY);
    const javaTime = checkpoint.physicMsgTimestamp;
    const { last } = this;
    let newest = 0;
    let records = 0;
    let passed = false;
    const total = Math.min(to, files.at(-1)!.end) - from;
    const scan = await scanLog({
      files,
      first: files.indexOf(segmentAt(files, from)!),
      from,
      to,
      verify,
      parser: this.#input.parser,
      visit: (_bytes, record) => {
        passed = durable === undefined && record.storeTimestamp > javaTime;
        if (passed) return false;
        newest = Math.max(newest, record.storeTimestamp);
        records++;
        if (record.physicalOffset > last.physicalOffset) {
          last.physicalOffset = record.physicalOffset;
          last.storeTimestamp = record.storeTimestamp;
        }
        return true;
      },
      progress: scanProgress(clock, logger, total, 'what was durable is looked at'),
    });
    this.#reached = scan.end;
    this.records += records;
    if (durable === undefined) {
      if (passed || scan.end >= limit) return undefined;
      return this.#wasStoredBy(javaTime, scan.end, newest) ? { offset: scan.end } : undefined;
    }
    if (scan.fillerEnd >= to) return undefined;
    if (newest > durable.newest) {
      logger.info(`another broker has written to the log below ${durable.flushed}: our own mark does not count`);
      this.#input.durable = undefined;
      this.records -= records;
      return this.#findFirst(from, limit);
    }
    return this.#isLostTail(scan.end, durable.flushed) ? undefined : { offset: scan.end };
  }

  /**
   * Whether the log was durable further and has lost its end: nothing sound stands behind `offset`, and where it ended there are zeros. A
   * refusal would protect nothing; what is there is cut and kept aside as any end is, and the loss is told.
   */
  #isLostTail(offset: number, flushed: number): boolean {
    const { files, verify } = this.#input;
    for (const file of files) {
      if (file.end <= offset) continue;
      const from = Math.max(offset + 1, file.base);
      if (nextSound(file, from, file.end, verify) < file.end) return false;
    }
    const last = segmentAt(files, flushed - 1);
    const end =
      last === undefined
        ? undefined
        : bytesAt(last, Math.max(last.base, flushed - 4), Math.min(4, flushed - last.base));
    return end === undefined || end.every((byte) => byte === 0);
  }

  /** Whether the bad record at `offset`, or a sound one behind it, was stored by `time`: the log was synced in order, and both were durable. */
  #wasStoredBy(time: number, offset: number, newest: number): boolean {
    const { files, verify, fs, root } = this.#input;
    const at = files.findIndex((file) => offset < file.end);
    if (at < 0) return false;
    const own = recordLike(files[at]!, offset)?.record.storeTimestamp ?? 0;
    // Of those stored in the checkpoint's very millisecond the last may not have been synced. In a store that Java alone has written they
    // count as durable all the same; one of ours has its mark for that, and where that was lost a torn end must not refuse the start.
    const isOurs = fs.stat(`${root}/gantry`) !== undefined;
    if (own >= newest && own > 0 && (isOurs ? own < time : own <= time)) return true;
    for (let i = at; i < files.length; i++) {
      const file = files[i]!;
      const from = i === at ? offset + 1 : file.base;
      // What is not used yet is zeros, a gigabyte of them.
      const found = nextSound(file, from, Math.min(file.end, from + SEARCH_BYTES), verify);
      const behind = recordLike(file, found, verify)?.record;
      // Of those stored in one millisecond the last may not have been synced: only one from before that speaks for others.
      if (behind !== undefined) return behind.storeTimestamp > 0 && behind.storeTimestamp < time;
    }
    return false;
  }

  /** Walks all of the log from `from` on, over whatever is damaged. */
  async #survey(from: number, damagedAt: number): Promise<Survey> {
    const { files, durable, verify, queues, checkpoint } = this.#input;
    const survey: Survey = {
      runs: [],
      trails: new QueueTrails(queues, from),
      times: [],
      lastBefore: -1,
      lastTime: 0,
      behind: { records: 0, bytes: 0, first: 0, last: 0 },
      isOpen: false,
    };
    const { behind } = survey;
    let newest = 0;
    const visit = (bytes: Uint8Array, record: RecordView): void => {
      survey.trails.pass(bytes, record);
      newest = record.storeTimestamp;
      if (survey.runs.length === 0) {
        survey.lastBefore = record.physicalOffset;
        survey.lastTime = newest;
        return;
      }
      behind.records++;
      behind.bytes += record.totalSize;
      behind.first ||= newest;
      behind.last = newest;
    };
    let at = from;
    const flushed = durable?.flushed ?? Number.POSITIVE_INFINITY;
    for (;;) {
      const index = files.indexOf(segmentAt(files, at) ?? files.at(-1)!);
      const scan = await scanLog({ files, first: index, from: at, verify, visit });
      const offset = scan.end;
      const isDurable =
        durable !== undefined
          ? scan.fillerEnd < flushed && !this.#isLostTail(offset, flushed)
          : offset === damagedAt || this.#wasStoredBy(checkpoint.physicMsgTimestamp, offset, newest);
      if (!isDurable) return survey;
      const file = segmentAt(files, offset)!;
      const reason = scan.damage ?? 'the log ends here';
      const run = damagedRun(file, offset, Math.min(flushed, file.end), verify, reason);
      survey.runs.push(run);
      survey.times.push(newest);
      at = run.end;
      const last = files.at(-1)!;
      if (durable === undefined && run.end === last.end) {
        // Where the lost record ended, nobody knows, and nothing stands behind it.
        survey.isOpen = true;
        return survey;
      }
      if (at >= last.end) return survey;
    }
  }

  #refusal({ runs, behind }: Survey): GantryError {
    const { root, durable, checkpoint } = this.#input;
    const first = runs[0]!;
    const proof =
      durable !== undefined
        ? `below what was durable (offset ${durable.flushed})`
        : `stored before what was durable (${time(checkpoint.physicMsgTimestamp)})`;
    const more = runs.length > 1 ? ` (the first of ${runs.length} damaged places)` : '';
    const what =
      behind.records === 0
        ? 'no sound record lies behind it'
        : `${behind.records} sound records (${behind.bytes} bytes, stored ${time(behind.first)} to ${time(behind.last)}) lie behind it`;
    return new GantryError(
      'STORE_DAMAGED',
      `${first.file.path}: byte ${first.start - first.file.base} (offset ${first.start}): ${first.reason}, ${proof}${more}; ${what}. ` +
        'Nothing was changed. Restore the file from a copy, or set gantryDamagedRecord=skip, which puts a marked record in its place and keeps ' +
        `what lies behind it, or =cut, which cuts the log there, as RocketMQ does, and keeps the bytes in ${root}/gantry/cut`,
    );
  }

  #skip(survey: Survey): void {
    const { root, config, fs, logger } = this.#input;
    const first = survey.runs[0]!;
    const shared =
      config.brokerRole !== 'ASYNC_MASTER'
        ? `brokerRole is ${config.brokerRole}`
        : fs.list(root).find((name) => name === 'epochFileCheckpoint' || name.startsWith('dledger-'));
    if (shared !== undefined) {
      throw new GantryError(
        'STORE_DAMAGED',
        `${first.file.path}: byte ${first.start - first.file.base} (offset ${first.start}): ${first.reason}; gantryDamagedRecord=skip is ` +
          `refused, since others have the same log (${shared}) and theirs would differ: take the bytes from them, or set it to cut`,
      );
    }
    const runs = survey.runs.filter((run) => run.end > run.start);
    if (survey.isOpen && this.#input.durable === undefined) runs.pop();
    if (survey.isOpen)
      logger.warn(`nothing sound stands behind offset ${survey.runs.at(-1)!.start}: the log ends there`);
    if (runs.length === 0) return;
    const propertyCrc = this.#propertyCrc;
    const times = new Map(survey.runs.map((run, i) => [run, survey.times[i]!]));
    const placeholders = placeholdersFor(
      runs,
      survey.trails,
      (run) => times.get(run) || survey.behind.first,
      propertyCrc,
    );
    this.mendedFrom = Math.min(this.mendedFrom, first.start);
    skipRuns(this.#input, runs, placeholders, propertyCrc, survey);
    for (const run of runs) {
      const inRun = placeholders.filter(
        ({ start, topic }) => start >= run.start && start < run.end && topic !== undefined,
      );
      this.skipped.push({ offset: run.start, bytes: run.end - run.start, records: inRun.length });
      const messages = inRun.map(
        ({ topic, queueId, queueOffset }) => `${topic} queue ${queueId} offset ${queueOffset}`,
      );
      logger.warn(
        `${run.file.path}: byte ${run.start - run.file.base} (offset ${run.start}): ${run.reason}; ${run.end - run.start} bytes are ` +
          `skipped: ${messages.slice(0, 10).join(', ') || 'a filler'}${messages.length > 10 ? ` and ${messages.length - 10} more` : ''}`,
      );
    }
  }
}

function time(ms: number): string {
  return ms > 0 && ms < 8.64e15 ? new Date(ms).toISOString() : `at ${ms}`;
}
