// Our own record of how far each ConsumeQueue was known to be durable: `<root>/gantry/queue-bounds.json`. A queue that is found
// shorter at a start has lost files or pages, and dispatch begins again where it really ends; RocketMQ trusts the other queues and
// never rebuilds it. It also says enough of a queue for a start to take it as it was, so that thousands of queues cost a look at their
// folders and not at their files. The record names the checkpoint that it belongs to; if another broker has moved the checkpoint on since, it is
// ignored. A bound that is too high costs a scan and nothing else.

import { type Clock, crc32, crc32On, errorText, GantryError, type Logger } from '../../common/index.ts';
import { type Done, type FileHandle, type FileSystem, readWhole, saveDurably } from '../../io/index.ts';
import type { StoreCheckpoint } from '../checkpoint/index.ts';
import { type AnyQueue, ConsumeQueue } from '../consume-queue/index.ts';
import type { IndexProgress } from '../index-file/index.ts';
import type { DeletedTopics } from './deleted-topics.ts';
import type { SavedSum } from './queue-sums.ts';

/** Queues whose bounds become text before the loop gets a turn. */
const SLICE = 2000;

interface Saved {
  version: 2;
  /** The checkpoint's logicsPhysicalOffset that was published right after. */
  logicsPhysicalOffset: number;
  queues: Record<string, Record<string, SavedBound>>;
  /** How far the index was durable, if one was kept. */
  index?: IndexProgress;
  /** Where the log began. */
  logMinimum?: number;
  /** After an orderly stop: what the newest units of each queue were. */
  sums?: Record<string, Record<string, SavedSum>>;
  /** topic -> where its life began that the bounds are of (DeletedTopics), for those that were deleted once. */
  lives?: Record<string, number>;
}

/** queue offset behind the last unit, end of its record, minimum, place of its record; both places are -1 if they were not known. */
type SavedBound = [units: number, physicalEnd: number, minimum: number, minPhysicalOffset: number];

/** What was saved of one queue. */
export interface QueueBound {
  /** Ordinal below which every unit was durable. */
  bound: number;
  /** End of the record of the unit before, -1 if that was not known. */
  physicalEnd: number;
  minOffset: number;
  /** Place of the record at `minOffset`, -1 if that was not known. */
  minPhysicalOffset: number;
  /** What the units in [from, end) were at the last stop; undefined if it was none, or there were too many queues. */
  sum?: { from: number; crc: number; end: number };
}

/** What the saved record says. */
export interface QueueBounds {
  /** False: there is none, or it belongs to another checkpoint. Otherwise every unit of a record below logicsPhysicalOffset was durable. */
  known: boolean;
  /** The record was ours to keep and cannot be used: which queues there were, nothing says, and only the whole log does. */
  lost: boolean;
  /** topic -> queueId; without topics that were deleted since. */
  queues: Map<string, Map<number, QueueBound>>;
  index: IndexProgress | undefined;
  /** Where the log began then; -1 if that is not known. */
  logMinimum: number;
}

/** What is saved. */
export interface BoundsSource {
  /** The checkpoint's value that will be published right after. */
  logicsPhysicalOffset: number;
  queues: Iterable<AnyQueue>;
  index: IndexProgress | undefined;
  deleted: DeletedTopics;
  logMinimum: number;
  /** At an orderly stop. */
  sums?: Record<string, Record<string, SavedSum>>;
}

