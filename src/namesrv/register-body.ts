// The body of REGISTER_BROKER: what a broker says of its topics. Plain it is the JSON of RegisterBrokerBody; brokers of old send
// the topic table alone; and brokers with `compressedRegister` may send this, deflated (zlib):
//
//   i32 n + n bytes   DataVersion, JSON
//   i32               number of topics, and for each
//     i32 n + n bytes   `name readQueueNums writeQueueNums perm filterType {attributes}`, parted by single blanks
//   i32 n + n bytes   filter servers, a JSON list
//   i32               number of queue mappings (peers from V5_0_0 on only), and for each
//     i32 n + n bytes   TopicQueueMappingInfo, JSON
//
// The short text of a topic has no topicSysFlag. Numbers may come as strings, and fields may be missing, as Java reads them.

import { inflateSync } from 'node:zlib';
import { errorText, GantryError, viewOf } from '../common/index.ts';
import { type JsonValue, PeerVersion, parseJson } from '../remoting/index.ts';
import type { DataVersion, QueueData, QueueMappingInfo, RegisteredTables, RegisteredTopic } from './route-data.ts';

/** A body that inflates to more than this is refused; 20,000 topics are some 2 MB. More would hold up the loop for everybody. */
const MAX_INFLATED = 8 * 1024 * 1024;

/** Bodies below this are parsed in well under a millisecond. */
const REMEMBERED_FROM = 64 * 1024;

/** What Java's TopicConfig has when a field is missing. */
const DEFAULT_QUEUES = 16;
const DEFAULT_PERM = 6;

/**
 * Reads a body; none at all is an empty table.
 * @throws GantryError BODY (responseCode SYSTEM_ERROR) if it cannot be read.
 */
export function readRegisterBody(body: Uint8Array, compressed: boolean, peerVersion: number): RegisteredTables {
  if (body.length === 0) return emptyTables();
  try {
    if (peerVersion < PeerVersion.V3_0_11) return readTables(parseJson(body), []);
    if (compressed) return readCompressed(body, peerVersion);
    const root = object(parseJson(body), 'the body');
    return readTables(root['topicConfigSerializeWrapper'] ?? {}, texts(root['filterServerList']));
  } catch (error) {
    throw badBody('RegisterBrokerBody', error);
  }
}

/**
 * Reads the JSON of a DataVersion; fields that are missing count as 0.
 * @throws GantryError BODY (responseCode SYSTEM_ERROR) if it cannot be read.
 */
export function readDataVersion(body: Uint8Array): DataVersion {
  try {
    return dataVersion(parseJson(body));
  } catch (error) {
    throw badBody('DataVersion', error);
  }
}

/**
 * Reads the queues of a TopicRouteData body (REGISTER_TOPIC_IN_NAMESRV).
 * @throws GantryError BODY (responseCode SYSTEM_ERROR) if it cannot be read.
 */
export function readQueueDatas(body: Uint8Array): QueueData[] {
  try {
    const list = object(parseJson(body), 'the body')['queueDatas'] ?? [];
    if (!Array.isArray(list)) throw new Error('queueDatas is not a list');
    return list.map((item) => {
      const queue = object(item, 'an item of queueDatas');
      return {
        brokerName: text(queue['brokerName']) ?? '',
        perm: integer(queue['perm'], 0, 'perm'),
        readQueueNums: integer(queue['readQueueNums'], 0, 'readQueueNums'),
        topicSysFlag: integer(queue['topicSysFlag'], 0, 'topicSysFlag'),
        writeQueueNums: integer(queue['writeQueueNums'], 0, 'writeQueueNums'),
      };
    });
  } catch (error) {
    throw badBody('TopicRouteData', error);
  }
}

/**
 * Reads the bodies of registrations and remembers the last large one of each connection: a broker sends its whole table every
 * 30 s, and the same bytes need no second parse. The tables that are handed out are shared, so nobody may change them.
 */
export class RegisterBodies {
  readonly #last = new Map<number, { bytes: Buffer; compressed: boolean; tables: RegisteredTables }>();

  /** As `readRegisterBody`; `channelId` names the connection. */
  read(channelId: number, body: Uint8Array, compressed: boolean, peerVersion: number): RegisteredTables {
    if (body.length < REMEMBERED_FROM) return readRegisterBody(body, compressed, peerVersion);
    const last = this.#last.get(channelId);
    if (last !== undefined && last.compressed === compressed && last.bytes.equals(body)) return last.tables;
    const tables = readRegisterBody(body, compressed, peerVersion);
    this.#last.set(channelId, { bytes: Buffer.from(body), compressed, tables });
    return tables;
  }

  /** Lets go of what a connection sent. */
  forget(channelId: number): void {
    this.#last.delete(channelId);
  }
}

/** The error for a body that cannot be read, with Java's words in front. */
function badBody(what: string, cause: unknown): GantryError {
  return new GantryError('BODY', `Failed to decode ${what}, ${errorText(cause)}`, { cause, responseCode: 1 });
}

/** A JSON object, or an error that says what is not one. */
function object(value: JsonValue | undefined, what: string): Record<string, JsonValue> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Map)) return value;
  throw new Error(`${what} is not an object`);
}

