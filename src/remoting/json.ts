// JSON as RocketMQ's peers write it. Java's bodies hold what JSON.parse refuses: bare numeric keys ({0:"a"}), objects as keys
// ({{"topic":"T"}:1}), references to an object that occurred before ({"$ref":"$.a.b"}, fastjson 1), longs beyond 2^53. Plain text
// goes through JSON.parse; only what it refuses, or cannot hold, takes the parser here.

import { GantryError } from '../common/index.ts';
import { resolveReferences } from './json-references.ts';
import { setOwn } from './own-property.ts';

/** An object with string keys. */
export interface JsonObject {
  [key: string]: JsonValue;
}
/** What JSON text becomes; an object that has objects as keys becomes a Map, a long beyond 2^53 a bigint if exactness was asked for. */
export type JsonValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | JsonValue[]
  | JsonObject
  | Map<JsonValue, JsonValue>;

export interface ParseJsonOptions {
  /** Whole numbers beyond 2^53 - 1 become bigint instead of being rounded. Default false. */
  exactLongs?: boolean;
  /** Never tries JSON.parse. Default false. */
  lenientOnly?: boolean;
  /** Whether references are replaced by what they name. Default true. */
  references?: boolean;
}

/** Deeper nesting is refused: no body comes near, and the parser recurses. */
const MAX_DEPTH = 256;
const LONG_DIGITS = /[0-9]{16}/;

/**
 * Parses a text or its UTF-8 bytes.
 * @throws GantryError JSON if it is no JSON in any dialect that RocketMQ writes.
 */
export function parseJson(source: string | Uint8Array, options: ParseJsonOptions = {}): JsonValue {
  const text =
    typeof source === 'string'
      ? source
      : Buffer.from(source.buffer, source.byteOffset, source.byteLength).toString('utf8');
  const value = parseText(text, options);
  return options.references !== false && text.includes('"$ref"') ? resolveReferences(value) : value;
}

function parseText(text: string, options: ParseJsonOptions): JsonValue {
  if (options.lenientOnly !== true && !(options.exactLongs === true && LONG_DIGITS.test(text))) {
    try {
      return JSON.parse(text) as JsonValue;
    } catch {
      // The lenient parser decides, and says what is wrong.
    }
  }
  return new LenientParser(text, options.exactLongs === true).parse();
}

class LenientParser {
  readonly #text: string;
  readonly #exactLongs: boolean;
  #at = 0;
  #depth = 0;

  constructor(text: string, exactLongs: boolean) {
    this.#text = text;
    this.#exactLongs = exactLongs;
  }

  parse(): JsonValue {
    const value = this.#value();
    this.#skipSpace();
    if (this.#at < this.#text.length) throw this.#error('text after the end');
    return value;
  }

  #value(): JsonValue {
    this.#skipSpace();
    const char = this.#text[this.#at];
    switch (char) {
      case '{':
        return this.#object();
      case '[':
        return this.#array();
      case '"':
      case "'":
        return this.#string(char);
      case 't':
        return this.#word('true', true);
      case 'f':
        return this.#word('false', false);
      case 'n':
        return this.#word('null', null);
      case 'N':
        return this.#word('NaN', null);
      default:
        return this.#number();
    }
  }

  #object(): JsonValue {
    this.#enter();
    const object: JsonObject = {};
    let map: Map<JsonValue, JsonValue> | undefined;
    this.#skipSpace();
    while (this.#text[this.#at] !== '}') {
      const key = this.#key();
      this.#skipSpace();
      this.#expect(':');
      const value = this.#value();
      if (map === undefined && typeof key === 'object') map = new Map(Object.entries(object));
      if (map !== undefined) map.set(key, value);
      else setOwn(object, String(key), value);
      if (!this.#more('}')) break;
    }
    this.#expect('}');
    this.#depth--;
    return map ?? object;
  }

  /** A string, a bare number or word, or an object. */
  #key(): JsonValue {
    this.#skipSpace();
    const char = this.#text[this.#at];
    if (char === '"' || char === "'") return this.#string(char);
    if (char === '{') return this.#object();
    if (char === '[') return this.#array();
    const bare = /[-+\w.$]+/y;
    bare.lastIndex = this.#at;
    const match = bare.exec(this.#text);
    if (match === null) throw this.#error('a key was expected');
    this.#at = bare.lastIndex;
    return match[0];
  }

  #array(): JsonValue {
    this.#enter();
    const array: JsonValue[] = [];
    this.#skipSpace();
    while (this.#text[this.#at] !== ']') {
      array.push(this.#value());
      if (!this.#more(']')) break;
    }
    this.#expect(']');
    this.#depth--;
    return array;
  }

  #string(quote: string): string {
    const start = this.#at + 1;
    let at = start;
    let escaped = false;
    for (;;) {
      const char = this.#text[at];
      if (char === undefined) throw this.#error('a string does not end');
      if (char === quote) break;
      if (char === '\\') {
        escaped = true;
        at++;
      }
      at++;
    }
    this.#at = at + 1;
    const raw = this.#text.slice(start, at);
    return escaped ? this.#unescape(raw) : raw;
  }

  #unescape(raw: string): string {
    return raw.replace(/\\(?:u([0-9a-fA-F]{4})|([\s\S]))/g, (_all, digits: string | undefined, letter: string) => {
      if (digits !== undefined) return String.fromCharCode(Number.parseInt(digits, 16));
      const index = `"\\/bfnrt'`.indexOf(letter);
      if (index < 0) throw this.#error(`the escape \\${letter} means nothing`);
      return `"\\/\b\f\n\r\t'`[index]!;
    });
  }

  #word<T>(word: string, value: T): T {
    if (!this.#text.startsWith(word, this.#at)) throw this.#error('a value was expected');
    this.#at += word.length;
    return value;
  }

  #number(): number | bigint {
    const pattern = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/y;
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#text);
    if (match === null) throw this.#error('a value was expected');
    this.#at = pattern.lastIndex;
    const value = Number(match[0]);
    const whole = match[1] === undefined && match[2] === undefined;
    if (this.#exactLongs && whole && !Number.isSafeInteger(value) && match[0].length < 100) return BigInt(match[0]);
    return value;
  }

  /** Steps over a comma; false if there is none. */
  #more(close: string): boolean {
    this.#skipSpace();
    if (this.#text[this.#at] !== ',') return false;
    this.#at++;
    this.#skipSpace();
    if (this.#text[this.#at] === close) throw this.#error('a comma before the end');
    return true;
  }

  #enter(): void {
    if (++this.#depth > MAX_DEPTH) throw this.#error(`nested deeper than ${MAX_DEPTH}`);
    this.#at++;
  }

  #expect(char: string): void {
    if (this.#text[this.#at] !== char) throw this.#error(`${char} was expected`);
    this.#at++;
  }

  #skipSpace(): void {
    const space = /[\s\uFEFF]*/y;
    space.lastIndex = this.#at;
    space.test(this.#text);
    this.#at = space.lastIndex;
  }

  #error(what: string): GantryError {
    return new GantryError('JSON', `not JSON at character ${this.#at}: ${what}`, { responseCode: 1 });
  }
}
