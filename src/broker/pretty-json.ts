// The text form of RocketMQ's config/*.json files: what fastjson2 2.0.59 writes in its pretty form, byte for byte apart from the order
// of map entries, which in Java is hash order and means nothing.
//
//   one TAB a level, `"name":value` without a blank behind the colon, no newline at the end
//   a bean's fields in alphabetical order, null and undefined left out          (here: a plain object)
//   a map's entries in the map's own order, integer keys bare                   (here: a Map; empty is `{}`)
//   a list of texts or beans with one element a line, a long[] on one line      (here: a string or object array, a number array)
//   an empty list of beans or texts as a line that holds only its TABs

/** What can be written. */
export type PrettyValue =
  | string
  | number
  | boolean
  | null
  | undefined
  | readonly number[]
  | readonly string[]
  | readonly PrettyBean[]
  | ReadonlyMap<string, PrettyValue>
  | ReadonlyMap<number, PrettyValue>
  | PrettyBean;

export interface PrettyBean {
  readonly [field: string]: PrettyValue;
}

/** `value` as fastjson2 writes it when it stands `depth` levels inside a document. */
export function prettyJson(value: PrettyValue, depth = 0): string {
  if (typeof value === 'string') return quote(value);
  if (value === null || value === undefined || typeof value === 'number' || typeof value === 'boolean') {
    return String(value ?? null);
  }
  if (Array.isArray(value)) return prettyList(value as readonly PrettyValue[], depth);
  return block('{', '}', prettyEntries(value as PrettyBean | ReadonlyMap<string | number, PrettyValue>, depth), depth);
}

/** `"name":value` or `7:value`, for those who put a large document together piece by piece. */
export function prettyEntry(key: string | number, value: PrettyValue, depth: number): string {
  return `${typeof key === 'number' ? key : quote(key)}:${prettyJson(value, depth)}`;
}

/**
 * The entries of a map that stands one level inside a document, one by one, and the brace that ends it; an entry that is undefined stands
 * for nothing yet, where the next one is far.
 */
export function* prettyPieces<T>(
  entries: Iterable<readonly [string, T] | undefined>,
  toValue: (entry: T, key: string) => PrettyValue,
): Generator<string> {
  let first = true;
  for (const next of entries) {
    if (next === undefined) {
      yield '';
      continue;
    }
    const [key, entry] = next;
    yield `${first ? '' : ','}\n${indent(2)}${prettyEntry(key, toValue(entry, key), 2)}`;
    first = false;
  }
  yield first ? '}' : `\n${indent(1)}}`;
}

/** The TABs that begin a line `depth` levels inside a document. */
function indent(depth: number): string {
  return '\t'.repeat(depth);
}

function prettyEntries(
  value: PrettyBean | ReadonlyMap<string | number, PrettyValue>,
  depth: number,
): readonly string[] {
  const lines: string[] = [];
  if (value instanceof Map) {
    for (const [key, entry] of value as ReadonlyMap<string | number, PrettyValue>) {
      lines.push(prettyEntry(key, entry, depth + 1));
    }
    return lines;
  }
  const bean = value as PrettyBean;
  for (const name of Object.keys(bean).sort()) {
    const field = bean[name];
    if (field !== undefined && field !== null) lines.push(prettyEntry(name, field, depth + 1));
  }
  return lines;
}

function prettyList(list: readonly PrettyValue[], depth: number): string {
  if (list.length > 0 && typeof list[0] === 'number') return `[${list.join(',')}]`;
  if (list.length === 0) return `[\n${indent(depth + 1)}\n${indent(depth)}]`;
  return block(
    '[',
    ']',
    list.map((element) => prettyJson(element, depth + 1)),
    depth,
  );
}

function block(open: string, close: string, lines: readonly string[], depth: number): string {
  if (lines.length === 0) return open + close;
  const margin = `\n${indent(depth + 1)}`;
  return `${open}${margin}${lines.join(`,${margin}`)}\n${indent(depth)}${close}`;
}

/** fastjson2 escapes what JSON must and nothing else, as JSON.stringify does, lone surrogates apart. */
function quote(text: string): string {
  return JSON.stringify(text);
}