/** A whole number, also one that is written as a string. */
function integer(value: JsonValue | undefined, fallback: number, what: string): number {
  if (value === undefined || value === null) return fallback;
  const number = typeof value === 'string' && /^-?\d+$/.test(value) ? Number(value) : value;
  if (typeof number === 'number' && Number.isInteger(number)) return number;
  throw new Error(`${what} is not a whole number`);
}

/** A string, or undefined. */
function text(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function emptyTables(): RegisteredTables {
  const none: DataVersion = { counter: 0, stateVersion: 0, timestamp: 0 };
  return { dataVersion: none, topics: [], queueMappings: [], filterServers: [] };
}

function readTables(value: JsonValue, filterServers: string[]): RegisteredTables {
  const wrapper = object(value, 'topicConfigSerializeWrapper');
  const topics: RegisteredTopic[] = [];
  for (const [name, config] of Object.entries(object(wrapper['topicConfigTable'] ?? {}, 'topicConfigTable'))) {
    topics.push(topicConfig(name, object(config, `topicConfigTable.${name}`)));
  }
  const queueMappings: QueueMappingInfo[] = [];
  const mappings = object(wrapper['topicQueueMappingInfoMap'] ?? {}, 'topicQueueMappingInfoMap');
  for (const [name, info] of Object.entries(mappings)) queueMappings.push(queueMapping(name, info));
  return { dataVersion: dataVersion(wrapper['dataVersion'] ?? {}), topics, queueMappings, filterServers };
}

function topicConfig(name: string, config: Record<string, JsonValue>): RegisteredTopic {
  return {
    topicName: text(config['topicName']) ?? name,
    readQueueNums: integer(config['readQueueNums'], DEFAULT_QUEUES, `readQueueNums of ${name}`),
    writeQueueNums: integer(config['writeQueueNums'], DEFAULT_QUEUES, `writeQueueNums of ${name}`),
    perm: integer(config['perm'], DEFAULT_PERM, `perm of ${name}`),
    topicSysFlag: integer(config['topicSysFlag'], 0, `topicSysFlag of ${name}`),
  };
}

function queueMapping(name: string, value: JsonValue): QueueMappingInfo {
  const info = object(value, `queue mapping of ${name}`);
  const currIdMap: Record<string, number> = {};
  for (const [id, queue] of Object.entries(object(info['currIdMap'] ?? {}, `currIdMap of ${name}`))) {
    currIdMap[id] = integer(queue, 0, `currIdMap of ${name}`);
  }
  return {
    bname: text(info['bname']) ?? '',
    currIdMap,
    dirty: info['dirty'] === true,
    epoch: integer(info['epoch'], 0, `epoch of ${name}`),
    scope: text(info['scope']) ?? '__global__',
    topic: text(info['topic']) ?? name,
    totalQueues: integer(info['totalQueues'], 0, `totalQueues of ${name}`),
  };
}

function dataVersion(value: JsonValue): DataVersion {
  const version = object(value, 'dataVersion');
  return {
    counter: integer(version['counter'], 0, 'counter'),
    stateVersion: integer(version['stateVersion'], 0, 'stateVersion'),
    timestamp: integer(version['timestamp'], 0, 'timestamp'),
  };
}

function texts(value: JsonValue | undefined): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}

function readCompressed(body: Uint8Array, peerVersion: number): RegisteredTables {
  const cursor = new Cursor(inflate(body));
  const tables = emptyTables();
  tables.dataVersion = dataVersion(parseJson(cursor.block()));
  for (let left = cursor.int(); left > 0; left--) tables.topics.push(shortTopic(cursor.block().toString('utf8')));
  tables.filterServers = texts(parseJson(cursor.block()));
  if (peerVersion < PeerVersion.V5_0_0) return tables;
  for (let left = cursor.int(); left > 0; left--)
    tables.queueMappings.push(queueMapping('', parseJson(cursor.block())));
  return tables;
}

function inflate(body: Uint8Array): Buffer {
  try {
    return inflateSync(body, { maxOutputLength: MAX_INFLATED });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_BUFFER_TOO_LARGE') throw error;
    throw new Error(`the ${body.length} bytes inflate to more than the limit of ${MAX_INFLATED}`, { cause: error });
  }
}

function shortTopic(line: string): RegisteredTopic {
  const parts = line.split(' ');
  if (parts.length < 5 || parts[0] === '') throw new Error(`"${line}" is no topic`);
  const [name, readQueueNums, writeQueueNums, perm] = parts;
  return topicConfig(name!, { readQueueNums: readQueueNums!, writeQueueNums: writeQueueNums!, perm: perm! });
}

/** Reads length-prefixed blocks and never past the end. */
class Cursor {
  readonly #bytes: Buffer;
  readonly #view: DataView;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
    this.#view = viewOf(bytes);
  }

  int(): number {
    if (this.#at + 4 > this.#bytes.length) throw new Error('the compressed data ends too early');
    this.#at += 4;
    return this.#view.getInt32(this.#at - 4);
  }

  block(): Buffer {
    const length = this.int();
    if (length < 0 || this.#at + length > this.#bytes.length) throw new Error('the compressed data ends too early');
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }
}
