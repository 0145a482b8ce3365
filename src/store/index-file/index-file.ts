// One index file as the store knows it, and the walk along the chain of one of its slots. Older files are read by position, never
// held; the newest one answers from its writer's memory where it can. A walk only ever goes to smaller unit numbers, so that no damage
// makes it spin: what breaks that rule ends the walk and is reported.

import { type GantryError, peekI64, viewOf } from '../../common/index.ts';
import type { FileHandle, FileSystem } from '../../io/index.ts';
import { type IndexHeader, type IndexLayout, SLOT_BYTES, UNIT_BYTES } from './index-format.ts';
import type { IndexWriter } from './index-writer.ts';

/** Units read at once on a walk: one key's messages often lie close together. */
const BLOCK_UNITS = 204;

export class IndexFile {
  readonly name: string;
  readonly path: string;
  readonly layout: IndexLayout;
  /** Shared with the writer while there is one. */
  readonly header: IndexHeader;
  /** While the file grows, and until it is written whole. */
  writer: IndexWriter | undefined;
  /** The slot table, where that on disk is out of date and there is no writer: after a cut. */
  slots: Int32Array | undefined;
  /** Damage was found and reported: `header` may be a guess, and no more keys go in. */
  damaged = false;

  constructor(folder: string, name: string, layout: IndexLayout, header: IndexHeader) {
    this.name = name;
    this.path = `${folder}/${name}`;
    this.layout = layout;
    this.header = header;
  }

  /** Whether a query for [begin, end] looks into this file: RocketMQ's test, which misses a window that touches only one edge. */
  matches(begin: number, end: number): boolean {
    const { beginTimestamp, endTimestamp } = this.header;
    return (
      (begin < beginTimestamp && end > endTimestamp) ||
      (begin >= beginTimestamp && begin <= endTimestamp) ||
      (end >= beginTimestamp && end <= endTimestamp)
    );
  }
}

/** A unit whose hash is that of the key. */
export interface IndexUnit {
  physicalOffset: number;
  /** Store time in ms as the unit tells it: up to 999 ms before the real one (docs/formats/index-file.md has the exception). */
  storeTimestamp: number;
}

/**
 * The units of a key hash with times in [begin, end], newest first.
 * @param onDamage told what ended the walk early.
 * @throws GantryError IO when the file cannot be read.
 */
export async function* walkChain(
  fs: FileSystem,
  file: IndexFile,
  keyHash: number,
  begin: number,
  end: number,
  onDamage: (what: string) => void,
): AsyncGenerator<IndexUnit, void, void> {
  const { layout, header } = file;
  const bound = file.damaged ? layout.units : header.indexCount;
  if (bound <= 1) return;
  const slot = keyHash % layout.slots;
  const reader = new ChainReader(fs, file);
  try {
    let unit = await reader.slot(slot);
    if (unit <= 0) return;
    if (unit >= bound) return onDamage(`slot ${slot} points to unit ${unit} of ${bound - 1}`);
    for (;;) {
      if (!reader.has(unit)) await reader.read(unit);
      const at = reader.position(unit);
      const hash = reader.view.getInt32(at);
      const timeDiff = reader.view.getInt32(at + 12);
      const previous = reader.view.getInt32(at + 16);
      if (hash < 0 || timeDiff < 0 || hash % layout.slots !== slot) {
        return onDamage(`unit ${unit} does not belong to slot ${slot}, whose chain leads there`);
      }
      const storeTimestamp = header.beginTimestamp + timeDiff * 1000;
      if (hash === keyHash && storeTimestamp >= begin && storeTimestamp <= end) {
        yield { physicalOffset: peekI64(reader.view, at + 4), storeTimestamp };
      }
      if (previous === 0 || storeTimestamp < begin) return;
      if (previous < 0 || previous >= unit) return onDamage(`unit ${unit} names unit ${previous} as the one before it`);
      unit = previous;
    }
  } finally {
    reader.close();
  }
}

/** Brings units into `view`: from the writer's memory, or a block that ends with the unit asked for. */
class ChainReader {
  readonly view: DataView;
  readonly #fs: FileSystem;
  readonly #file: IndexFile;
  readonly #bytes = new Uint8Array(BLOCK_UNITS * UNIT_BYTES);
  #first = 0;
  #count = 0;
  #handle: FileHandle | undefined;

  constructor(fs: FileSystem, file: IndexFile) {
    this.#fs = fs;
    this.#file = file;
    this.view = viewOf(this.#bytes);
  }

  async slot(slot: number): Promise<number> {
    const slots = this.#file.writer?.slots ?? this.#file.slots;
    if (slots !== undefined) return slots[slot]!;
    await this.#read(this.#file.layout.slotPosition(slot), SLOT_BYTES);
    return this.view.getInt32(0);
  }

  /** Whether a unit is at hand; one in the writer's memory is copied on the way. */
  has(unit: number): boolean {
    if (unit >= this.#first && unit < this.#first + this.#count) return true;
    if (this.#file.writer?.unitInMemory(unit, this.#bytes) !== true) return false;
    this.#first = unit;
    this.#count = 1;
    return true;
  }

  position(unit: number): number {
    return (unit - this.#first) * UNIT_BYTES;
  }

  async read(unit: number): Promise<void> {
    const first = Math.max(1, unit - BLOCK_UNITS + 1);
    this.#count = 0;
    await this.#read(this.#file.layout.unitPosition(first), (unit - first + 1) * UNIT_BYTES);
    this.#first = first;
    this.#count = unit - first + 1;
  }

  close(): void {
    this.#handle?.close();
  }

  #read(position: number, length: number): Promise<void> {
    this.#handle ??= this.#fs.open(this.#file.path, 'read');
    const handle = this.#handle;
    return new Promise((resolve, reject) => {
      handle.read(this.#bytes, 0, length, position, (error: GantryError | undefined, got) => {
        if (error !== undefined) return reject(error);
        this.#bytes.fill(0, got, length);
        resolve();
      });
    });
  }
}
