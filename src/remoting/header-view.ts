// A frame's header as ranges over the socket's bytes. (Being built by the scanner; the interface is the contract.)

/**
 * The header of one frame. Filled in place by the JSON scanner or the binary decoder: `count` fields, each a key range and a value
 * range in `buffer`; an `escaped` value holds JSON escapes. Headers outside the scanner's grammar are parsed by JSON.parse into
 * `parsed` instead (then `count` is 0). `get` works on both.
 */
export interface HeaderView {
  readonly code: number;
  readonly opaque: number;
  readonly flag: number;
  readonly version: number;
  /** LanguageCode name. */
  readonly language: string;
  readonly remark: string | undefined;
  readonly buffer: Uint8Array;
  /** Number of extFields in the ranges; -1 when they are in `parsed`. */
  readonly count: number;
  /** Four numbers a field: keyStart, keyEnd, valueStart, valueEnd. */
  readonly ranges: Int32Array;
  /** 1 where the value needs unescaping. */
  readonly escaped: Uint8Array;
  readonly parsed: Record<string, string> | undefined;

  /** The text of a field; undefined if absent. The last of duplicate keys wins. */
  get(name: string): string | undefined;
  /** @throws GantryError HEADER (responseCode 1) if absent. */
  required(name: string): string;
  /** i32. @throws GantryError HEADER if absent or not a number. */
  int(name: string): number;
  intOr(name: string, fallback: number): number;
  /** i64 as a number; beyond 2^53 it is rounded. @throws GantryError HEADER if absent or not a number. */
  long(name: string): number;
  longOr(name: string, fallback: number): number;
  /** Java's parseBoolean: only "true" (any case) is true. */
  bool(name: string, fallback: boolean): boolean;
  /** All fields as an object (copies). */
  toObject(): Record<string, string>;
}
