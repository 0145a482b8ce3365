// A table in one file as plain histories have it, whose seeds were named before there were more: saved whole, now and then.

import assert from 'node:assert/strict';
import { GantryError } from '../../src/common/index.ts';
import { readWhole, saveDurably } from '../../src/io/index.ts';
import { ROOT } from './engine.ts';
import type { World } from './world.ts';

const PATH = `${ROOT}/config/consumerOffset.json`;

export class PlainOffsets {
  readonly #world: World;
  /** The state saved last, and the one whose save was under way. */
  #saved = '';
  #saving = '';
  #saves = 0;

  constructor(world: World) {
    this.#world = world;
  }

  save(): void {
    const { fs, random } = this.#world;
    this.#saves++;
    this.#saving = JSON.stringify({ save: this.#saves, pad: 'x'.repeat(random.int(1000)) });
    try {
      saveDurably(fs, PATH, this.#saving);
      this.#saved = this.#saving;
    } catch (error) {
      // A full disk: the save has failed and the state before it is still there.
      if (!fs.isDown && !(error instanceof GantryError && error.code === 'DISK_FULL')) throw error;
    }
  }

  /** After a start. @throws AssertionError */
  check(): void {
    const { fs } = this.#world;
    const bytes = readWhole(fs, PATH) ?? readWhole(fs, `${PATH}.bak`);
    const found = bytes === undefined ? '' : Buffer.from(bytes).toString();
    assert.ok(found === this.#saved || found === this.#saving, 'the offsets saved last, or those being saved');
    this.#saved = found;
    this.#saving = found;
  }
}
