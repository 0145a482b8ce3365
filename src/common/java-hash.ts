// Java's String.hashCode over UTF-16 units (h = 31 * h + c, 32-bit wrap). RocketMQ uses it for tags, index keys and HashMap order.

/** Java string hash, signed 32-bit. */
export function javaStringHash(text: string): number {
  let hash = 0;
  for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0;
  return hash;
}

/**
 * Continues a Java string hash over UTF-8 bytes, decoding to UTF-16 units on the way.
 * Malformed sequences count as U+FFFD per Java's decoder for the common case of a stray byte.
 */
export function javaHashUtf8(bytes: Uint8Array, start: number, end: number, seed = 0): number {
  let hash = seed;
  let i = start;
  // Four bytes a round, so that the multiplications need not wait for each other: h * 31^4 + a * 31^3 + b * 31^2 + c * 31 + d.
  for (const last = end - 4; i <= last; i += 4) {
    const a = bytes[i]!;
    const b = bytes[i + 1]!;
    const c = bytes[i + 2]!;
    const d = bytes[i + 3]!;
    if ((a | b | c | d) >= 0x80) break;
    hash = (Math.imul(hash, 923521) + (a * 29791 + b * 961 + c * 31 + d)) | 0;
  }
  while (i < end) {
    const b = bytes[i]!;
    if (b < 0x80) {
      hash = (Math.imul(hash, 31) + b) | 0;
      i++;
    } else {
      return continueText(bytes, i, end, hash);
    }
  }
  return hash;
}

function continueText(bytes: Uint8Array, start: number, end: number, seed: number): number {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('utf8');
  let hash = seed;
  for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0;
  return hash;
}
