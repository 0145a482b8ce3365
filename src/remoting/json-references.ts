// References of fastjson 1: where one object occurred twice in a document, the second time is {"$ref":"<path>"}. Peers of the 5.3
// line and older write them; they are replaced by the object that they name.

import type { JsonObject, JsonValue } from './json.ts';

/** Deeper documents keep what is nested there as it is. */
const MAX_DEPTH = 256;

/** Replaces every reference below `root` by what it points to; one that points nowhere becomes null. */
export function resolveReferences(root: JsonValue): JsonValue {
  return replaced(root, root, []);
}

function replaced(value: JsonValue, root: JsonValue, parents: JsonValue[]): JsonValue {
  if (typeof value !== 'object' || value === null || parents.length > MAX_DEPTH) return value;
  const path = referenceOf(value);
  if (path !== undefined) return target(path, root, parents) ?? null;
  parents.push(value);
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) value[i] = replaced(value[i]!, root, parents);
  } else if (value instanceof Map) {
    const entries = [...value];
    value.clear();
    for (const [key, field] of entries) value.set(replaced(key, root, parents), replaced(field, root, parents));
  } else {
    for (const key of Object.keys(value)) {
      const field = value[key]!;
      if (typeof field === 'object' && field !== null) value[key] = replaced(field, root, parents);
    }
  }
  parents.pop();
  return value;
}

function referenceOf(value: object): string | undefined {
  if (Array.isArray(value) || value instanceof Map) return undefined;
  const path = (value as JsonObject)['$ref'];
  return typeof path === 'string' && Object.keys(value).length === 1 ? path : undefined;
}

function target(path: string, root: JsonValue, parents: readonly JsonValue[]): JsonValue | undefined {
  if (path === '@') return parents.at(-1);
  if (/^\.\.(\/\.\.)*$/.test(path)) return parents.at(-1 - path.split('/').length);
  if (!path.startsWith('$')) return undefined;
  let at: JsonValue | undefined = root;
  for (const step of stepsOf(path.slice(1))) {
    if (typeof at !== 'object' || at === null) return undefined;
    if (Array.isArray(at)) at = at[Number(step)];
    else if (at instanceof Map) at = at.get(step);
    else at = Object.hasOwn(at, step) ? at[step] : undefined;
  }
  return at;
}

/** `.a.b\.c[3]` as a, b.c, 3. A backslash keeps the next character from being a separator. */
function stepsOf(path: string): string[] {
  const steps: string[] = [];
  for (const match of path.matchAll(/\.((?:\\[\s\S]|[^.[\\])+)|\[([^\]]*)\]/g)) {
    steps.push(match[2]?.replace(/^['"]|['"]$/g, '') ?? match[1]!.replace(/\\([\s\S])/g, '$1'));
  }
  return steps;
}