function* pieces({ logicsPhysicalOffset, queues, index, deleted, logMinimum, sums }: BoundsSource): Generator<string> {
  yield `{"version":2,"logicsPhysicalOffset":${logicsPhysicalOffset},"logMinimum":${logMinimum},`;
  if (sums !== undefined) yield `"sums":${JSON.stringify(sums)},`;
  if (index !== undefined) yield `"index":${JSON.stringify(index)},`;
  yield '"queues":{';
  const lives: string[] = [];
  // The queues of a topic come one behind the other.
  let topic: string | undefined;
  for (const queue of queues) {
    if (queue.synced === 0) continue;
    const bound = `"${queue.queueId}":[${queue.synced},${physicalEndOf(queue)},${queue.minOffset},${minPhysicalOffsetOf(queue)}]`;
    if (queue.topic === topic) yield `,${bound}`;
    else {
      const name = JSON.stringify(queue.topic);
      const life = deleted.endOf(queue.topic);
      if (life > 0) lives.push(`${name}:${life}`);
      yield `${topic === undefined ? '' : '},'}${name}:{${bound}`;
    }
    topic = queue.topic;
  }
  yield `${topic === undefined ? '}' : '}}'},"lives":{${lives.join(',')}}}`;
}

function physicalEndOf(queue: AnyQueue): number {
  if (queue.synced === queue.maxOffset) return queue.maxPhysicalEnd;
  if (!(queue instanceof ConsumeQueue)) return -1;
  return queue.synced <= queue.tailStart ? -1 : queue.physicalEndAt(queue.synced - 1);
}

function minPhysicalOffsetOf(queue: AnyQueue): number {
  if (!(queue instanceof ConsumeQueue)) return -1;
  const { minOffset, minPhysicalOffset } = queue;
  if (minPhysicalOffset >= 0 || minOffset >= queue.maxOffset || !queue.inTail(minOffset)) return minPhysicalOffset;
  return queue.physicalOffsetAt(minOffset);
}

function pathOf(root: string): string {
  return `${root}/gantry/queue-bounds.json`;
}

/** The file's bytes: JSON whose last field is the CRC of what it would be without it. */
function sealed(texts: readonly string[]): Buffer {
  const body = new SealedBody();
  body.add(texts);
  return body.end();
}

/** Puts such bytes together. */
class SealedBody {
  readonly #parts: Buffer[] = [];
  #crc = 0;

  add(texts: readonly string[]): void {
    const part = Buffer.from(texts.join(''), 'utf8');
    this.#crc = crc32On(this.#crc, part);
    this.#parts.push(part);
  }

