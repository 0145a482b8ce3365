// Consumers of the simulated store that do not hold the world up: a pull begins, and its bytes come while puts, deletions and flushes go on.

import assert from 'node:assert/strict';
import { GantryError } from '../../src/common/index.ts';
import { GetMessageStatus, GetResult, type MessageStore, type TagFilter } from '../../src/store/index.ts';
import { type Pull, pull } from './engine.ts';
import { QUEUES } from './messages.ts';
import { type Entry, type Model, sameMessage } from './model.ts';
import { parseRecord } from './store-files.ts';
import type { World } from './world.ts';

const ALL: TagFilter = { all: true, codes: new Set() };

export class Readers {
  readonly #world: World;
  #life = 0;
  #failures: unknown[] = [];
  /** Pulls under way. */
  count = 0;

  constructor(world: World) {
    this.#world = world;
  }

  /** Pulls begun so far are nobody's any more: process, log or topic is not what it was. */
  forget(): void {
    this.#life++;
    this.#failures = [];
    this.count = 0;
  }

  /** @throws what a pull has found wrong */
  check(): void {
    if (this.#failures.length > 0) throw this.#failures[0];
  }

  /** Begins a pull; `seen` is told where the records end that it got. */
  begin(
    store: MessageStore,
    model: Model,
    place: { topic: string; queueId: number; offset: number },
    most: number,
    seen: (end: number) => void,
  ): void {
    const life = this.#life;
    const { topic, queueId, offset } = place;
    const expected = model.queue(topic, queueId);
    this.count++;
    this.#pull(store, topic, queueId, offset, most)
      .then((pulled) => {
        if (life !== this.#life || this.#world.fs.isDown) return;
        this.count--;
        const now = model.queue(topic, queueId);
        const untouched = now[0] === expected[0];
        for (const [i, bytes] of pulled.entries()) {
          const entry: Entry | undefined = (untouched ? now : expected)[offset + i];
          if (entry === undefined) continue;
          const record = parseRecord(bytes, 0, Number(bytes.readBigInt64BE(28)));
          assert.ok(
            typeof record !== 'string',
            `record ${i} of a pull at ${offset} of ${topic}/${queueId}: ${String(record)}`,
          );
          // A topic of this name may have begun again meanwhile.
          if (!untouched && record.position !== entry.position) continue;
          sameMessage(entry, record);
          seen(entry.position + entry.size);
        }
        if (untouched && offset < expected.length && offset >= store.minOffsetInQueue(topic, queueId)) {
          assert.ok(pulled.length > 0, `a pull at ${offset} of ${topic}/${queueId} finds nothing`);
        }
      })
      .catch((error: unknown) => {
        if (life !== this.#life || this.#world.fs.isDown) return;
        this.count--;
        // Retention was quicker.
        const isGone = error instanceof GantryError && error.code === 'REMOVED';
        if (!isGone || expected[offset]!.position >= store.watermarks.minimum) this.#failures.push(error);
      });
  }

  /** A consumer reads somewhere, and is waited for; `seen` is told where the records end that it got. */
  async readNow(store: MessageStore, model: Model, seen: (end: number) => void): Promise<void> {
    const world = this.#world;
    const [topic, queueId] = QUEUES[world.random.int(QUEUES.length)]!;
    const min = store.minOffsetInQueue(topic, queueId);
    const max = store.maxOffsetInQueue(topic, queueId);
    if (max === min) return;
    const offset = min + world.random.int(max - min);
    let got: Pull;
    try {
      got = await pull(world, store, topic, queueId, offset, { maxMessages: 1 + world.random.int(10) });
    } catch (error) {
      // Retention was quicker.
      if (error instanceof GantryError && error.code === 'REMOVED') return;
      throw error;
    }
    if (got.status === GetMessageStatus.OFFSET_TOO_SMALL) {
      assert.ok(store.minOffsetInQueue(topic, queueId) > offset, 'only what was removed is below the minimum');
      return;
    }
    const queue = model.queue(topic, queueId);
    if (queue.length <= offset) return; // Its topic was deleted meanwhile.
    assert.ok(got.records.length > 0, `a pull at ${offset} of ${topic}/${queueId} (maximum ${max}) finds nothing`);
    for (let i = 0; i < got.records.length; i++) {
      const entry = queue[offset + i]!;
      sameMessage(entry, got.records[i]!);
      seen(entry.position + entry.size);
    }
  }

  async #pull(store: MessageStore, topic: string, queueId: number, offset: number, most: number): Promise<Buffer[]> {
    const result = new GetResult();
    await whenReady((ready) =>
      store.select({ topic, queueId, offset, maxMessages: most, maxBytes: 1 << 20, filter: ALL }, result, ready),
    );
    if (result.status !== GetMessageStatus.FOUND) return [];
    const bytes = Buffer.alloc(result.totalBytes);
    await whenReady((ready) => store.copyRecords(result, bytes, 0, ready));
    const records: Buffer[] = [];
    let at = 0;
    for (let i = 0; i < result.count; i++) {
      records.push(bytes.subarray(at, at + result.sizes[i]!));
      at += result.sizes[i]!;
    }
    return records;
  }
}

async function whenReady(read: (ready: (error?: Error) => void) => boolean): Promise<void> {
  for (let tries = 0; tries < 1000; tries++) {
    const done = await new Promise<boolean>((resolve, reject) => {
      if (read((error) => (error === undefined ? resolve(false) : reject(error)))) resolve(true);
    });
    if (done) return;
  }
  throw new Error('a read was told a thousand times that it can be repeated, and never had its bytes');
}
