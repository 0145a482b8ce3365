// An SQL92 expression as a tree, checked as RocketMQ checks it: which operands an operator takes is decided when the expression is read, and
// its error texts are those of RocketMQ, whose clients show them. RocketMQ: SelectorParser, ComparisonExpression, UnaryExpression.

import { GantryError } from '../common/index.ts';
import {
  compareValues,
  decimalValue,
  FAILED,
  floatValue,
  JavaNumber,
  type JavaValue,
  valueText,
} from './java-value.ts';
import { syntaxComplaint } from './sql92-complaint.ts';
import { tokensOf } from './sql92-lexer.ts';
import { sql92Parser } from './sql92-parser.ts';

export type Order = '>' | '>=' | '<' | '<=';
export type Part = 'CONTAINS' | 'STARTSWITH' | 'ENDSWITH';

/** A checked expression. `cast` is a property where a boolean is asked for. */
export type Expression =
  | { kind: 'constant'; value: JavaValue }
  | { kind: 'property'; name: string }
  | { kind: 'negate' | 'not' | 'cast'; of: Expression }
  | { kind: 'and' | 'or'; items: Expression[] }
  | { kind: 'equal'; left: Expression; right: Expression }
  | { kind: 'order'; op: Order; left: Expression; right: Expression }
  | { kind: 'part'; what: Part; not: boolean; of: Expression; text: string }
  | { kind: 'in'; not: boolean; of: Expression; texts: string[] };

/** What the generated parser gives. */
type Raw =
  | { kind: 'text' | 'decimal' | 'float'; text: string }
  | { kind: 'boolean'; value: boolean }
  | { kind: 'null' }
  | { kind: 'property'; name: string }
  | { kind: 'negate' | 'not'; of: Raw }
  | { kind: 'and' | 'or'; items: Raw[] }
  | { kind: 'equal' | 'notEqual'; left: Raw; right: Raw }
  | { kind: 'isNull' | 'isNotNull'; left: Raw }
  | { kind: 'order'; op: Order; left: Raw; right: Raw }
  | { kind: 'part'; what: Part; not: boolean; left: Raw; text: string }
  | { kind: 'between'; not: boolean; left: Raw; low: Raw; high: Raw }
  | { kind: 'in'; not: boolean; left: Raw; texts: string[] };

const NULL: Expression = { kind: 'constant', value: null };

/**
 * Reads an expression.
 * @throws GantryError SUBSCRIPTION (responseCode 23) with RocketMQ's text on an expression that RocketMQ refuses, RangeError on nesting that
 * is too deep for the stack
 */
export function parseSql92(text: string): Expression {
  return asBoolean(checked(parse(text)));
}

function parse(text: string): Raw {
  try {
    const { letters, images } = tokensOf(text);
    return sql92Parser.parse(letters, { images }) as Raw;
  } catch (error) {
    if (error instanceof RangeError) throw error;
    throw refusal(syntaxComplaint(text));
  }
}

/** Of an expression, in RocketMQ's words. */
export function refusal(text: string): GantryError {
  return new GantryError('SUBSCRIPTION', text, { responseCode: 23 });
}

function wrong(text: string): GantryError {
  return refusal(`java.lang.RuntimeException: ${text}`);
}

function checked(raw: Raw): Expression {
  switch (raw.kind) {
    case 'text':
      return { kind: 'constant', value: raw.text };
    case 'decimal':
      return { kind: 'constant', value: decimal(raw.text) };
    case 'float':
      return { kind: 'constant', value: float(raw.text) };
    case 'boolean':
      return { kind: 'constant', value: raw.value };
    case 'null':
      return NULL;
    case 'property':
      return raw;
    case 'negate':
      return { kind: 'negate', of: checked(raw.of) };
    case 'not':
      return { kind: 'not', of: asBoolean(checked(raw.of)) };
    case 'and':
    case 'or':
      return { kind: raw.kind, items: raw.items.map((item) => asBoolean(checked(item))) };
    case 'equal':
      return equal(checked(raw.left), checked(raw.right));
    case 'notEqual':
      return { kind: 'not', of: equal(checked(raw.left), checked(raw.right)) };
    case 'isNull':
      return { kind: 'equal', left: checked(raw.left), right: NULL };
    case 'isNotNull':
      return { kind: 'not', of: { kind: 'equal', left: checked(raw.left), right: NULL } };
    case 'order':
      return order(raw.op, checked(raw.left), checked(raw.right));
    case 'part':
      return { kind: 'part', what: raw.what, not: raw.not, of: checked(raw.left), text: raw.text };
    case 'between':
      return between(raw.not, checked(raw.left), checked(raw.low), checked(raw.high));
    case 'in': {
      const of = checked(raw.left);
      if (of.kind !== 'property') throw wrong(`Expected a property for In expression, got: ${describe(of)}`);
      return { kind: 'in', not: raw.not, of, texts: raw.texts };
    }
  }
}

