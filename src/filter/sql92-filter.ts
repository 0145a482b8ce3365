// An SQL92 expression made ready to run on a record's property bytes as they lie in the log: one pass finds the values of the properties that it
// names, as ranges, and closures over these ranges decide. No map, no text and no object is made for a message, but where a value must be
// read as Java reads it (a property beside a property, numbers with exponents).
//
// Three-valued logic with a fourth outcome: FAIL is an exception in Java (a text where a number should be), which ends the evaluation
// wherever it happens; like NULL, it is no match.

import { indexOfByte, sameBytes } from '../common/index.ts';
import { compareDoubles, isInt, javaDouble, plainInteger } from './java-number.ts';
import { compareValues, equalValues, FAILED, JavaNumber, type JavaValue } from './java-value.ts';
import { type Expression, type Order, type Part, parseSql92, refusal } from './sql92-tree.ts';

/** What an expression says of a message. */
export const Verdict = { NO: 0, YES: 1, NULL: 2, FAIL: 3 } as const;
export type Verdict = number;

const { NO, YES, NULL, FAIL } = Verdict;

type Test = () => Verdict;
type Operand = () => JavaValue | typeof FAILED;

const NAME_END = 0x01;
const PAIR_END = 0x02;
/** Alternatives of an IN from which a set is quicker. */
const MANY_TEXTS = 12;
const EMPTY = new Uint8Array(0);

/** Where the named properties of one record lie. `ends[slot]` is 0 for one that is not there. */
class Properties {
  bytes: Uint8Array = EMPTY;
  readonly names: Uint8Array[] = [];
  starts: Int32Array = new Int32Array(0);
  ends: Int32Array = new Int32Array(0);
  /** By length of the name: its first slot, and behind each slot the next one of the same length; -1 ends. */
  #first: Int32Array = new Int32Array(0);
  #next: Int32Array = new Int32Array(0);

  readonly #slots = new Map<string, number>();

  slot(name: string): number {
    let slot = this.#slots.get(name);
    if (slot === undefined) {
      slot = this.names.push(Buffer.from(name, 'utf8')) - 1;
      this.#slots.set(name, slot);
    }
    return slot;
  }

  /** All names are known. */
  seal(): void {
    const count = this.names.length;
    this.starts = new Int32Array(count);
    this.ends = new Int32Array(count);
    this.#next = new Int32Array(count);
    this.#first = new Int32Array(this.names.reduce((most, name) => Math.max(most, name.length), 0) + 1).fill(-1);
    for (let slot = count - 1; slot >= 0; slot--) {
      const { length } = this.names[slot]!;
      this.#next[slot] = this.#first[length]!;
      this.#first[length] = slot;
    }
  }

  /** RocketMQ: string2messageProperties: a pair needs a name and a value, the last duplicate wins. */
  scan(bytes: Uint8Array, start: number, end: number): void {
    this.bytes = bytes;
    this.ends.fill(0);
    const { names } = this;
    const longest = this.#first.length;
    let at = start;
    while (at < end) {
      const nameStart = at;
      let byte = bytes[at]!;
      while (byte !== NAME_END && byte !== PAIR_END && ++at < end) byte = bytes[at]!;
      if (at >= end) return;
      if (byte === PAIR_END) {
        at++;
        continue;
      }
      const length = at - nameStart;
      const valueStart = at + 1;
      at = indexOfByte(bytes, PAIR_END, valueStart, end);
      if (length > 0 && length < longest && at > valueStart) {
        for (let slot = this.#first[length]!; slot >= 0; slot = this.#next[slot]!) {
          if (!sameBytes(names[slot]!, 0, bytes, nameStart, length)) continue;
          this.starts[slot] = valueStart;
          this.ends[slot] = at;
          break;
        }
      }
      at++;
    }
  }

  text(slot: number): string {
    const { bytes } = this;
    const start = this.starts[slot]!;
    return Buffer.from(bytes.buffer, bytes.byteOffset + start, this.ends[slot]! - start).toString('utf8');
  }
}

/** A compiled expression. RocketMQ: SqlFilter and what MessageEvaluationContext gives it. */
export class Sql92Filter {
  readonly #properties = new Properties();
  readonly #test: Test;

  /** @throws GantryError SUBSCRIPTION (responseCode 23) on an expression that RocketMQ refuses, with its text. */
  constructor(expression: string) {
    try {
      this.#test = test(parseSql92(expression), this.#properties);
    } catch (error) {
      // RocketMQ: nesting that is too deep ends its stack, too, and is an error like any other.
      if (error instanceof RangeError) throw refusal('java.lang.StackOverflowError');
      throw error;
    }
    this.#properties.seal();
  }

