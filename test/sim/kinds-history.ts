// Seeded histories of a store with all kinds of queues: plain ones with ext units, batch queues, light queues. Lives end by a stop, a kill or a power cut,
// also in the middle of a start, and derived files fail now and then. After each start the queues must be what a rebuild from the
// log alone makes of it, byte for byte.

import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { GantryError, SeededRandom } from '../../src/common/index.ts';
import type { InjectedFault, MemoryFileSystem } from '../../src/io/index.ts';
import { Bench, ROOT } from '../../src/store/consume-queue/queue-kinds.test.support.ts';
import { PutMessageStatus, type PutResult } from '../../src/store/index.ts';
import { packed } from '../compat/golden.ts';

const KINDS = ['consumequeue', 'consumequeue_ext', 'batchconsumequeue'];
const LIGHT = ['%LMQ%a', '%LMQ%b', '%LMQ%a,%LMQ%b', '%LMQ%b,odd', '%LMQ%a,%LMQ%a'];
const TAGS = ['', 'TagA', 'refund'];

class History {
  #bench: Bench;
  readonly #random: SeededRandom;
  #puts = 0;
  readonly #faults: InjectedFault[] = [];

  constructor(seed: number) {
    this.#random = new SeededRandom(seed);
    this.#bench = new Bench(1_700_000_000_000, { enableConsumeQueueExt: this.#random.int(4) > 0 }, ['B', 'C']);
  }

  async run(): Promise<number> {
    const lives = 2 + this.#random.int(4);
    for (let life = 0; life < lives; life++) {
      await this.#start();
      const steps = 20 + this.#random.int(80);
      for (let i = 0; i < steps; i++) await this.#step();
      await this.#end();
    }
    await this.#start();
    await this.#bench.store.close();
    return this.#puts;
  }

  /** Opens the store, perhaps at the second try, and compares it with a rebuild. */
  async #start(): Promise<void> {
    const { fs } = this.#bench;
    const random = this.#random;
    if (random.int(4) === 0) {
      fs.powerOffAfter(random.int(40));
      let over = false;
      this.#anew();
      const opening = this.#bench.open().catch((error) => assert.ok(error instanceof GantryError, String(error)));
      void opening.finally(() => {
        over = true;
      });
      // What waits for a dead disk waits for ever.
      while (!over && !fs.isDown) await turn();
      fs.powerCut(random);
    }
    this.#anew();
    try {
      await this.#bench.open();
    } catch (error) {
      if (!(error instanceof GantryError) || error.code !== 'STORE_FILE_SIZE') throw error;
      // One cut file alone cannot be told from files that another setting made. Everybody then removes them.
      for (const kind of KINDS) fs.removeTree(`${ROOT}/${kind}`);
      await this.#bench.open();
    }
    await this.#bench.store.close();
    assert.equal(fs.stat(`${ROOT}/abort`), undefined, 'the stop is clean');
    const copy = fs.clone();
    for (const kind of [...KINDS, 'index']) copy.removeTree(`${ROOT}/${kind}`);
    const rebuilt = new Bench(this.#bench.clock.now(), this.#bench.config, ['B', 'C']);
    Object.assign(rebuilt, { fs: copy });
    await rebuilt.open();
    await rebuilt.store.close();
    const [ours, theirs] = [queueFiles(fs), queueFiles(copy)];
    // A file that a power cut has left without any unit is as good as none, of which a rebuild knows nothing.
    for (const [path, hex] of ours) if (!theirs.has(path) && /^0*$/.test(hex)) ours.delete(path);
    assert.deepEqual([...ours.keys()], [...theirs.keys()]);
    for (const [path, hex] of theirs)
      assert.ok(ours.get(path) === hex, `${path}\nis     ${ours.get(path)}\nrebuilt ${hex}`);
    await this.#bench.open();
  }

  /** Another process on the same disk: what is left of the one before has no time any more. */
  #anew(): void {
    const { clock, config, fs } = this.#bench;
    this.#bench = Object.assign(new Bench(clock.now(), config, ['B', 'C']), { fs });
  }

  async #step(): Promise<void> {
    const b = this.#bench;
    const random = this.#random;
    b.clock.advance(random.int(50));
    switch (random.int(16)) {
      case 0:
        return this.#settle(new Promise<void>((resolve) => b.store.flushDerived(() => resolve())));
      case 1:
        if (random.int(4) === 0) {
          const kind = KINDS[random.int(KINDS.length)]!;
          const operation = random.int(2) === 0 ? 'sync' : 'write';
          this.#faults.push(b.fs.fail({ operation, path: `/${kind}/`, times: 1 + random.int(3) }));
        }
        return;
      case 2:
        if (random.int(3) === 0) await this.#settle(b.store.deleteTopics([['B', 'T', '%LMQ%a', 'C'][random.int(4)]!]));
        return;
      case 3:
      case 4:
      case 5:
      case 6:
        return this.#wait(b.tryPutInner(random.int(2) === 0 ? 'B' : 'C', 1 + random.int(5), random.int(200)));
      case 7:
        return this.#wait(b.tryPut('B', { TAGS: 'single' }, random.int(200)));
      default: {
        const properties: Record<string, string> = {};
        const tag = TAGS[random.int(TAGS.length)]!;
        if (tag !== '') properties['TAGS'] = tag;
        if (random.int(2) === 0) properties['INNER_MULTI_DISPATCH'] = LIGHT[random.int(LIGHT.length)]!;
        return this.#wait(b.tryPut(random.int(3) > 0 ? 'T' : 'U', properties, random.int(600)));
      }
    }
  }

  async #wait(result: PutResult): Promise<void> {
    assert.equal(result.status, PutMessageStatus.PUT_OK, result.reason);
    this.#puts++;
    if (this.#random.int(3) === 0) await this.#settle(this.#bench.written(result));
  }

  /** Waits while time goes on: what a fault holds up is tried again. */
  async #settle(promise: Promise<void>): Promise<void> {
    let settled = false;
    const end = promise.finally(() => {
      settled = true;
    });
    while (!settled) {
      await turn();
      if (!settled) this.#bench.clock.advance(100);
    }
    await end;
  }

  async #end(): Promise<void> {
    const { fs, store } = this.#bench;
    for (const fault of this.#faults.splice(0)) fault.clear();
    const kind = this.#random.int(4);
    if (kind === 0) await store.close();
    else if (kind === 1) fs.kill(this.#random);
    else fs.powerCut(this.#random);
  }
}

/** What the queue folders hold. */
function queueFiles(fs: MemoryFileSystem): Map<string, string> {
  const files = new Map<string, string>();
  for (const kind of KINDS) {
    for (const [path, bytes] of packed(fs, ROOT, kind)) files.set(path, Buffer.from(bytes).toString('hex'));
  }
  return files;
}

/** Runs one history; answers how many puts it had. @throws whatever was found wrong */
export async function runKindsHistory(seed: number): Promise<{ puts: number }> {
  return { puts: await new History(seed).run() };
}
