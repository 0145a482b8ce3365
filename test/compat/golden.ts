// Store directories written by Java brokers 4.9.7 to 5.5.0, with manifests in which Java's own classes say what they make of them
// (test/fixtures/stores). An archive is a plain tar in gzip; a manifest is JSON in gzip. All runs were in UTC.

import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import type { FileSystem } from '../../src/io/index.ts';

/** One record as MessageDecoder read it. */
export interface GoldenMessage {
  topic: string;
  queueId: number;
  queueOffset: number;
  physicalOffset: number;
  storeSize: number;
  magic: number;
  offsetMsgId: string;
  uniqKey: string | null;
  tags: string | null;
  keys: string | null;
  tagsHash: number;
  sysFlag: number;
  flag: number;
  bornTimestamp: number;
  storeTimestamp: number;
  /** `address|port`. */
  bornHost: string;
  storeHost: string;
  bodyCRC: number;
  reconsumeTimes: number;
  preparedTransactionOffset: number;
  bodyLength: number;
  bodySha256: string;
  properties: Record<string, string>;
  recordSha256: string;
}

/** A queue as DefaultMessageStore saw it. Units: queueOffset, physicalOffset, size, tagsCode (text beyond 2^53), then kind-specific. */
export interface GoldenQueue {
  topic: string;
  queueId: number;
  minOffset: number;
  maxOffset: number;
  maxPhysicOffset?: number | null;
  cqType?: string;
  cqClass?: string;
  units?: Array<Array<number | string>>;
  /** [time, offset] with the boundary LOWER. */
  offsetByTime?: Array<[number, number]>;
}

export interface GoldenRead {
  topic: string;
  queueId: number;
  offset: number;
  maxMsgs: number;
  status: string;
  nextBeginOffset: number;
  minOffset: number;
  maxOffset: number;
  messages: number;
  bytes: number;
  error?: string;
}

export interface GoldenIndexQuery {
  /** True: a whole queryMessage; else the index alone. */
  queryMessage?: boolean;
  topic: string;
  key: string;
  indexType?: 'T';
  maxNum: number;
  begin: number;
  end: number;
  phyOffsets: number[];
  indexLastUpdateTimestamp?: number;
  indexLastUpdatePhyoffset?: number;
}

export interface GoldenFile {
  path: string;
  size?: number;
  sha256?: string;
}

/** What Java arrived at. Queues after load have no units. */
export interface GoldenOutcome {
  javaAfterLoad: {
    ok: boolean;
    maxPhyOffset: number;
    minPhyOffset: number;
    queues?: GoldenQueue[];
    files: GoldenFile[];
  };
  javaAfterStart?: {
    maxPhyOffset: number;
    minPhyOffset: number;
    confirmOffset: number;
    dispatchBehindBytes: number;
    queues: GoldenQueue[];
    reads: GoldenRead[];
    indexFiles: Array<Record<string, string | number>>;
    indexQueries: GoldenIndexQuery[];
  };
  filesAfterJavaShutdown?: GoldenFile[];
}

export interface GoldenManifest extends GoldenOutcome {
  rocketmqVersion: string;
  brokerConf: Record<string, string>;
  files: GoldenFile[];
  abortFilePresent: boolean;
  checkpoint: Record<string, number>;
  textFiles: Record<string, string>;
  endOfData: number;
  blanks: Array<{ offset: number; size: number }>;
  messages: GoldenMessage[];
  /** Of each file: its records' `[queueOffset, physicalOffset, size, keys, bodyLength]`, and where they end. */
  compactionLogFiles?: Array<{
    file: string;
    endPosition: number;
    records: Array<[number, number, number, string, number]>;
  }>;
}

/** An edit of the archive that a damage case begins with. */
export type GoldenEdit =
  | { op: 'delete'; path: string }
  | { op: 'deleteTree'; path: string }
  | { op: 'create'; path: string; size: number }
  | { op: 'write'; path: string; offset: number; hex: string }
  | { op: 'zero'; path: string; offset: number; length: number };

export interface GoldenDamage extends GoldenOutcome {
  case: string;
  archive: string;
  edits: GoldenEdit[];
}

/** Stores whose queues are files. */
export const FILE_STORES: readonly string[] = [
  '497-plain-clean',
  '497-plain-crash',
  '514-plain-clean',
  '514-plain-crash',
  '533-plain-clean',
  '533-plain-crash',
  '550-plain-clean',
  '550-plain-crash',
  '550-midwrite',
  '550-midwrite-crash',
  '550-ipv6',
  '550-v2topic',
  '550-pool-propcrc',
  '550-pool-propcrc-crash',
  '550-writewithoutmmap',
  '550-controller',
  '550-controller-crash',
  '550-ext',
  '550-features',
];

