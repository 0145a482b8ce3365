// Offsets of a broadcast consumer: every member reads everything, so its progress is its own affair and lies in a file beside it:
// <localOffsetStoreDir>/<clientId>/<group>/offsets.json, in Java's form: {"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:7}}.
// RocketMQ: LocalFileOffsetStore writes the file in place; here a power cut leaves the old or the new content (saveDurably).

import { errorText, GantryError, type Logger } from '../common/index.ts';
import { type FileSystem, readWhole, saveDurably } from '../io/index.ts';
import { parseJson, toJsonBytes } from '../remoting/index.ts';
import type { OffsetStore } from './offset-store.ts';
import { OffsetTable } from './offset-table.ts';
import { jsonField, jsonNumber, queueEntries, queueMap } from './queue-json.ts';
import type { MessageQueue } from './queues.ts';

/** Offsets of a group in broadcast mode. */
export class LocalOffsetStore implements OffsetStore {
  readonly #fs: FileSystem;
  readonly #logger: Logger;
  readonly #folder: string;
  /** What the file holds. */
  readonly #saved = new OffsetTable();
  readonly #table = new OffsetTable();
  #loaded = false;
  #dirty = false;

  constructor(fs: FileSystem, logger: Logger, folder: string) {
    this.#fs = fs;
    this.#logger = logger;
    this.#folder = folder;
  }

  get path(): string {
    return `${this.#folder}/offsets.json`;
  }

  update(queue: MessageQueue, offset: number, increaseOnly: boolean): void {
    this.#table.update(queue, offset, increaseOnly);
  }

  updateAndFreeze(queue: MessageQueue, offset: number): void {
    this.#table.freeze(queue, offset);
  }

  peek(queue: MessageQueue): number | undefined {
    return this.#table.get(queue);
  }

  async fetch(queue: MessageQueue): Promise<number | undefined> {
    this.#load();
    const offset = this.#saved.get(queue);
    if (offset !== undefined) this.#table.update(queue, offset, false);
    return offset;
  }

  async persist(queues: Iterable<MessageQueue>, _confirm: boolean): Promise<void> {
    try {
      this.#load();
      for (const queue of queues) {
        const offset = this.#table.get(queue);
        if (offset !== undefined && this.#saved.update(queue, offset, false)) this.#dirty = true;
      }
      if (!this.#dirty) return;
      this.#fs.makeDirectory(this.#folder);
      saveDurably(this.#fs, this.path, toJsonBytes({ offsetTable: queueMap(this.#saved.entries()) }));
      this.#dirty = false;
    } catch (error) {
      this.#logger.error(`the offsets in ${this.path} could not be saved: ${errorText(error)}`);
    }
  }

  remove(queue: MessageQueue): void {
    this.#table.remove(queue);
  }

  entries(topic?: string): Array<[MessageQueue, number]> {
    return this.#table.entries(topic);
  }

  /** @throws GantryError CONFIG_FILE when neither the file nor its `.bak` can be read although one is there. */
  #load(): void {
    if (this.#loaded) return;
    const failures: string[] = [];
    for (const path of [this.path, `${this.path}.bak`]) {
      const bytes = readWhole(this.#fs, path);
      if (bytes === undefined) continue;
      if (this.#read(path, bytes, failures)) {
        this.#loaded = true;
        if (failures.length > 0) this.#logger.warn(`${failures.join('; ')}; the offsets of ${path} are used`);
        return;
      }
    }
    if (failures.length > 0) throw new GantryError('CONFIG_FILE', failures.join('; '));
    this.#loaded = true;
  }

  #read(path: string, bytes: Uint8Array, failures: string[]): boolean {
    try {
      const table = jsonField(parseJson(bytes), 'offsetTable');
      for (const [queue, value] of queueEntries(table)) {
        const offset = jsonNumber(value, -1);
        if (offset >= 0) this.#saved.update(queue, offset, false);
      }
      return true;
    } catch (error) {
      failures.push(`${path} cannot be read: ${errorText(error)}`);
      return false;
    }
  }
}
