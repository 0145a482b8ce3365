// The values that an SQL92 expression computes with, and how RocketMQ compares two of them: text is turned into the other side's type, and a text
// that cannot be ends the whole evaluation. RocketMQ: ConstantExpression, ComparisonExpression#__compare.

import { compareDoubles, isInt, type JavaLong, javaDouble, javaDoubleText, javaInt, javaLong } from './java-number.ts';

/** A number with the Java type that it has. */
export class JavaNumber {
  readonly type: 'int' | 'long' | 'double';
  readonly value: JavaLong;

  constructor(type: 'int' | 'long' | 'double', value: JavaLong) {
    this.type = type;
    this.value = value;
  }

  /** RocketMQ: negate; the smallest int and long stay what they are. */
  negated(): JavaNumber {
    if (this.type === 'double') return new JavaNumber('double', -(this.value as number));
    const negative = -BigInt(this.value);
    const wrapped = this.type === 'int' ? BigInt.asIntN(32, negative) : BigInt.asIntN(64, negative);
    const number = Number(wrapped);
    return new JavaNumber(this.type, Number.isSafeInteger(number) ? number : wrapped);
  }
}

/** A property is a string; null is what is not there. */
export type JavaValue = string | boolean | null | JavaNumber;

/** An exception in Java: the evaluation ends, and the message does not match. */
export const FAILED: unique symbol = Symbol('failed');

/** The value of a whole number; undefined beyond a long. */
export function decimalValue(digits: string): JavaNumber | undefined {
  const value = javaLong(digits);
  if (value === undefined) return undefined;
  return new JavaNumber(typeof value === 'number' && isInt(value) ? 'int' : 'long', value);
}

export function floatValue(text: string): JavaNumber {
  return new JavaNumber('double', Number(text));
}

/** Java's toString. */
export function valueText(value: string | boolean | JavaNumber): string {
  if (!(value instanceof JavaNumber)) return String(value);
  return value.type === 'double' ? javaDoubleText(value.value as number) : String(value.value);
}

/** A text as a number of a type; undefined where Java throws. */
export function numberOf(text: string, type: JavaNumber['type']): JavaLong | undefined {
  if (type === 'int') return javaInt(text);
  return type === 'long' ? javaLong(text) : javaDouble(text);
}

function sign(a: JavaLong | string, b: JavaLong | string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Whether two values are equal in Java's sense: of one type, and the same. */
export function equalValues(left: JavaValue, right: JavaValue): boolean {
  if (left instanceof JavaNumber && right instanceof JavaNumber) {
    return (
      left.type === right.type &&
      (left.type === 'double' ? Object.is(left.value, right.value) : left.value === right.value)
    );
  }
  return left === right;
}

/** Negative, 0 or positive; FAILED where Java throws. */
export function compareValues(
  left: string | boolean | JavaNumber,
  right: string | boolean | JavaNumber,
): number | typeof FAILED {
  if (typeof left === 'string') return compareText(left, right);
  if (typeof left === 'boolean') {
    if (typeof right === 'boolean') return Number(left) - Number(right);
    // RocketMQ: casts the boolean to a text, which Java refuses.
    return typeof right === 'string' ? FAILED : -1;
  }
  if (typeof right === 'boolean') return -1;
  if (typeof right === 'string') {
    const number = numberOf(right, left.type);
    if (number === undefined) return FAILED;
    return left.type === 'double' ? compareDoubles(left.value as number, number as number) : sign(left.value, number);
  }
  if (left.type === 'double' || right.type === 'double') {
    return compareDoubles(Number(left.value), Number(right.value));
  }
  return sign(left.value, right.value);
}

function compareText(left: string, right: string | boolean | JavaNumber): number | typeof FAILED {
  if (typeof right === 'string') return sign(left, right);
  if (typeof right === 'boolean') return Number(left.toLowerCase() === 'true') - Number(right);
  const number = numberOf(left, right.type);
  if (number === undefined) return FAILED;
  return right.type === 'double' ? compareDoubles(number as number, right.value as number) : sign(number, right.value);
}
