// The bits that a consumer group has in the ext unit of a message: set where the group's expression matched when the message was dispatched, so
// that a pull need not read the messages that surely do not match. docs/formats/consume-queue.md. RocketMQ: BloomFilter, BloomFilterData,
// BitsArray; positions are those of Guava's murmur3_128.

import { GantryError } from '../common/index.ts';

/** The positions of one group and topic, among `bitNum`. */
export interface BloomFilterData {
  readonly bitNum: number;
  readonly bitPos: readonly number[];
}

export class BloomFilter {
  /** Bits of one message, a multiple of 8. */
  readonly bits: number;
  /** Positions of one group. */
  readonly hashes: number;

  /**
   * @param errorRate RocketMQ: maxErrorRateOfBloomFilter, in percent
   * @param consumers RocketMQ: expectConsumerNumUseFilter
   * @throws GantryError CONFIG_VALUE outside 1 to 99 % and below one consumer
   */
  constructor(errorRate: number, consumers: number) {
    if (errorRate < 1 || errorRate >= 100 || consumers < 1) {
      throw new GantryError(
        'CONFIG_VALUE',
        `maxErrorRateOfBloomFilter=${errorRate} is not from 1 to 99, or expectConsumerNumUseFilter=${consumers} is below 1`,
      );
    }
    const rate = errorRate / 100;
    this.hashes = Math.ceil(log(0.5, rate));
    this.bits = 8 * Math.ceil(Math.ceil(consumers * log(2, 1 / rate) * log(2, Math.E)) / 8);
  }

  /** The positions of a group and a topic. */
  of(group: string, topic: string): BloomFilterData {
    const hash = murmur3Low(Buffer.from(`${group}#${topic}`, 'utf8'));
    const first = Number(BigInt.asIntN(32, hash));
    const second = Number(BigInt.asIntN(32, hash >> 32n));
    const bitPos: number[] = [];
    for (let i = 1; i <= this.hashes; i++) {
      const sum = (first + Math.imul(i, second)) | 0;
      bitPos.push((sum < 0 ? ~sum : sum) % this.bits);
    }
    return { bitNum: this.bits, bitPos };
  }

  /** Whether positions are of a filter like this one. */
  isValid(data: BloomFilterData): boolean {
    return data.bitNum === this.bits && data.bitPos.length === this.hashes;
  }
}

/** Sets a group's bits. */
export function setBits(bits: Uint8Array, positions: readonly number[]): void {
  for (let i = 0; i < positions.length; i++) bits[positions[i]! >> 3]! |= 1 << (positions[i]! & 7);
}

/** Whether all of a group's bits are set in those at `bytes[at...]`. */
export function hasBits(bytes: Uint8Array, at: number, positions: readonly number[]): boolean {
  for (let i = 0; i < positions.length; i++) {
    const position = positions[i]!;
    if ((bytes[at + (position >> 3)]! & (1 << (position & 7))) === 0) return false;
  }
  return true;
}

function log(base: number, value: number): number {
  return Math.log(value) / Math.log(base);
}

const MASK = (1n << 64n) - 1n;
const C1 = 0x87c37b91114253d5n;
const C2 = 0x4cf5ad432745937fn;

/** The low 64 bits of MurmurHash3 x64 128 with seed 0. Once a subscription, so that bigint is quick enough. */
function murmur3Low(bytes: Buffer): bigint {
  let h1 = 0n;
  let h2 = 0n;
  const blocks = Math.floor(bytes.length / 16) * 16;
  for (let at = 0; at < blocks; at += 16) {
    h1 ^= mixFirst(bytes.readBigUInt64LE(at));
    h1 = (((rotate(h1, 27n) + h2) & MASK) * 5n + 0x52dce729n) & MASK;
    h2 ^= mixSecond(bytes.readBigUInt64LE(at + 8));
    h2 = (((rotate(h2, 31n) + h1) & MASK) * 5n + 0x38495ab5n) & MASK;
  }
  const tail = Buffer.alloc(16);
  bytes.copy(tail, 0, blocks);
  h1 ^= mixFirst(tail.readBigUInt64LE(0)) ^ BigInt(bytes.length);
  h2 ^= mixSecond(tail.readBigUInt64LE(8)) ^ BigInt(bytes.length);
  h1 = (h1 + h2) & MASK;
  h2 = (h2 + h1) & MASK;
  h1 = last(h1);
  h2 = last(h2);
  return (h1 + h2) & MASK;
}

function rotate(value: bigint, bits: bigint): bigint {
  return ((value << bits) | (value >> (64n - bits))) & MASK;
}

function mixFirst(k: bigint): bigint {
  return (rotate((k * C1) & MASK, 31n) * C2) & MASK;
}

function mixSecond(k: bigint): bigint {
  return (rotate((k * C2) & MASK, 33n) * C1) & MASK;
}

function last(value: bigint): bigint {
  let h = value;
  h = ((h ^ (h >> 33n)) * 0xff51afd7ed558ccdn) & MASK;
  h = ((h ^ (h >> 33n)) * 0xc4ceb9fe1a85ec53n) & MASK;
  return h ^ (h >> 33n);
}
