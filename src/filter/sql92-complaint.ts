// What RocketMQ says of a text that is no SQL92 expression: its clients show it at their start, and it is logged and searched for. The sentence
// lists what the parser of RocketMQ looked for at the place where it gave up, so the way of that parser (made by JavaCC: one token ahead, two
// before NOT and IS) is gone again here, after the generated parser has refused the text; nothing else comes of it.
//
// `expect` keeps, per decision of RocketMQ's parser, the tokens that it would have gone on with; those of decisions since the last token count.

import { Kind, type Token, tokenAt } from './sql92-lexer.ts';

/** RocketMQ: SelectorParserConstants.TOKEN_IMAGE, by kind. */
const NAMES = [
  ...['<EOF>', '" "', '"\\t"', '"\\n"', '"\\r"', '"\\f"', '<LINE_COMMENT>', '<BLOCK_COMMENT>'],
  ...['"NOT"', '"AND"', '"OR"', '"BETWEEN"', '"IN"', '"TRUE"', '"FALSE"', '"NULL"', '"IS"'],
  ...['"CONTAINS"', '"STARTSWITH"', '"ENDSWITH"'],
  ...['<DECIMAL_LITERAL>', '<FLOATING_POINT_LITERAL>', '<EXPONENT>', '<STRING_LITERAL>', '<ID>'],
  ...['"="', '"<>"', '">"', '">="', '"<"', '"<="', '"("', '","', '")"', '"+"', '"-"'],
];
const { EOF, NOT, AND, OR, BETWEEN, IN, TRUE, FALSE, NULL, IS, CONTAINS, STARTSWITH, ENDSWITH } = Kind;
const { DECIMAL, FLOAT, STRING, ID, EQ, NE, GT, GE, LT, LE, OPEN, COMMA, CLOSE, PLUS, MINUS } = Kind;
const ORDERS: readonly number[] = [GT, GE, LT, LE];
const LITERALS = [TRUE, FALSE, NULL, DECIMAL, FLOAT, STRING];
/** What may stand behind NOT. */
const NEGATED: readonly number[] = [CONTAINS, STARTSWITH, ENDSWITH, BETWEEN, IN];
const COMPARISONS = [NOT, BETWEEN, IN, CONTAINS, STARTSWITH, ENDSWITH, ...ORDERS];

/** Ends the walk with the sentence. */
class Complaint extends Error {}

/** RocketMQ's sentence on a text that its parser refuses, as its MQFilterException gives it: with the class of the cause before it. */
export function syntaxComplaint(text: string): string {
  try {
    new Walk(text).or();
  } catch (error) {
    if (error instanceof Complaint) return error.message;
    throw error;
  }
  // RocketMQ reads it: the two disagree, and this one refuses.
  return 'org.apache.rocketmq.filter.parser.ParseException: this is no SQL92 expression';
}

class Walk {
  readonly #text: string;
  readonly #tokens: Token[] = [];
  #lexed = 0;
  /** Tokens that were taken. */
  #taken = 0;
  /** Up to this count an operand follows every plus. */
  #ledTo = 0;
  #expect: number[] = [];
  /** Tokens that RocketMQ adds to the list afterwards, and up to which count of taken tokens each holds. */
  #later: Array<{ kind: number; until: number; from: number }> = [];

  constructor(text: string) {
    this.#text = text;
  }

  or(): void {
    this.#and();
    while (this.#isOneOf(OR)) {
      this.#take(OR);
      this.#and();
    }
  }

