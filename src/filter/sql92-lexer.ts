// The tokens of an SQL92 expression, as RocketMQ's lexer (made by JavaCC) takes them: words whatever their case, blanks and comments between
// tokens passed over, and of what may begin at one place the longest. RocketMQ: SelectorParserTokenManager.
//
// The parser reads letters, one for each token, so that it looks at a text of thousands of terms once a token rather than many times a character.

/** RocketMQ: SelectorParserConstants. NOTHING stands for a place where no token begins. */
export const Kind = {
  NOTHING: -1,
  EOF: 0,
  NOT: 8,
  AND: 9,
  OR: 10,
  BETWEEN: 11,
  IN: 12,
  TRUE: 13,
  FALSE: 14,
  NULL: 15,
  IS: 16,
  CONTAINS: 17,
  STARTSWITH: 18,
  ENDSWITH: 19,
  DECIMAL: 20,
  FLOAT: 21,
  STRING: 23,
  ID: 24,
  EQ: 25,
  NE: 26,
  GT: 27,
  GE: 28,
  LT: 29,
  LE: 30,
  OPEN: 31,
  COMMA: 32,
  CLOSE: 33,
  PLUS: 34,
  MINUS: 35,
} as const;

/** By kind. */
const LETTERS = '........NAOBITFUSCWEdf.si=!>g<l(,)+-';
const NOTHING_LETTER = '?';
const WORDS = new Map<string, number>(
  (['NOT', 'AND', 'OR', 'BETWEEN', 'IN', 'TRUE', 'FALSE', 'NULL', 'IS'] as const).map((word) => [word, Kind[word]]),
);
for (const word of ['CONTAINS', 'STARTSWITH', 'ENDSWITH'] as const) WORDS.set(word, Kind[word]);
const LONGEST_WORD = 10;
const SIGNS = new Map<string, number>([
  ['=', Kind.EQ],
  ['<>', Kind.NE],
  ['>', Kind.GT],
  ['>=', Kind.GE],
  ['<', Kind.LT],
  ['<=', Kind.LE],
  ['(', Kind.OPEN],
  [',', Kind.COMMA],
  [')', Kind.CLOSE],
  ['+', Kind.PLUS],
  ['-', Kind.MINUS],
]);
const NUMBER = /(\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)|0|[1-9]\d*[lL]?/y;

// What a character below 128 may begin; all others begin nothing.
const BLANK = 1;
const LETTER = 2;
const DIGIT = 3;
const QUOTE = 4;
const SIGN = 5;
const CLASSES = new Uint8Array(128);
for (const [chars, of] of [
  [' \t\n\r\f', BLANK],
  ['abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$', LETTER],
  ['0123456789.', DIGIT],
  ["'", QUOTE],
  ['=<>(),+-', SIGN],
] as const) {
  for (const char of chars) CLASSES[char.charCodeAt(0)] = of;
}
const DOT = 46;
const DASH = 45;
const SLASH = 47;
const STAR = 42;

export interface Token {
  readonly kind: number;
  readonly image: string;
  /** Where it begins. */
  readonly at: number;
}

/** The token at or behind a place. */
export function tokenAt(text: string, from: number): Token {
  const at = skip(text, from);
  if (at >= text.length) return { kind: Kind.EOF, image: '', at: text.length };
  const end = endOf(text, at);
  const image = text.slice(at, end);
  return { kind: end === at ? Kind.NOTHING : kindOf(image), image, at };
}

/** All tokens as the parser wants them: a letter each, and their texts. Behind a place where none begins nothing is looked at. */
export function tokensOf(text: string): { letters: string; images: string[] } {
  const images: string[] = [];
  let letters = '';
  for (let at = 0; ; ) {
    const token = tokenAt(text, at);
    if (token.kind === Kind.EOF) return { letters, images };
    if (token.kind === Kind.NOTHING) return { letters: letters + NOTHING_LETTER, images };
    letters += LETTERS[token.kind]!;
    images.push(token.image);
    at = token.at + token.image.length;
  }
}

/** Behind blanks, line comments (which need the end of their line) and block comments. */
function skip(text: string, from: number): number {
  for (let at = from; ; ) {
    const code = text.charCodeAt(at);
    if (code < 128 && CLASSES[code] === BLANK) {
      at++;
      continue;
    }
    let end = -1;
    if (code === DASH && text.charCodeAt(at + 1) === DASH) end = lineEnd(text, at);
    else if (code === SLASH && text.charCodeAt(at + 1) === STAR) end = text.indexOf('*/', at + 2);
    if (end < 0) return at;
    at = code === DASH ? end + 1 : end + 2;
  }
}

function lineEnd(text: string, from: number): number {
  for (let at = from; at < text.length; at++) if (text[at] === '\n' || text[at] === '\r') return at;
  return -1;
}

/** Where the token ends that begins at a place; the same place if none does. */
function endOf(text: string, at: number): number {
  const code = text.charCodeAt(at);
  switch (code < 128 ? CLASSES[code] : 0) {
    case LETTER: {
      let end = at + 1;
      while (isWord(text.charCodeAt(end))) end++;
      return end;
    }
    case DIGIT:
      NUMBER.lastIndex = at;
      return NUMBER.test(text) ? NUMBER.lastIndex : at;
    case QUOTE:
      return endOfString(text, at);
    case SIGN:
      return SIGNS.has(text.slice(at, at + 2)) ? at + 2 : at + 1;
    default:
      return at;
  }
}

function isWord(code: number): boolean {
  const of = code < 128 ? CLASSES[code] : 0;
  return of === LETTER || (of === DIGIT && code !== DOT);
}

/** Two quotes stand for one, but where no other quote ends the text: then the first of the last two does. */
function endOfString(text: string, at: number): number {
  let shortest = at;
  for (let from = at + 1; ; ) {
    const quote = text.indexOf("'", from);
    if (quote < 0) return shortest;
    if (text[quote + 1] !== "'") return quote + 1;
    shortest = quote + 1;
    from = quote + 2;
  }
}

function kindOf(image: string): number {
  const of = CLASSES[image.charCodeAt(0)];
  if (of === LETTER) return (image.length <= LONGEST_WORD ? WORDS.get(image.toUpperCase()) : undefined) ?? Kind.ID;
  if (of === QUOTE) return Kind.STRING;
  if (of === SIGN) return SIGNS.get(image)!;
  return /^\d+[lL]?$/.test(image) ? Kind.DECIMAL : Kind.FLOAT;
}
