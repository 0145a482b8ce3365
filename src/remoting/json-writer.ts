// JSON as Java's peers write and read it: compact, fields in alphabetical order, absent for null, and objects as map keys left
// raw ({{"brokerName":"b",...}:1}), which no JSON library would write and the 5.5 client insists on.

/**
 * The text of a value. Fields of objects come in alphabetical order, null and undefined ones are left out; a Map keeps its order
 * and writes object keys raw, all other keys as strings; a bigint becomes its digits, NaN and infinities become null.
 */
export function toJson(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value);
    case 'number':
      return Number.isFinite(value) ? String(value) : 'null';
    case 'bigint':
    case 'boolean':
      return String(value);
    case 'object':
      return value === null ? 'null' : containerToJson(value);
    default:
      return 'null';
  }
}

/** The UTF-8 bytes of `toJson`, which is what a body is. */
export function toJsonBytes(value: unknown): Buffer {
  return Buffer.from(toJson(value));
}

function containerToJson(value: object): string {
  if (Array.isArray(value)) return `[${value.map(toJson).join(',')}]`;
  if (value instanceof Set) return `[${[...value].map(toJson).join(',')}]`;
  if (value instanceof Map) return mapToJson(value);
  let text = '';
  const object = value as Record<string, unknown>;
  for (const key of Object.keys(object).sort()) {
    const field = object[key];
    if (field === undefined || field === null) continue;
    text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${toJson(field)}`;
  }
  return `{${text}}`;
}

function mapToJson(map: Map<unknown, unknown>): string {
  let text = '';
  for (const [key, field] of map) {
    const name = typeof key === 'object' && key !== null ? toJson(key) : JSON.stringify(String(key));
    text += `${text === '' ? '' : ','}${name}:${toJson(field)}`;
  }
  return `{${text}}`;
}