function decimal(text: string): JavaNumber {
  const digits = text.replace(/[lL]$/, '');
  const value = decimalValue(digits);
  if (value === undefined) throw refusal(`java.lang.NumberFormatException: For input string: "${digits}"`);
  return value;
}

/** RocketMQ: takes no 0.0, since Double.MIN_VALUE is the smallest positive double. */
function float(text: string): JavaNumber {
  const value = floatValue(text);
  if (value.value > Number.MAX_VALUE) throw wrong(`${text} is greater than 1.7976931348623157E308`);
  if (value.value < Number.MIN_VALUE) throw wrong(`${text} is less than 4.9E-324`);
  return value;
}

function isBoolean(expression: Expression): boolean {
  switch (expression.kind) {
    case 'constant':
      return typeof expression.value === 'boolean' || expression.value === null;
    case 'property':
    case 'negate':
      return false;
    default:
      return true;
  }
}

function asBoolean(expression: Expression): Expression {
  if (isBoolean(expression)) return expression;
  if (expression.kind === 'property') return { kind: 'cast', of: expression };
  throw refusal(
    `org.apache.rocketmq.filter.parser.ParseException: Expression will not result in a boolean value: ${describe(expression)}`,
  );
}

function equal(left: Expression, right: Expression): Expression {
  for (const side of [left, right]) {
    if (side.kind === 'constant' && side.value === null) throw wrong(`'${describe(side)}' cannot be compared.`);
  }
  if (left.kind === 'constant' && right.kind === 'constant' && isBoolean(left) && !isBoolean(right)) {
    throw wrong(`'${describe(left)}' cannot be compared with '${describe(right)}'`);
  }
  return { kind: 'equal', left, right };
}

function order(op: Order, left: Expression, right: Expression): Expression {
  for (const side of [left, right]) {
    const isNumber = side.kind === 'constant' && side.value instanceof JavaNumber;
    if (isNumber || (side.kind !== 'constant' && !isBoolean(side))) continue;
    throw wrong(`Value '${describe(side)}' cannot be compared.`);
  }
  return { kind: 'order', op, left, right };
}

function between(not: boolean, of: Expression, low: Expression, high: Expression): Expression {
  if (not) return { kind: 'or', items: [order('<', of, low), order('>', of, high)] };
  if (low.kind === 'constant' && high.kind === 'constant') {
    if (low.value === null || high.value === null) {
      throw wrong('Illegal values of between, values can not be null!');
    }
    const compared = compareValues(high.value, low.value);
    if (compared === FAILED) throw wrong(`${describe(low)} and ${describe(high)} cannot be compared.`);
    if (compared < 0) {
      throw wrong(
        `Illegal values of between, left value(${valueText(low.value)}) must less than or equal to right value(${valueText(high.value)})`,
      );
    }
  }
  return { kind: 'and', items: [order('>=', of, low), order('<=', of, high)] };
}

/** An expression as RocketMQ's error texts show it: its toString. */
function describe(expression: Expression): string {
  switch (expression.kind) {
    case 'constant':
      if (typeof expression.value === 'string') return `'${expression.value.replaceAll("'", "''")}'`;
      return expression.value === null
        ? 'NULL'
        : valueText(expression.value).replace(/^(true|false)$/, (t) => t.toUpperCase());
    case 'property':
      return expression.name;
    case 'cast':
      return describe(expression.of);
    case 'negate':
      return `(- ${describe(expression.of)})`;
    case 'not':
      return `(NOT ${describe(expression.of)})`;
    case 'and':
    case 'or':
      return expression.items
        .map(describe)
        .reduce((left, right) => `(${left} ${expression.kind === 'and' ? '&&' : '||'} ${right})`);
    case 'equal':
      return `(${describe(expression.left)} == ${describe(expression.right)})`;
    case 'order':
      return `(${describe(expression.left)} ${expression.op} ${describe(expression.right)})`;
    case 'part':
      return `(${expression.not ? 'NOT ' : ''}${expression.what} ${describe(expression.of)})`;
    case 'in':
      return `${describe(expression.of)} ${expression.not ? 'NOT ' : ''}IN ( ${expression.texts.join(', ')} )`;
  }
}
