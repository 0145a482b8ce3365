// Objects that are filled from a peer's bytes: a field may be called `__proto__`, and must then be a field like any other.

const PROTO = '__proto__';

/** Sets an own property, also where the name is that of the prototype. */
export function setOwn(object: Record<string, unknown>, key: string, value: unknown): void {
  if (key === PROTO)
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  else object[key] = value;
}
