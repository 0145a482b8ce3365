// Whether a text is a number as Java reads one. RocketMQ: Long#valueOf, Integer#parseInt.

const DIGITS = /^[+-]?\d{1,30}$/;

/** A long that JavaScript holds exactly. */
export function isSafeLong(text: string): boolean {
  return DIGITS.test(text) && Number.isSafeInteger(Number(text));
}

export function isJavaInt(text: string): boolean {
  const value = DIGITS.test(text) ? Number(text) : Number.NaN;
  return (value | 0) === value;
}

/** A whole number of a JSON text; `fallback` if it is missing, undefined if it is anything else. */
export function wholeNumber(value: unknown, fallback: number): number | undefined {
  if (value === undefined || value === null) return fallback;
  if (typeof value === 'string' && isSafeLong(value)) return Number(value);
  return Number.isSafeInteger(value) ? (value as number) : undefined;
}

/** A list of whole numbers; undefined if it is anything else, empty if it is missing. */
export function wholeNumbers(value: unknown): number[] | undefined {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) return undefined;
  return value.every((item) => Number.isSafeInteger(item)) ? (value as number[]) : undefined;
}