  #and(): void {
    this.#equality();
    while (this.#isOneOf(AND)) {
      this.#take(AND);
      this.#equality();
    }
  }

  #equality(): void {
    this.#comparison();
    while (this.#isOneOf(IS, EQ, NE)) {
      const { kind } = this.#ahead(0);
      if (kind !== IS) {
        this.#take(kind);
        this.#comparison();
        continue;
      }
      this.#isOneOf(EQ, NE);
      const isNull = this.#ahead(1).kind === NULL;
      this.#later.push({ kind: NULL, until: this.#taken + 2, from: this.#taken + 1 });
      this.#take(IS);
      if (!isNull) this.#take(NOT);
      this.#take(NULL);
    }
  }

  #comparison(): void {
    this.#unary();
    while (this.#isOneOf(...COMPARISONS)) {
      const first = this.#ahead(0).kind;
      const isNot = first === NOT;
      const what = isNot ? this.#ahead(1).kind : first;
      if (isNot && !NEGATED.includes(what)) {
        this.#isOneOf(CONTAINS, ...ORDERS, STARTSWITH, ENDSWITH, BETWEEN, IN);
        this.#fail();
      }
      if (isNot) this.#take(NOT);
      this.#take(what);
      if (ORDERS.includes(what)) this.#unary();
      else if (what === BETWEEN) {
        this.#unary();
        this.#take(AND);
        this.#unary();
      } else if (what === IN) {
        this.#take(OPEN);
        this.#take(STRING);
        while (this.#isOneOf(COMMA)) {
          this.#take(COMMA);
          this.#take(STRING);
        }
        this.#take(CLOSE);
      } else this.#take(STRING);
    }
  }

  #unary(): void {
    if (this.#ahead(0).kind === PLUS && (this.#taken < this.#ledTo || this.#leadsOn())) {
      this.#take(PLUS);
      this.#unary();
      return;
    }
    if (this.#ahead(0).kind !== PLUS) this.#later.push({ kind: PLUS, until: this.#taken + 1, from: this.#taken });
    if (!this.#isOneOf(MINUS, NOT, OPEN, ID, ...LITERALS)) this.#fail();
    const { kind } = this.#ahead(0);
    this.#take(kind);
    if (kind === MINUS || kind === NOT) this.#unary();
    else if (kind === OPEN) {
      this.or();
      this.#take(CLOSE);
    }
  }

  /**
   * Whether an operand follows the plus: RocketMQ looks as far ahead as it takes. Each plus on the way is taken for one that leads on, which
   * comes to the same: looked at again for each of them, the time would double with every plus.
   */
  #leadsOn(): boolean {
    const [taken, expect, later] = [this.#taken, this.#expect, this.#later];
    this.#taken++;
    this.#ledTo = Number.POSITIVE_INFINITY;
    try {
      this.#unary();
      this.#ledTo = this.#taken;
      return true;
    } catch (error) {
      if (!(error instanceof Complaint)) throw error;
      this.#ledTo = 0;
      return false;
    } finally {
      this.#taken = taken;
      this.#expect = expect;
      this.#later = later;
    }
  }

  #isOneOf(...kinds: number[]): boolean {
    if (kinds.includes(this.#ahead(0).kind)) return true;
    this.#expect.push(...kinds);
    return false;
  }

  #take(kind: number): void {
    if (this.#ahead(0).kind !== kind) {
      this.#expect.push(kind);
      this.#fail();
    }
    this.#taken++;
    this.#expect = [];
  }

  #fail(): never {
    const token = this.#ahead(0);
    const kinds = [...new Set(this.#expect)].sort((a, b) => a - b);
    for (const { kind, from, until } of this.#later) {
      if (from === this.#taken && until > this.#taken && !kinds.includes(kind)) kinds.push(kind);
    }
    const found = token.kind === EOF ? NAMES[EOF]! : ` ${NAMES[token.kind]} "${escaped(token.image)} "`;
    const { line, column } = place(this.#text, Math.min(token.at, this.#text.length - 1));
    throw new Complaint(
      `org.apache.rocketmq.filter.parser.ParseException: Encountered "${found}" at line ${line}, column ${column}.\n` +
        `Was expecting${kinds.length === 1 ? '' : ' one of'}:\n    ${kinds.map((kind) => `${NAMES[kind]} ...\n    `).join('')}`,
    );
  }

  #ahead(count: number): Token {
    while (this.#tokens.length <= this.#taken + count) this.#tokens.push(this.#lex());
    return this.#tokens[this.#taken + count]!;
  }

  #lex(): Token {
    const token = tokenAt(this.#text, this.#lexed);
    if (token.kind === Kind.NOTHING) throw new Complaint(lexicalComplaint(this.#text, token.at));
    this.#lexed = token.at + token.image.length;
    return token;
  }
}

/** Something that begins no token, or a text or comment without an end. */
function lexicalComplaint(text: string, at: number): string {
  const open = text[at] === "'" || text.startsWith('/*', at);
  const last = open ? text.length - 1 : at;
  let { line, column } = place(text, last);
  const before = 'org.apache.rocketmq.filter.parser.TokenMgrError: Lexical error at line';
  const after = `after : "${open && last > at ? escaped(text.slice(at)) : ''}"`;
  if (last < text.length - 1) {
    return `${before} ${line}, column ${column}.  Encountered: "${escaped(text[at]!)}" (${text.charCodeAt(at)}), ${after}`;
  }
  if (text[last] === '\n' || text[last] === '\r') {
    line++;
    column = 0;
  } else column++;
  return `${before} ${line}, column ${column}.  Encountered: <EOF> ${after}`;
}

/** Line and column of a character, from 1; a tab goes to the next multiple of eight. */
function place(text: string, at: number): { line: number; column: number } {
  let line = text === '' ? 0 : 1;
  let column = 0;
  for (let i = 0; i <= at; i++) {
    column++;
    const before = text[i - 1];
    if (before === '\n' || (before === '\r' && text[i] !== '\n')) {
      line++;
      column = 1;
    }
    if (text[i] === '\t') column += 7 - ((column - 1) % 8);
  }
  return { line, column };
}

const ESCAPES: Record<string, string> = {
  '\0': '',
  '\b': '\\b',
  '\t': '\\t',
  '\n': '\\n',
  '\f': '\\f',
  '\r': '\\r',
  '"': '\\"',
  "'": "\\'",
  '\\': '\\\\',
};

function escaped(text: string): string {
  let result = '';
  for (let i = 0; i < text.length; i++) {
    const char = text[i]!;
    const code = text.charCodeAt(i);
    result += ESCAPES[char] ?? (code < 0x20 || code > 0x7e ? `\\u${code.toString(16).padStart(4, '0')}` : char);
  }
  return result;
}