  /** Whether a message with the property text `bytes[start, end)` matches. */
  matches(bytes: Uint8Array, start: number, end: number): boolean {
    return this.verdict(bytes, start, end) === YES;
  }

  /** What the expression says of that message; only YES is a match. */
  verdict(bytes: Uint8Array, start: number, end: number): Verdict {
    this.#properties.scan(bytes, start, end);
    try {
      return this.#test();
    } catch (error) {
      // RocketMQ: then it matches nothing.
      if (error instanceof RangeError) return FAIL;
      throw error;
    }
  }
}

// --- Conditions

function test(tree: Expression, properties: Properties): Test {
  switch (tree.kind) {
    case 'and':
      return chain(tree.items, NO, properties);
    case 'or':
      return chain(tree.items, YES, properties);
    case 'not': {
      const of = test(tree.of, properties);
      return () => {
        const verdict = of();
        return verdict <= YES ? 1 - verdict : verdict;
      };
    }
    case 'cast': {
      const slot = properties.slot((tree.of as { name: string }).name);
      // RocketMQ: a property is text and never a boolean.
      return () => (properties.ends[slot] === 0 ? NULL : NO);
    }
    case 'constant': {
      const verdict = tree.value === null ? NULL : tree.value === true ? YES : NO;
      return () => verdict;
    }
    case 'equal':
      return equal(tree.left, tree.right, properties);
    case 'order':
      return order(tree.op, tree.left, tree.right, properties);
    case 'part':
      return part(tree.what, tree.not, tree.of, tree.text, properties);
    case 'in':
      return oneOf(tree.not, properties.slot((tree.of as { name: string }).name), tree.texts, properties);
    default:
      throw new Error(`${tree.kind} is no condition`);
  }
}

/** AND, which ends at the first NO, or OR, which ends at the first YES. */
function chain(trees: readonly Expression[], end: Verdict, properties: Properties): Test {
  const items = trees.map((tree) => test(tree, properties));
  return () => {
    let verdict: Verdict = 1 - end;
    for (let i = 0; i < items.length; i++) {
      const item = items[i]!();
      if (item === end || item === FAIL) return item;
      if (item === NULL) verdict = NULL;
    }
    return verdict;
  };
}

function equal(left: Expression, right: Expression, properties: Properties): Test {
  if (left.kind === 'property' && right.kind === 'constant') {
    const slot = properties.slot(left.name);
    const { value } = right;
    if (value === null) return () => (properties.ends[slot] === 0 ? YES : NO);
    if (typeof value === 'string') return sameText(slot, value, properties);
    if (value instanceof JavaNumber) return compareWith(slot, value, properties, (sign) => sign === 0);
  }
  const [first, second] = [operand(left, properties), operand(right, properties)];
  return () => {
    const a = first();
    if (a === FAILED) return FAIL;
    const b = second();
    if (b === FAILED) return FAIL;
    // RocketMQ: two that are missing are equal.
    if (a === null) return b === null ? YES : NULL;
    if (b === null) return NO;
    if (equalValues(a, b)) return YES;
    const sign = compareValues(a, b);
    return sign === FAILED ? FAIL : sign === 0 ? YES : NO;
  };
}

function sameText(slot: number, text: string, properties: Properties): Test {
  const wanted = Buffer.from(text, 'utf8');
  const { length } = wanted;
  return () => {
    const end = properties.ends[slot]!;
    if (end === 0) return NULL;
    const start = properties.starts[slot]!;
    return end - start === length && sameBytes(wanted, 0, properties.bytes, start, length) ? YES : NO;
  };
}

const HOLDS: Record<Order, (sign: number) => boolean> = {
  '>': (sign) => sign > 0,
  '>=': (sign) => sign >= 0,
  '<': (sign) => sign < 0,
  '<=': (sign) => sign <= 0,
};

function order(op: Order, left: Expression, right: Expression, properties: Properties): Test {
  const holds = HOLDS[op];
  const constant = folded(right);
  if (left.kind === 'property' && constant instanceof JavaNumber) {
    return compareWith(properties.slot(left.name), constant, properties, holds);
  }
  const [first, second] = [operand(left, properties), operand(right, properties)];
  return () => {
    let a = first();
    if (a === FAILED) return FAIL;
    if (a === null) return NULL;
    let b = second();
    if (b === FAILED) return FAIL;
    if (b === null) return NULL;
    if (typeof a === 'string' && typeof b === 'string') {
      // RocketMQ: texts have no order but that of the numbers that they are.
      a = asDouble(a);
      b = asDouble(b);
      if (a === FAILED || b === FAILED) return FAIL;
    }
    const sign = compareValues(a, b);
    return sign === FAILED ? FAIL : holds(sign) ? YES : NO;
  };
}