/** The folder test/fixtures/stores, wherever the tests were compiled to. */
function storesFolder(): string {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    const candidate = join(folder, 'test', 'fixtures', 'stores');
    if (existsSync(join(candidate, '550-plain-clean.tar.gz'))) return candidate;
    if (folder === dirname(folder)) throw new Error('test/fixtures/stores was not found above the tests');
  }
}

function json<T>(path: string): T {
  return JSON.parse(gunzipSync(readFileSync(path)).toString('utf8')) as T;
}

export function goldenManifest(name: string): GoldenManifest {
  return json(join(storesFolder(), `${name}.manifest.json.gz`));
}

export function goldenDamage(name: string): GoldenDamage {
  return json(join(storesFolder(), 'damage', `${name}.json.gz`));
}

/** The files of an archive by path below the store's root; folders that hold nothing end in `/` and have no bytes. */
export function goldenFiles(name: string): Map<string, Uint8Array> {
  return readTar(gunzipSync(readFileSync(join(storesFolder(), `${name}.tar.gz`))));
}

const BLOCK = 512;

/** Reads a ustar or GNU tar without sparse entries. */
export function readTar(tar: Uint8Array): Map<string, Uint8Array> {
  const files = new Map<string, Uint8Array>();
  let longName: string | undefined;
  for (let at = 0; at + BLOCK <= tar.length && tar[at] !== 0; ) {
    const text = (start: number, length: number): string => {
      const field = Buffer.from(tar.subarray(at + start, at + start + length)).toString('utf8');
      const end = field.indexOf('\0');
      return end < 0 ? field : field.slice(0, end);
    };
    const size = Number.parseInt(text(124, 12).trim(), 8);
    const kind = text(156, 1);
    const prefix = text(257, 5) === 'ustar' && text(263, 2) !== ' ' ? text(345, 155) : '';
    const name = longName ?? (prefix === '' ? text(0, 100) : `${prefix}/${text(0, 100)}`);
    const body = tar.subarray(at + BLOCK, at + BLOCK + size);
    longName = undefined;
    if (kind === 'L') longName = Buffer.from(body).toString('utf8').replace(/\0.*$/s, '');
    else if (kind === '5') files.set(name.replace(/^\.\//, '').replace(/\/?$/, '/'), new Uint8Array(0));
    else if (kind === '0' || kind === '') files.set(name.replace(/^\.\//, ''), body);
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
  }
  return files;
}

/** Writes files below `root`, which is made. */
export function unpack(fs: FileSystem, root: string, files: ReadonlyMap<string, Uint8Array>): void {
  fs.makeDirectory(root);
  for (const [path, bytes] of files) {
    if (path.endsWith('/')) {
      if (path !== '/') fs.makeDirectory(`${root}/${path.slice(0, -1)}`);
      continue;
    }
    const slash = path.lastIndexOf('/');
    if (slash > 0) fs.makeDirectory(`${root}/${path.slice(0, slash)}`);
    const file = fs.open(`${root}/${path}`, 'create');
    if (bytes.length > 0) file.writeSync(bytes, 0, bytes.length, 0);
    file.close();
  }
}

/** Does to an unpacked store what a damage case says. */
export function applyEdits(fs: FileSystem, root: string, edits: readonly GoldenEdit[]): void {
  for (const edit of edits) {
    const path = `${root}/${edit.path}`;
    switch (edit.op) {
      case 'delete':
        fs.remove(path);
        break;
      case 'deleteTree':
        fs.removeTree(path);
        break;
      case 'create': {
        const file = fs.open(path, 'create');
        file.truncateSync(edit.size);
        file.close();
        break;
      }
      case 'write':
        overwrite(fs, path, edit.offset, Buffer.from(edit.hex, 'hex'));
        break;
      case 'zero':
        overwrite(fs, path, edit.offset, new Uint8Array(edit.length));
        break;
    }
  }
}

/** Puts bytes into a file that is there. */
export function overwrite(fs: FileSystem, path: string, offset: number, bytes: Uint8Array): void {
  const file = fs.open(path, 'write');
  file.writeSync(bytes, 0, bytes.length, offset);
  file.close();
}

/** All files below a folder, by path relative to it. */
export function packed(fs: FileSystem, root: string, below = ''): Map<string, Uint8Array> {
  const files = new Map<string, Uint8Array>();
  const walk = (relative: string): void => {
    for (const name of fs.list(`${root}/${relative}`).sort()) {
      const path = relative === '' ? name : `${relative}/${name}`;
      if (fs.stat(`${root}/${path}`)?.isDirectory) walk(path);
      else {
        const file = fs.open(`${root}/${path}`, 'read');
        const bytes = new Uint8Array(file.size());
        if (bytes.length > 0) file.readSync(bytes, 0, bytes.length, 0);
        file.close();
        files.set(path, bytes);
      }
    }
  };
  walk(below);
  return files;
}

export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
