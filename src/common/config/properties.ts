// The text of a Java .properties file (java.util.Properties#load), which is what broker.conf and namesrv.conf are.
//
//   # or ! first on a line        a comment
//   key=value, key: value, key value
//   \ before the end of a line    goes on in the next one, whose leading blanks do not count
//   \t \n \r \f \uXXXX \X         escapes; any other \X is X itself
//
// Blanks before and after the key do not count; those after the value do. Of a key that is given twice the last one counts.
// RocketMQ: reads ISO-8859-1 only. Here a file that is valid UTF-8 is read as such, any other one as ISO-8859-1.

import { GantryError } from '../index.ts';

/** One key with its value, unescaped. */
export interface PropertyEntry {
  readonly key: string;
  readonly value: string;
  /** First line of the file that the entry takes, counted from 1. */
  readonly line: number;
  /** The entry is `text.slice(start, end)`, without the last line break. */
  readonly start: number;
  readonly end: number;
}

/** The text of a properties file, and what it must be encoded in when it is written back. */
export function decodeProperties(bytes: Uint8Array): { text: string; encoding: 'utf8' | 'latin1' } {
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes), encoding: 'utf8' };
  } catch {
    return { text: Buffer.from(bytes).toString('latin1'), encoding: 'latin1' };
  }
}

/**
 * All entries in the order of the file, repeated keys included.
 * @throws GantryError CONFIG_FILE with the line of a malformed \uXXXX escape; `name` is the file in that text.
 */
export function parseProperties(text: string, name: string): PropertyEntry[] {
  const entries: PropertyEntry[] = [];
  let at = 0;
  let line = 1;
  while (at < text.length) {
    const logical = readLogicalLine(text, at);
    if (logical.content !== undefined) {
      entries.push({ ...split(logical.content, name, line), line, start: at, end: logical.end });
    }
    at = logical.next;
    line += logical.lines;
  }
  return entries;
}

interface LogicalLine {
  /** Joined and still escaped; undefined for a blank line and a comment. */
  content: string | undefined;
  /** End without the line break, start of what follows, and how many lines of the file it took. */
  end: number;
  next: number;
  lines: number;
}

function readLogicalLine(text: string, start: number): LogicalLine {
  let content = '';
  let at = start;
  let lines = 0;
  for (;;) {
    let end = at;
    while (end < text.length && text[end] !== '\n' && text[end] !== '\r') end++;
    const next = end + (text.startsWith('\r\n', end) ? 2 : end < text.length ? 1 : 0);
    lines++;
    let first = at;
    while (first < end && isBlank(text[first]!)) first++;
    const comment = content === '' && (text[first] === '#' || text[first] === '!') && first < end;
    if (comment) return { content: undefined, end, next, lines };
    const continued = endsInOddBackslashes(text, first, end);
    content += text.slice(first, continued ? end - 1 : end);
    if (!continued) return { content: content === '' ? undefined : content, end, next, lines };
    // Java: a backslash that ends the file goes on in nothing, and makes an entry even when nothing stands before it.
    if (next === text.length) return { content, end, next, lines };
    at = next;
  }
}

function endsInOddBackslashes(text: string, start: number, end: number): boolean {
  let count = 0;
  while (end - 1 - count >= start && text[end - 1 - count] === '\\') count++;
  return count % 2 === 1;
}

function isBlank(c: string): boolean {
  return c === ' ' || c === '\t' || c === '\f';
}

function split(content: string, name: string, line: number): { key: string; value: string } {
  let at = 0;
  while (at < content.length && content[at] !== '=' && content[at] !== ':' && !isBlank(content[at]!)) {
    at += content[at] === '\\' ? 2 : 1;
  }
  const keyEnd = Math.min(at, content.length);
  at = keyEnd;
  while (at < content.length && isBlank(content[at]!)) at++;
  if (content[at] === '=' || content[at] === ':') {
    at++;
    while (at < content.length && isBlank(content[at]!)) at++;
  }
  return {
    key: resolveEscapes(content.slice(0, keyEnd), name, line),
    value: resolveEscapes(content.slice(at), name, line),
  };
}

const ESCAPES: Readonly<Record<string, string>> = { t: '\t', n: '\n', r: '\r', f: '\f' };

function resolveEscapes(text: string, name: string, line: number): string {
  if (!text.includes('\\')) return text;
  let result = '';
  for (let i = 0; i < text.length; i++) {
    const c = text[i]!;
    if (c !== '\\') {
      result += c;
      continue;
    }
    const escaped = text[++i];
    if (escaped === undefined) break;
    if (escaped !== 'u') {
      result += ESCAPES[escaped] ?? escaped;
      continue;
    }
    const digits = text.slice(i + 1, i + 5);
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) {
      throw new GantryError('CONFIG_FILE', `${name} line ${line}: \\u must be followed by four hexadecimal digits`);
    }
    result += String.fromCharCode(Number.parseInt(digits, 16));
    i += 4;
  }
  return result;
}

/** A value as it must stand in the file. Characters beyond ASCII become \uXXXX, which both encodings and Java read. */
export function escapeValue(value: string): string {
  let result = '';
  for (let i = 0; i < value.length; i++) {
    const c = value[i]!;
    const code = value.charCodeAt(i);
    if (c === '\\') result += '\\\\';
    else if (c === '\t') result += '\\t';
    else if (c === '\n') result += '\\n';
    else if (c === '\r') result += '\\r';
    else if (c === '\f') result += '\\f';
    else if (c === ' ' && i === 0) result += '\\ ';
    else if (code < 0x20 || code > 0x7e) result += `\\u${code.toString(16).toUpperCase().padStart(4, '0')}`;
    else result += c;
  }
  return result;
}

/**
 * The text with one setting changed and nothing else: the line that counts gets the new value and keeps what stands before it; a
 * key that is not there is added at the end.
 */
export function editProperties(text: string, key: string, value: string): string {
  const last = lastEntry(text, key);
  const plain = `${escapeKey(key)}=${escapeValue(value)}`;
  if (last === undefined) {
    const lineBreak = text.includes('\r\n') ? '\r\n' : '\n';
    const apart = text === '' || text.endsWith('\n') || text.endsWith('\r') ? '' : lineBreak;
    const added = `${text}${apart}${plain}${lineBreak}`;
    // A last line that ends in a backslash would take the new one in: an empty line ends it (and behind a lone CR, LF ends no line).
    const gap = text.endsWith('\r') ? `\n${lineBreak}` : `${apart}${lineBreak}`;
    return lastEntry(added, key) === undefined ? `${text}${gap}${plain}${lineBreak}` : added;
  }
  const before = text.slice(0, last.start);
  const after = text.slice(last.end);
  const head = /^[ \t\f]*(?:[^=: \t\f\\\r\n]|\\[^\r\n])*[ \t\f]*[=:]?[ \t\f]*/.exec(
    text.slice(last.start, last.end),
  )![0];
  const edited = before + head + escapeValue(value) + after;
  // A key alone on its line, or one that is broken over two, is written anew.
  return lastEntry(edited, key)?.value === value ? edited : before + plain + after;
}

function lastEntry(text: string, key: string): PropertyEntry | undefined {
  return parseProperties(text, 'the file').findLast((entry) => entry.key === key);
}

function escapeKey(key: string): string {
  return escapeValue(key).replace(/[=: #!]/g, '\\$&');
}