function asDouble(text: string): JavaNumber | typeof FAILED {
  const value = javaDouble(text);
  return value === undefined ? FAILED : new JavaNumber('double', value);
}

function compareWith(slot: number, number: JavaNumber, properties: Properties, holds: (sign: number) => boolean): Test {
  const { type, value } = number;
  const exact = typeof value === 'number';
  return () => {
    const end = properties.ends[slot]!;
    if (end === 0) return NULL;
    const plain = exact ? plainInteger(properties.bytes, properties.starts[slot]!, end) : Number.NaN;
    if (exact && !Number.isNaN(plain)) {
      if (type === 'double') return holds(compareDoubles(plain, value)) ? YES : NO;
      if (type === 'int' && !isInt(plain)) return FAIL;
      return holds(plain - value) ? YES : NO;
    }
    const sign = compareValues(properties.text(slot), number);
    return sign === FAILED ? FAIL : holds(sign) ? YES : NO;
  };
}

function part(what: Part, not: boolean, of: Expression, text: string, properties: Properties): Test {
  const hit = not ? NO : YES;
  if (text === '') return () => NO;
  if (of.kind !== 'property') {
    const value = operand(of, properties);
    return () => {
      const found = value();
      if (found === FAILED) return FAIL;
      if (typeof found !== 'string') return NO;
      const has =
        what === 'CONTAINS'
          ? found.includes(text)
          : what === 'STARTSWITH'
            ? found.startsWith(text)
            : found.endsWith(text);
      return has ? hit : 1 - hit;
    };
  }
  const slot = properties.slot(of.name);
  const wanted = Buffer.from(text, 'utf8');
  const has = what === 'CONTAINS' ? holdsBytes : what === 'STARTSWITH' ? beginsWith : endsWith;
  return () => {
    const end = properties.ends[slot]!;
    // RocketMQ: NO even with NOT.
    if (end === 0) return NO;
    return has(properties.bytes, properties.starts[slot]!, end, wanted) ? hit : 1 - hit;
  };
}

// UTF-8 keeps what holds of texts: one holds another where its bytes do.

function holdsBytes(bytes: Uint8Array, start: number, end: number, wanted: Uint8Array): boolean {
  const last = end - wanted.length;
  const head = wanted[0];
  for (let at = start; at <= last; at++) {
    if (bytes[at] === head && sameBytes(wanted, 0, bytes, at, wanted.length)) return true;
  }
  return false;
}

function beginsWith(bytes: Uint8Array, start: number, end: number, wanted: Uint8Array): boolean {
  return end - start >= wanted.length && sameBytes(wanted, 0, bytes, start, wanted.length);
}

function endsWith(bytes: Uint8Array, start: number, end: number, wanted: Uint8Array): boolean {
  return end - start >= wanted.length && sameBytes(wanted, 0, bytes, end - wanted.length, wanted.length);
}

function oneOf(not: boolean, slot: number, texts: readonly string[], properties: Properties): Test {
  const hit = not ? NO : YES;
  if (texts.length >= MANY_TEXTS) {
    const set = new Set(texts);
    return () => (properties.ends[slot] === 0 ? NULL : set.has(properties.text(slot)) ? hit : 1 - hit);
  }
  const wanted = texts.map((text) => Buffer.from(text, 'utf8'));
  return () => {
    const end = properties.ends[slot]!;
    if (end === 0) return NULL;
    const start = properties.starts[slot]!;
    for (let i = 0; i < wanted.length; i++) {
      const { length } = wanted[i]!;
      if (end - start === length && sameBytes(wanted[i]!, 0, properties.bytes, start, length)) return hit;
    }
    return 1 - hit;
  };
}

// --- Operands

/** The value of an expression that no message changes; FAILED if there is none. */
function folded(tree: Expression): JavaValue | typeof FAILED {
  if (tree.kind === 'constant') return tree.value;
  if (tree.kind !== 'negate') return FAILED;
  const of = folded(tree.of);
  return of === FAILED ? FAILED : of instanceof JavaNumber ? of.negated() : null;
}

function operand(tree: Expression, properties: Properties): Operand {
  const constant = folded(tree);
  if (constant !== FAILED) return () => constant;
  if (tree.kind === 'property') {
    const slot = properties.slot(tree.name);
    return () => (properties.ends[slot] === 0 ? null : properties.text(slot));
  }
  if (tree.kind === 'negate') {
    const of = operand(tree.of, properties);
    return () => {
      const value = of();
      if (value === FAILED) return FAILED;
      return value instanceof JavaNumber ? value.negated() : null;
    };
  }
  const verdict = test(tree, properties);
  return () => {
    const value = verdict();
    return value === FAIL ? FAILED : value === NULL ? null : value === YES;
  };
}
