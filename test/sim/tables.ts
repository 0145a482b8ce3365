// The broker's tables on the simulated disk (config/*.json): saved now and then, whole or in slices, and read back at each start. A table
// of state n holds n in every entry, so that a mixture of two states shows.
//
// What must hold, whatever happens to process and machine: a start reads the state that was saved last, or the one that was being saved;
// after saves that failed, any of those.

import assert from 'node:assert/strict';
import { type ConfigManager, defaultBrokerConfig } from '../../src/broker/index.ts';
import { ConsumerOffsetManager } from '../../src/broker/offset/consumer-offset-manager.ts';
import { TopicConfig } from '../../src/broker/topic/topic-config.ts';
import { TopicConfigManager } from '../../src/broker/topic/topic-config-manager.ts';
import { GantryError, type Logger, type Random } from '../../src/common/index.ts';
import { readWhole, writeWhole } from '../../src/io/index.ts';
import { parseJson } from '../../src/remoting/index.ts';
import { ROOT } from './engine.ts';
import type { Ending } from './settings.ts';
import type { World } from './world.ts';

const GROUP = 'simulated';
const TOPIC = 'Simulated';
const TOPICS = 5;
/** Entries of the offset table in state n: now more, now fewer. */
const offsetsIn = (state: number): number => 1 + ((state * 37) % 100);

/** The state in the bytes of either table, 0 if it holds nothing of ours. */
function stateIn(bytes: Uint8Array): number {
  const { offsetTable, topicConfigTable } = parseJson(Buffer.from(bytes).toString()) as {
    offsetTable?: Record<string, Record<string, number>>;
    topicConfigTable?: Record<string, { writeQueueNums: number }>;
  };
  const topic = topicConfigTable?.[`${TOPIC}-0`]?.writeQueueNums;
  return topic ?? Object.values(offsetTable?.[`${TOPIC}@${GROUP}`] ?? {})[0] ?? 0;
}

/** One table and what the disk may hold of it. */
interface Table {
  readonly manager: ConfigManager;
  /** Puts a state into the table. May save it at once. @throws GantryError */
  fill(state: number): void;
  /** The values of all entries. */
  values(): number[];
  entriesIn(state: number): number;
  /** The state that was saved last, and those that may be there instead: begun since, and not ended or failed. */
  saved: number;
  begun: number[];
  /** A save in slices is under way. */
  slicing: boolean;
}

export class Tables {
  readonly #world: World;
  readonly #random: Random;
  #tables: Table[] = [];
  #state = 0;
  #life = 0;

  constructor(world: World, random: Random) {
    this.#world = world;
    this.#random = random;
  }

  /** Reads the tables as a broker does at its start, after the last life ended in that way. @throws AssertionError, GantryError */
  load(logger: Logger, ending: Ending): void {
    const world = this.#world;
    const life = ++this.#life;
    const environment = { fs: world.fs, clock: world.clock, logger, folder: `${ROOT}/config` };
    const config = defaultBrokerConfig();
    const offsets = new ConsumerOffsetManager(environment, config);
    const topics = new TopicConfigManager(environment, config, () => {});
    const found = [
      {
        manager: offsets,
        fill: (state: number): void => {
          offsets.removeGroup(GROUP);
          for (let id = 0; id < offsetsIn(state); id++) offsets.commit('', GROUP, TOPIC, id, state);
        },
        values: () => [...(offsets.find(GROUP, TOPIC)?.committed.values() ?? [])],
        entriesIn: offsetsIn,
      },
      {
        manager: topics,
        fill: (state: number): void => {
          const wishes = Array.from({ length: TOPICS }, (_, i) => ({
            topic: new TopicConfig(`${TOPIC}-${i}`, { writeQueueNums: state }),
            attributes: new Map<string, string>(),
          }));
          // What `save` does beside it says how it ended.
          topics.update(wishes).catch(() => {});
        },
        values: () => [...topics.all()].filter((t) => t.topicName.startsWith(TOPIC)).map((t) => t.writeQueueNums),
        entriesIn: () => TOPICS,
      },
    ];
    this.#tables = found.map((table, i) => {
      table.manager.load();
      const values = table.values();
      const state = values[0] ?? 0;
      const { saved = 0, begun = [] } = this.#tables[i] ?? {};
      const what = `${table.manager.path} after start ${life}`;
      assert.ok(
        values.every((value) => value === state),
        `${what}: a mixture of states: ${[...new Set(values)]}`,
      );
      assert.ok(
        state === saved || begun.includes(state),
        `${what}: state ${state}, but ${saved} was saved last, and being saved: ${begun.join() || 'none'}`,
      );
      assert.equal(values.length, state === 0 ? 0 : table.entriesIn(state), `${what}: entries of state ${state}`);
      // After a power cut what is found is on the disk; what is found after a kill may be in the cache alone, and another on the disk.
      const others = ending === 'power' ? [] : [saved, ...begun].filter((other) => other !== state);
      return { ...table, saved: state, begun: others, slicing: false };
    });
  }

  /** Between two lives: one table's file is deleted, cut or full of zeros. Its `.bak` must then be read; without one, nothing is done. */
  damage(): string | undefined {
    const { fs } = this.#world;
    const random = this.#random;
    const table = this.#tables[random.int(this.#tables.length || 1)];
    if (table === undefined) return undefined;
    const { path } = table.manager;
    const [main, backup] = [readWhole(fs, path), readWhole(fs, `${path}.bak`)];
    if (main === undefined || backup === undefined) return undefined;
    const kind = random.int(3);
    if (kind === 0) fs.remove(path);
    else {
      const length = random.int(main.length);
      writeWhole(fs, path, kind === 1 ? main.subarray(0, length) : new Uint8Array(length), true);
    }
    fs.syncDirectory(`${ROOT}/config`);
    table.saved = stateIn(backup);
    table.begun = [];
    return `${path} ${['removed', 'cut', 'zeroed'][kind]}`;
  }

  /** Saves one table in a new state; in slices it may take until some steps later. */
  save(): void {
    const table = this.#tables[this.#random.int(this.#tables.length)]!;
    const sliced = this.#random.int(2) === 0;
    // A table is written as it is when its turn comes: what is being saved in slices stays, unless a whole save overtakes it.
    if (table.slicing && sliced) return;
    const life = this.#life;
    const state = ++this.#state;
    const done = (): void => {
      // What a process learns after the power went is told to nobody.
      if (life !== this.#life || this.#world.fs.isDown) return;
      table.slicing = false;
      if (table.manager.changed || !table.begun.includes(state)) return;
      table.saved = state;
      table.begun = [];
    };
    table.begun.push(state);
    try {
      table.fill(state);
      if (sliced) {
        table.slicing = true;
        table.manager.persistInSlices(done);
      } else {
        table.manager.persist();
        done();
      }
    } catch (error) {
      // A full or faulty disk: the save has failed, and the state before it is still there, or this one.
      if (!(error instanceof GantryError)) throw error;
    }
  }
}
