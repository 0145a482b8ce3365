// Settings that clients keep at the name server, by namespace: the only state here that outlives the process. (RocketMQ:
// KVConfigManager.) Saved whole at each change as `{"configTable":{namespace:{key:value}}}`, in a way that a power cut leaves
// the old or the new table.

import { errorText, GantryError, type Logger } from '../common/index.ts';
import { type FileSystem, makeDirectoryDurably, readWhole, saveDurably } from '../io/index.ts';

/** Namespace of the queue layout of ordered topics: key is the topic, value `broker-a:4;broker-b:4`. */
export const ORDER_TOPIC_CONFIG = 'ORDER_TOPIC_CONFIG';

type KvTable = Map<string, Map<string, string>>;

export interface KvConfigDeps {
  readonly fs: FileSystem;
  readonly logger: Logger;
}

export class KvConfig {
  readonly #fs: FileSystem;
  readonly #path: string;
  #table: KvTable;

  private constructor(fs: FileSystem, path: string, table: KvTable) {
    this.#fs = fs;
    this.#path = path;
    this.#table = table;
  }

  /**
   * Loads the table from `path`, or from `path.bak` when that is missing or damaged (with one warning); empty if there is neither.
   * @throws GantryError CONFIG_FILE when a file is there and no readable one: the settings are not dropped in silence.
   */
  static open(path: string, deps: KvConfigDeps): KvConfig {
    const faults: string[] = [];
    for (const candidate of [path, `${path}.bak`]) {
      try {
        const bytes = readWhole(deps.fs, candidate);
        if (bytes === undefined) continue;
        const table = decode(bytes);
        if (faults.length > 0) {
          // Out of the way of the next save, which would push it over the good one.
          deps.fs.rename(path, `${path}.damaged`);
          deps.logger.warn(`${faults[0]}; ${candidate} is used instead and the damaged file kept as ${path}.damaged`);
        }
        return new KvConfig(deps.fs, path, table);
      } catch (error) {
        faults.push(`the KV configuration ${candidate} cannot be read: ${errorText(error)}`);
      }
    }
    if (faults.length > 0) throw new GantryError('CONFIG_FILE', faults.join('; '));
    return new KvConfig(deps.fs, path, new Map());
  }

  /** The value; undefined if there is none. */
  get(namespace: string | undefined, key: string | undefined): string | undefined {
    if (namespace === undefined || key === undefined) return undefined;
    return this.#table.get(namespace)?.get(key);
  }

  /** All keys and values of a namespace; undefined if it has never been written to. */
  namespace(namespace: string | undefined): Record<string, string> | undefined {
    const values = namespace === undefined ? undefined : this.#table.get(namespace);
    return values === undefined ? undefined : Object.fromEntries(values);
  }

  /**
   * Sets a value and saves; without a value the key goes, and the namespace comes to be.
   * @throws GantryError IO or DISK_FULL, and then nothing has changed. RocketMQ: answers success and keeps it in memory only.
   */
  put(namespace: string, key: string, value: string | undefined): void {
    const values = new Map(this.#table.get(namespace));
    if (value === undefined) values.delete(key);
    else values.set(key, value);
    this.#save(new Map(this.#table).set(namespace, values));
  }

  /**
   * Removes a value and saves; the namespace stays.
   * @throws GantryError IO or DISK_FULL, and then nothing has changed.
   */
  delete(namespace: string | undefined, key: string | undefined): void {
    if (namespace === undefined || key === undefined || !this.#table.has(namespace)) return;
    this.put(namespace, key, undefined);
  }

  #save(table: KvTable): void {
    const slash = this.#path.lastIndexOf('/');
    if (slash > 0) makeDirectoryDurably(this.#fs, this.#path.slice(0, slash));
    saveDurably(this.#fs, this.#path, encode(table));
    this.#table = table;
  }
}

function encode(table: KvTable): string {
  const namespaces: Array<[string, Record<string, string>]> = [];
  for (const [namespace, values] of table) namespaces.push([namespace, Object.fromEntries(values)]);
  return JSON.stringify({ configTable: Object.fromEntries(namespaces) });
}

function decode(bytes: Uint8Array): KvTable {
  const root: unknown = JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8'));
  if (!isObject(root)) throw new Error('it holds no JSON object');
  const table: KvTable = new Map();
  if (root['configTable'] === undefined || root['configTable'] === null) return table;
  if (!isObject(root['configTable'])) throw new Error('configTable is not an object');
  for (const [namespace, values] of Object.entries(root['configTable'])) {
    if (!isObject(values)) throw new Error(`the namespace ${namespace} is not an object`);
    const texts = new Map<string, string>();
    for (const [key, value] of Object.entries(values)) {
      if (value !== null) texts.set(key, typeof value === 'string' ? value : JSON.stringify(value));
    }
    table.set(namespace, texts);
  }
  return table;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
