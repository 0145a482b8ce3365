// A message's properties: a string to string map, stored as text (name 0x01 value 0x02 ...). Reader and writer rules are RocketMQ's:
// MessageDecoder#string2messageProperties and #messageProperties2String (docs/formats/commit-log.md).
//
// The order of the stored text is the iteration order of a Java HashMap. It means nothing to readers, but it is part of "the bytes
// that a Java broker would have written", so PropertyTable reproduces it:
//
//     slot = (h ^ h >>> 16) & (capacity - 1)      h = Java hash of the name
//     slots upward; inside a slot by insertion; capacity 128 for maps that a broker re-reads, doubled when more than 3/4 full
//
// Two forms: PropertyTable for the hot path (ranges over bytes, reused), and Map-based functions for all else. A test shows them equal.

import { indexOfByte, javaHashUtf8, javaStringHash, sameBytes } from '../common/index.ts';
import { copy } from './record-writer.ts';

const NAME_END = 0x01;
const PAIR_END = 0x02;
/** RocketMQ: the capacity of a HashMap made by string2messageProperties. */
const BROKER_CAPACITY = 128;
/** From so many properties on, looking one up or ordering them by walking over all would cost more than it may. */
const MANY = 48;
const INDEX_SLOTS = 256;

/** Spreads a Java hash as HashMap does. */
function spread(hash: number): number {
  return hash ^ (hash >>> 16);
}

/** FNV-1a: names with one Java hash, which anybody can make thousands of, have different ones of these. */
function indexHash(bytes: Uint8Array, start: number, end: number): number {
  let hash = 0x811c9dc5 | 0;
  for (let i = start; i < end; i++) hash = Math.imul(hash ^ bytes[i]!, 0x01000193);
  return hash ^ (hash >>> 15);
}

/** A property name as the hot path wants it. */
export interface NameBytes {
  readonly bytes: Uint8Array;
  /** Java hash of the name. */
  readonly hash: number;
}

export function nameBytes(name: string): NameBytes {
  return { bytes: Buffer.from(name, 'utf8'), hash: javaStringHash(name) };
}

/**
 * The properties of one message as ranges over bytes, in insertion order, without an object per property. `read` fills it, `put`
 * adds or replaces, `write` gives the stored text in Java's order. One table is reused for all messages of an owner.
 */
export class PropertyTable {
  /** Number of entries. */
  count = 0;
  #source: Uint8Array[] = [];
  #hash = new Int32Array(32);
  /** nameStart, nameEnd, valueStart, valueEnd. */
  #range = new Int32Array(32 * 4);
  /** Insertion indexes in stored order, made by `write`. */
  #order = new Int32Array(32);
  #slot = new Int32Array(32);
  /** The hashes that `#order` was made for. */
  #sortedHash = new Int32Array(32);
  #sortedCount = -1;
  /** One bit for each entry's hash: most names that are looked for are not there, and found out by it. */
  #bits = 0;
  /** With MANY entries and more: entry number + 1 by `indexHash`, 0 where free; open addressing, at most half full. */
  #index = new Int32Array(0);

  /** Replaces the content by the pairs in `bytes[start, end)`; pairs that RocketMQ's reader drops (no or empty name or value) are dropped. */
  read(bytes: Uint8Array, start: number, end: number): void {
    this.count = 0;
    this.#bits = 0;
    let at = start;
    while (at < end) {
      const nameStart = at;
      let hash = 0;
      let highBits = 0;
      let byte = bytes[at]!;
      while (byte !== NAME_END && byte !== PAIR_END) {
        hash = (Math.imul(hash, 31) + byte) | 0;
        highBits |= byte;
        if (++at === end) return;
        byte = bytes[at]!;
      }
      const nameEnd = at++;
      if (byte === PAIR_END) continue;
      const valueStart = at;
      at = indexOfByte(bytes, PAIR_END, at, end);
      if (nameEnd > nameStart && at > valueStart) {
        if (highBits >= 0x80) hash = javaHashUtf8(bytes, nameStart, nameEnd);
        this.#add(bytes, hash, nameStart, nameEnd, valueStart, at);
      }
      at++;
    }
  }

  /** Sets a property from bytes that stay unchanged until `write`. A replaced property keeps its place, as in a HashMap. */
  put(name: NameBytes, value: Uint8Array): void {
    const index = this.find(name);
    if (index >= 0) {
      // The name's range and the value's must lie in one buffer: store the pair anew in place.
      const pair = this.#pair(name.bytes, value);
      this.#set(index, pair, name.hash, 0, name.bytes.length, name.bytes.length + 1, pair.length);
      return;
    }
    const pair = this.#pair(name.bytes, value);
    this.#append(pair, name.hash, 0, name.bytes.length, name.bytes.length + 1, pair.length);
  }

