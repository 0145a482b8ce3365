// Numbers as Java reads them from text and writes them: what Integer.valueOf, Long.valueOf and Double.valueOf take, and nothing else.
// RocketMQ compares a property, which is text, with a number this way (ComparisonExpression).

/** An int or a double is a number; a long beyond 2^53 is a bigint. NaN stands for a NumberFormatException where no NaN can be a value. */
export type JavaLong = number | bigint;

const INT_MAX = 2_147_483_647;
const LONG_MAX = 2n ** 63n - 1n;
/** Digits that a number surely holds exactly. */
const EXACT_DIGITS = 15;

/** What the bytes of a whole number say if they are plain: a sign, 1 to 15 ASCII digits. NaN if they are not that plain. */
export function plainInteger(bytes: Uint8Array, start: number, end: number): number {
  const first = bytes[start]!;
  let at = first === 0x2d || first === 0x2b ? start + 1 : start;
  if (at >= end || end - at > EXACT_DIGITS) return Number.NaN;
  let value = 0;
  for (; at < end; at++) {
    const digit = bytes[at]! - 0x30;
    if (digit < 0 || digit > 9) return Number.NaN;
    value = value * 10 + digit;
  }
  // Never -0: an int has none.
  return first === 0x2d ? 0 - value : value;
}

/** Whether a whole number is an int. */
export function isInt(value: number): boolean {
  return value >= -INT_MAX - 1 && value <= INT_MAX;
}

/** Long.valueOf; undefined where it throws. */
export function javaLong(text: string): JavaLong | undefined {
  const digits = /^[+-]?\p{Nd}+$/u.test(text) ? asciiDigits(text) : undefined;
  if (digits === undefined) return undefined;
  const value = BigInt(digits);
  if (value > LONG_MAX || value < -LONG_MAX - 1n) return undefined;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

/** Integer.valueOf; undefined where it throws. */
export function javaInt(text: string): number | undefined {
  const value = javaLong(text);
  return typeof value === 'number' && isInt(value) ? value : undefined;
}

/** Java takes the decimal digits of every script that lie in the basic plane. */
function asciiDigits(text: string): string | undefined {
  let digits = '';
  for (const char of text) {
    if (char === '-' || char === '+') digits += char;
    else if (char.length > 1) return undefined;
    else digits += digitOf(char.charCodeAt(0));
  }
  return digits;
}

/** Digits of a script stand in rows of ten, beginning with its zero. */
function digitOf(code: number): number {
  if (code < 0x80) return code - 0x30;
  let before = 0;
  while (/\p{Nd}/u.test(String.fromCharCode(code - before - 1))) before++;
  return before % 10;
}

// Digits are matched by one part each: a second way to divide them makes a long text that is no number take quadratic time.
const DECIMAL = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?$/;
const HEX = /^([+-]?)0[xX](?:([0-9a-fA-F]+)\.?|([0-9a-fA-F]*)\.([0-9a-fA-F]+))[pP]([+-]?\d+)[fFdD]?$/;

/** Double.valueOf; undefined where it throws. */
export function javaDouble(text: string): number | undefined {
  // Java trims control characters and blanks, and nothing that is white space besides.
  let start = 0;
  let end = text.length;
  while (start < end && text.charCodeAt(start) <= 0x20) start++;
  while (end > start && text.charCodeAt(end - 1) <= 0x20) end--;
  const trimmed = text.slice(start, end);
  if (DECIMAL.test(trimmed)) return Number(trimmed.replace(/[fFdD]$/, ''));
  const named = /^([+-]?)(NaN|Infinity)$/.exec(trimmed);
  if (named !== null) return named[2] === 'NaN' ? Number.NaN : named[1] === '-' ? -Infinity : Infinity;
  const hex = HEX.exec(trimmed);
  if (hex === null) return undefined;
  const fraction = hex[4] ?? '';
  const mantissa = BigInt(`0x${hex[2] ?? hex[3]}${fraction}`);
  const value = scaled(mantissa, Number(hex[5]) - 4 * fraction.length);
  return hex[1] === '-' ? -value : value;
}

/** mantissa × 2^exponent, rounded once to the nearest double, to the even one of two. */
function scaled(mantissa: bigint, exponent: number): number {
  if (mantissa === 0n) return 0;
  const bits = mantissa.toString(2).length;
  const top = bits + exponent;
  if (top > 1024) return Infinity;
  if (top < -1074) return 0;
  // Bits below the last one that a double of this size has.
  const drop = Math.max(bits - 53, -1074 - exponent);
  if (drop <= 0) return Number(mantissa) * 2 ** Math.max(exponent, -1000) * 2 ** Math.min(0, exponent + 1000);
  const shift = BigInt(drop);
  let kept = mantissa >> shift;
  const rest = mantissa - (kept << shift);
  const half = 1n << (shift - 1n);
  if (rest > half || (rest === half && (kept & 1n) === 1n)) kept++;
  const rise = exponent + drop;
  return Number(kept) * 2 ** Math.max(rise, -1000) * 2 ** Math.min(0, rise + 1000);
}

/** Double.compareTo: -0.0 is below 0.0, and NaN is above all and equal to itself. */
export function compareDoubles(a: number, b: number): number {
  if (a < b) return -1;
  if (a > b) return 1;
  if (Object.is(a, b)) return 0;
  if (Number.isNaN(a)) return 1;
  if (Number.isNaN(b)) return -1;
  return Object.is(a, -0) ? -1 : 1;
}

/** Double.toString. */
export function javaDoubleText(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size === 0) return Object.is(value, -0) ? '-0.0' : '0.0';
  if (size >= 1e-3 && size < 1e7) {
    const text = String(value);
    return text.includes('.') ? text : `${text}.0`;
  }
  const [mantissa, exponent] = value.toExponential().split('e') as [string, string];
  return `${mantissa.includes('.') ? mantissa : `${mantissa}.0`}E${exponent.replace('+', '')}`;
}