  end(): Buffer {
    // Without the brace that ends it.
    const body = Buffer.concat(this.#parts).subarray(0, -1);
    return Buffer.concat([body, Buffer.from(`,"crc32":${this.#crc & 0x7fffffff}}`)]);
  }
}

/** The JSON without its CRC. @throws Error if that is not there or not right: then a topic's name may be another's. */
function unsealed(bytes: Uint8Array): string {
  const text = Buffer.from(bytes).toString('utf8');
  const end = text.lastIndexOf(',"crc32":');
  const body = Buffer.from(`${text.slice(0, Math.max(0, end))}}`, 'utf8');
  if (text.slice(end) !== `,"crc32":${crc32(body, 0, body.length)}}`) throw new Error('the CRC is not right');
  return body.toString('utf8');
}

/** Saves the durable end of every queue, durably; to be called before the checkpoint with these values is written. @throws GantryError IO, DISK_FULL. */
export function saveQueueBounds(fs: FileSystem, root: string, source: BoundsSource): void {
  const { deletions } = source.deleted;
  saveDurably(fs, pathOf(root), sealed([...pieces(source)]));
  source.deleted.boundsSaved(deletions);
}

/** As `saveQueueBounds`, in slices, with all that waits for the disk off the loop. */
export function saveQueueBoundsLater(
  fs: FileSystem,
  clock: Clock,
  root: string,
  source: BoundsSource,
  done: Done,
): void {
  const path = pathOf(root);
  const fresh = `${path}.tmp`;
  const rest = pieces(source);
  const { deleted } = source;
  const { deletions } = deleted;
  const body = new SealedBody();
  let file: FileHandle | undefined;
  const end: Done = (error) => {
    file?.close();
    file = undefined;
    if (error !== undefined) return done(error);
    attempt(() => {
      if (fs.stat(path) !== undefined) fs.rename(path, `${path}.bak`);
      fs.rename(fresh, path);
      fs.syncDirectoryLater(`${root}/gantry`, (syncError) => {
        if (syncError === undefined) deleted.boundsSaved(deletions);
        done(syncError);
      });
    });
  };
  const attempt = (step: () => void): void => {
    try {
      step();
    } catch (error) {
      if (!(error instanceof GantryError)) throw error;
      if (file !== undefined) end(error);
      else done(error);
    }
  };
  const collect = (): void => {
    const texts: string[] = [];
    let isOver = false;
    while (!isOver && texts.length < SLICE) {
      const next = rest.next();
      if (next.done) isOver = true;
      else texts.push(next.value);
    }
    body.add(texts);
    if (isOver) attempt(write);
    else clock.soon(collect);
  };
  const write = (): void => {
    const bytes = body.end();
    file = fs.open(fresh, 'create');
    file.truncateSync(0);
    file.write(bytes, 0, bytes.length, 0, (error) => {
      if (error !== undefined) return end(error);
      attempt(() => file!.sync(end));
    });
  };
  collect();
}

/** The saved bounds; an unreadable file counts as none. `isOurs`: the checkpoint is of our own writing. */
export function loadQueueBounds(input: {
  fs: FileSystem;
  root: string;
  checkpoint: StoreCheckpoint;
  isOurs: boolean;
  deleted: DeletedTopics;
  logger: Logger;
}): QueueBounds {
  const { fs, root, checkpoint, isOurs, deleted, logger } = input;
  const path = pathOf(root);
  const lost = isOurs && checkpoint.logicsPhysicalOffset > 0;
  const none = (): QueueBounds => ({ known: false, lost, queues: new Map(), index: undefined, logMinimum: -1 });
  const bounds: QueueBounds = { known: true, lost: false, queues: new Map(), index: undefined, logMinimum: -1 };
  try {
    const bytes = readWhole(fs, path);
    if (bytes === undefined) return none();
    const saved = JSON.parse(unsealed(bytes)) as Saved;
    // A checkpoint that has moved on was written by another broker.
    if (saved.version !== 2 || saved.logicsPhysicalOffset < checkpoint.logicsPhysicalOffset) return none();
    bounds.index = saved.index;
    bounds.logMinimum = saved.logMinimum ?? -1;
    const lives = new Map(Object.entries(saved.lives ?? {}));
    const sums = new Map(Object.entries(saved.sums ?? {}));
    for (const [topic, queues] of Object.entries(saved.queues)) {
      if (deleted.endOf(topic) > (lives.get(topic) ?? 0)) continue;
      const ofTopic = new Map<number, QueueBound>();
      for (const [queueId, [bound, physicalEnd, minOffset, minPhysicalOffset]] of Object.entries(queues)) {
        const sum = sums.get(topic)?.[queueId];
        ofTopic.set(Number(queueId), {
          bound,
          physicalEnd,
          minOffset,
          minPhysicalOffset,
          ...(sum === undefined ? {} : { sum: { from: sum[0], crc: sum[1], end: sum[2] ?? bound } }),
        });
      }
      bounds.queues.set(topic, ofTopic);
    }
  } catch (error) {
    logger.warn(`${path} cannot be used (${errorText(error)}); the queues are checked against the whole log`);
    return none();
  }
  return bounds;
}

/** Removes what was saved, durably: it speaks of what is about to be cut. @throws GantryError IO. */
export function dropQueueBounds(fs: FileSystem, root: string): void {
  fs.remove(pathOf(root));
  fs.syncDirectory(`${root}/gantry`);
}

/** Takes what was saved of the index out of the record, durably: it speaks of what is about to be cut. @throws GantryError IO, DISK_FULL. */
export function dropIndexBound(fs: FileSystem, root: string): void {
  const bytes = readWhole(fs, pathOf(root));
  if (bytes === undefined) return;
  const { index: _, ...rest } = JSON.parse(unsealed(bytes)) as Saved;
  saveDurably(fs, pathOf(root), sealed([JSON.stringify(rest)]));
}