  /** As `put`, with name and value already side by side in `pair[0, end)` (name 0x01 value): no copy. */
  putPair(name: NameBytes, pair: Uint8Array, end: number = pair.length): void {
    const index = this.find(name);
    const nameLength = name.bytes.length;
    if (index >= 0) this.#set(index, pair, name.hash, 0, nameLength, nameLength + 1, end);
    else this.#append(pair, name.hash, 0, nameLength, nameLength + 1, end);
  }

  /** Takes entry `index` out; those behind it move up. */
  remove(index: number): void {
    const range = this.#range;
    for (let i = index + 1; i < this.count; i++) {
      this.#source[i - 1] = this.#source[i]!;
      this.#hash[i - 1] = this.#hash[i]!;
      range.copyWithin((i - 1) * 4, i * 4, i * 4 + 4);
    }
    this.count--;
    if (this.count >= MANY) this.#addToIndex(MANY - 1);
  }

  /** Index of a property, -1 if absent. */
  find(name: NameBytes): number {
    return this.#find(name.hash, name.bytes, 0, name.bytes.length);
  }

  #find(hash: number, bytes: Uint8Array, nameStart: number, length: number): number {
    if (((this.#bits >>> (hash & 31)) & 1) === 0) return -1;
    if (this.count >= MANY) return this.#findIndexed(hash, bytes, nameStart, length);
    for (let i = 0; i < this.count; i++) {
      if (this.#hash[i] === hash && this.#hasName(i, bytes, nameStart, length)) return i;
    }
    return -1;
  }

  #findIndexed(hash: number, bytes: Uint8Array, nameStart: number, length: number): number {
    const index = this.#index;
    const mask = index.length - 1;
    let slot = indexHash(bytes, nameStart, nameStart + length) & mask;
    for (; index[slot] !== 0; slot = (slot + 1) & mask) {
      const i = index[slot]! - 1;
      if (this.#hash[i] === hash && this.#hasName(i, bytes, nameStart, length)) return i;
    }
    return -1;
  }

  #hasName(i: number, bytes: Uint8Array, nameStart: number, length: number): boolean {
    const start = this.#range[i * 4]!;
    return this.#range[i * 4 + 1]! - start === length && sameBytes(this.#source[i]!, start, bytes, nameStart, length);
  }

  /** Puts the entries from `first` on into the index. */
  #addToIndex(first: number): void {
    let from = first;
    if (this.count * 2 > this.#index.length || first + 1 === MANY) {
      let size = INDEX_SLOTS;
      while (size < 4 * this.count) size *= 2;
      this.#index = new Int32Array(size);
      from = 0;
    }
    const index = this.#index;
    const mask = index.length - 1;
    for (let i = from; i < this.count; i++) {
      let slot = indexHash(this.#source[i]!, this.#range[i * 4]!, this.#range[i * 4 + 1]!) & mask;
      while (index[slot] !== 0) slot = (slot + 1) & mask;
      index[slot] = i + 1;
    }
  }

  /** The text of a value; undefined if absent. */
  get(name: NameBytes): string | undefined {
    const index = this.find(name);
    return index < 0 ? undefined : this.valueText(index);
  }

  valueText(index: number): string {
    const source = this.#source[index]!;
    const start = this.#range[index * 4 + 2]!;
    return Buffer.from(source.buffer, source.byteOffset + start, this.#range[index * 4 + 3]! - start).toString('utf8');
  }

  /** The bytes that hold entry `index`; its value is `[valueStart(index), valueEnd(index))` of them. */
  sourceOf(index: number): Uint8Array {
    return this.#source[index]!;
  }
  valueStart(index: number): number {
    return this.#range[index * 4 + 2]!;
  }
  valueEnd(index: number): number {
    return this.#range[index * 4 + 3]!;
  }

  /** Java hash of entry `index`'s name. */
  hashAt(index: number): number {
    return this.#hash[index]!;
  }

  /** Whether a name with this Java hash is there; hashes of different names may collide. */
  hasHash(hash: number): boolean {
    for (let i = 0; i < this.count; i++) if (this.#hash[i] === hash) return true;
    return false;
  }

  /** Bytes that `write` will take. */
  bytes(): number {
    let total = 0;
    for (let i = 0; i < this.count; i++) {
      total += this.#range[i * 4 + 1]! - this.#range[i * 4]! + this.#range[i * 4 + 3]! - this.#range[i * 4 + 2]! + 2;
    }
    return total;
  }

  /** Writes the stored text at `target[at...]` in Java's order; answers the position behind it. The target must have room for `bytes()`. */
  write(target: Uint8Array, at: number): number {
    const count = this.count;
    this.#sort();
    const order = this.#order;
    const range = this.#range;
    let p = at;
    for (let i = 0; i < count; i++) {
      const index = order[i]!;
      const r = index * 4;
      // Name, 0x01 and value lie side by side wherever they come from.
      p = copy(this.#source[index]!, range[r]!, range[r + 3]!, target, p);
      target[p++] = PAIR_END;
    }
    return p;
  }

  /** Sets `#order`. A producer's messages have the same names in the same order, and then it is there already. */
  #sort(): void {
    const count = this.count;
    const hash = this.#hash;
    const sorted = this.#sortedHash;
    let same = count === this.#sortedCount;
    for (let i = 0; same && i < count; i++) same = hash[i] === sorted[i];
    if (same) return;
    let capacity = BROKER_CAPACITY;
    while (count > capacity * 0.75) capacity *= 2;
    const order = this.#order;
    const slot = this.#slot;
    if (count >= MANY) {
      for (let i = 0; i < count; i++) {
        order[i] = i;
        slot[i] = spread(hash[i]!) & (capacity - 1);
        sorted[i] = hash[i]!;
      }
      order.subarray(0, count).sort((a, b) => slot[a]! - slot[b]! || a - b);
      this.#sortedCount = count;
      return;
    }
    // A stable insertion sort by slot.
    for (let i = 0; i < count; i++) {
      const s = spread(hash[i]!) & (capacity - 1);
      let j = i - 1;
      while (j >= 0 && slot[j]! > s) {
        slot[j + 1] = slot[j]!;
        order[j + 1] = order[j]!;
        j--;
      }
      slot[j + 1] = s;
      order[j + 1] = i;
      sorted[i] = hash[i]!;
    }
    this.#sortedCount = count;
  }

  #add(
    bytes: Uint8Array,
    hash: number,
    nameStart: number,
    nameEnd: number,
    valueStart: number,
    valueEnd: number,
  ): void {
    // Duplicates: the last value wins, in the first one's place.
    const known = this.#find(hash, bytes, nameStart, nameEnd - nameStart);
    if (known >= 0) this.#set(known, bytes, hash, nameStart, nameEnd, valueStart, valueEnd);
    else this.#append(bytes, hash, nameStart, nameEnd, valueStart, valueEnd);
  }

  #append(
    bytes: Uint8Array,
    hash: number,
    nameStart: number,
    nameEnd: number,
    valueStart: number,
    valueEnd: number,
  ): void {
    if (this.count === this.#hash.length) this.#grow();
    this.#set(this.count++, bytes, hash, nameStart, nameEnd, valueStart, valueEnd);
    if (this.count >= MANY) this.#addToIndex(this.count - 1);
  }

  #set(
    index: number,
    bytes: Uint8Array,
    hash: number,
    nameStart: number,
    nameEnd: number,
    valueStart: number,
    valueEnd: number,
  ): void {
    this.#source[index] = bytes;
    this.#hash[index] = hash;
    this.#bits |= 1 << (hash & 31);
    const r = index * 4;
    this.#range[r] = nameStart;
    this.#range[r + 1] = nameEnd;
    this.#range[r + 2] = valueStart;
    this.#range[r + 3] = valueEnd;
  }

  #grow(): void {
    const size = this.#hash.length * 2;
    const grow = (old: Int32Array, length: number): Int32Array<ArrayBuffer> => {
      const fresh = new Int32Array(length);
      fresh.set(old);
      return fresh;
    };
    this.#hash = grow(this.#hash, size);
    this.#range = grow(this.#range, size * 4);
    this.#order = grow(this.#order, size);
    this.#slot = grow(this.#slot, size);
    this.#sortedHash = grow(this.#sortedHash, size);
  }

  #pair(name: Uint8Array, value: Uint8Array): Uint8Array {
    const pair = new Uint8Array(name.length + 1 + value.length);
    pair.set(name, 0);
    pair[name.length] = NAME_END;
    pair.set(value, name.length + 1);
    return pair;
  }
}

