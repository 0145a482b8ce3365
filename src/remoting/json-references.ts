// References of fastjson 1: where one object occurred twice in a document, the second time is {"$ref":"<path>"}. Peers of the 5.3
// line and older write them; they are replaced by the object that they name. What a stranger makes of them must stay a finite tree: a
// reference only ever names what is complete before it, and what all references together repeat has a limit.

import { GantryError } from '../common/index.ts';
import type { JsonObject, JsonValue } from './json.ts';

/** Deeper documents keep what is nested there as it is. */
const MAX_DEPTH = 256;
/** Values that the references of one document may repeat; a name server's answer for 20,000 topics repeats fewer. */
const MAX_REPEATED = 1_000_000;

/**
 * Replaces every reference below `root` by what it points to; one that points nowhere, or to what it stands in, becomes null.
 * @throws GantryError JSON if the references repeat more than a document can mean.
 */
export function resolveReferences(root: JsonValue): JsonValue {
  return new References(root).replaced(root, 0);
}

class References {
  readonly #root: JsonValue;
  /** Complete objects and lists, with how many values they hold, references followed. */
  readonly #complete = new Map<object, number>();
  #repeated = 0;

  constructor(root: JsonValue) {
    this.#root = root;
  }

  replaced(value: JsonValue, depth: number): JsonValue {
    if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) return value;
    const path = referenceOf(value);
    if (path !== undefined) return this.#target(path);
    let size = 1;
    const inner = (field: JsonValue): JsonValue => {
      const result = this.replaced(field, depth + 1);
      size += this.#sizeOf(result);
      return result;
    };
    if (Array.isArray(value)) {
      for (let i = 0; i < value.length; i++) value[i] = inner(value[i]!);
    } else if (value instanceof Map) {
      const entries = [...value];
      value.clear();
      for (const [key, field] of entries) value.set(inner(key), inner(field));
    } else {
      for (const key of Object.keys(value)) {
        const field = value[key]!;
        if (typeof field === 'object' && field !== null) value[key] = inner(field);
      }
    }
    this.#complete.set(value, size);
    return value;
  }

  #sizeOf(value: JsonValue): number {
    return typeof value === 'object' && value !== null ? (this.#complete.get(value) ?? 1) : 1;
  }

  #target(path: string): JsonValue {
    const found = follow(path, this.#root) ?? null;
    if (typeof found !== 'object' || found === null) return found;
    const size = this.#complete.get(found);
    // Incomplete: it is what the reference stands in, and a message of RocketMQ has no such thing.
    if (size === undefined) return null;
    this.#repeated += size;
    if (this.#repeated > MAX_REPEATED) {
      throw new GantryError('JSON', `its references repeat more than ${MAX_REPEATED} values`, { responseCode: 1 });
    }
    return found;
  }
}

function referenceOf(value: object): string | undefined {
  if (Array.isArray(value) || value instanceof Map) return undefined;
  const path = (value as JsonObject)['$ref'];
  return typeof path === 'string' && Object.keys(value).length === 1 ? path : undefined;
}

/** What lies at `$.a.b[0]`. Paths that name a parent (`@`, `..`) lead nowhere. */
function follow(path: string, root: JsonValue): JsonValue | undefined {
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
