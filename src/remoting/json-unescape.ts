// Strings as they lie in a JSON text, turned into what they mean without a JSON parser: a message's properties go from the
// header's bytes straight into its record.

/**
 * Value of a hexadecimal digit by its byte; -1 for all other bytes. Also tells the scanner what is a digit.
 */
export const HEX_VALUE: Int8Array = hexTable();
/** What a one-letter escape stands for, by the letter's byte; 0 for `u` and for bytes that may not follow a backslash. */
export const SHORT_ESCAPE: Uint8Array = shortEscapes();

const BACKSLASH = 0x5c;
const QUESTION_MARK = 0x3f;

function hexTable(): Int8Array {
  const table = new Int8Array(256).fill(-1);
  for (let i = 0; i < 16; i++) {
    table['0123456789abcdef'.charCodeAt(i)] = i;
    table['0123456789ABCDEF'.charCodeAt(i)] = i;
  }
  return table;
}

function shortEscapes(): Uint8Array {
  const table = new Uint8Array(256);
  const letters = '"\\/bfnrt';
  const meanings = '"\\/\b\f\n\r\t';
  for (let i = 0; i < letters.length; i++) table[letters.charCodeAt(i)] = meanings.charCodeAt(i);
  return table;
}

/** The UTF-16 unit of the four digits at `at`. They were checked by the scanner. */
function unitAt(buffer: Uint8Array, at: number): number {
  return (
    (HEX_VALUE[buffer[at]!]! << 12) |
    (HEX_VALUE[buffer[at + 1]!]! << 8) |
    (HEX_VALUE[buffer[at + 2]!]! << 4) |
    HEX_VALUE[buffer[at + 3]!]!
  );
}

/**
 * Writes the UTF-8 of the JSON string content `buffer[start, end)` (without its quotes, checked by the scanner) to `target` from
 * `at` on, and returns where it ended. What it writes is never longer than `end - start` bytes.
 * RocketMQ: half of a surrogate pair becomes `?`, as Java's encoder makes it.
 */
export function unescapeInto(buffer: Uint8Array, start: number, end: number, target: Uint8Array, at: number): number {
  let i = start;
  let out = at;
  for (;;) {
    // What is plain, four bytes a round, and the rest of it up to the next escape.
    for (const last = end - 4; i <= last; i += 4, out += 4) {
      const a = buffer[i]!;
      const b = buffer[i + 1]!;
      const c = buffer[i + 2]!;
      const d = buffer[i + 3]!;
      if (a === BACKSLASH || b === BACKSLASH || c === BACKSLASH || d === BACKSLASH) break;
      target[out] = a;
      target[out + 1] = b;
      target[out + 2] = c;
      target[out + 3] = d;
    }
    while (i < end && buffer[i] !== BACKSLASH) target[out++] = buffer[i++]!;
    if (i >= end) return out;
    const letter = buffer[i + 1]!;
    if (letter !== 0x75) {
      target[out++] = SHORT_ESCAPE[letter]!;
      i += 2;
      continue;
    }
    let unit = unitAt(buffer, i + 2);
    i += 6;
    if (unit < 0x80) {
      target[out++] = unit;
    } else if (unit < 0x800) {
      target[out++] = 0xc0 | (unit >> 6);
      target[out++] = 0x80 | (unit & 0x3f);
    } else if (unit < 0xd800 || unit > 0xdfff) {
      target[out++] = 0xe0 | (unit >> 12);
      target[out++] = 0x80 | ((unit >> 6) & 0x3f);
      target[out++] = 0x80 | (unit & 0x3f);
    } else {
      let low = 0;
      if (unit < 0xdc00 && i + 6 <= end && buffer[i] === BACKSLASH && buffer[i + 1] === 0x75)
        low = unitAt(buffer, i + 2);
      if (low < 0xdc00 || low > 0xdfff) {
        target[out++] = QUESTION_MARK;
        continue;
      }
      i += 6;
      unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
      target[out++] = 0xf0 | (unit >> 18);
      target[out++] = 0x80 | ((unit >> 12) & 0x3f);
      target[out++] = 0x80 | ((unit >> 6) & 0x3f);
      target[out++] = 0x80 | (unit & 0x3f);
    }
  }
}

/** The same content as a string. */
export function unescapeText(buffer: Uint8Array, start: number, end: number): string {
  const bytes = Buffer.allocUnsafe(end - start);
  return bytes.toString('utf8', 0, unescapeInto(buffer, start, end, bytes, 0));
}