/** Parses stored or sent property text by RocketMQ's rules: needs a name and a value, the last duplicate wins. */
export function parseProperties(text: string): Map<string, string> {
  const map = new Map<string, string>();
  for (const pair of text.split('\u0002')) {
    const at = pair.indexOf('\u0001');
    if (at > 0 && at < pair.length - 1) map.set(pair.slice(0, at), pair.slice(at + 1));
  }
  return map;
}

/** As `parseProperties`, from UTF-8 bytes. */
export function parsePropertyBytes(bytes: Uint8Array, start: number, end: number): Map<string, string> {
  return parseProperties(Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('utf8'));
}

/** Property text in the map's own order. */
export function propertiesText(properties: ReadonlyMap<string, string>): string {
  let text = '';
  for (const [name, value] of properties) text += `${name}\u0001${value}\u0002`;
  return text;
}

/**
 * Property text in the order of a Java HashMap.
 * @param capacity 128 for maps that a broker re-read from text, 16 for maps that a client built.
 */
export function propertiesTextInJavaOrder(
  properties: ReadonlyMap<string, string>,
  capacity: number = BROKER_CAPACITY,
): string {
  let size = capacity;
  while (properties.size > size * 0.75) size *= 2;
  const entries = [...properties].map(([name, value], index) => {
    return { slot: spread(javaStringHash(name)) & (size - 1), index, text: `${name}\u0001${value}\u0002` };
  });
  entries.sort((a, b) => a.slot - b.slot || a.index - b.index);
  return entries.map((entry) => entry.text).join('');
}
