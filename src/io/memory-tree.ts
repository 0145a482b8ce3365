// The names of a disk in memory: the tree that programs see, and the changes of names that no sync of a folder has made durable.

import { type Clock, GantryError, type Random } from '../common/index.ts';
import {
  DirectoryNode,
  FileNode,
  keepSomeNames,
  type MemoryNode,
  type NameChange,
  settleNames,
} from './memory-node.ts';

export class MemoryTree {
  readonly #clock: Clock;
  #root: DirectoryNode;
  #changes: NameChange[] = [];

  constructor(clock: Clock, root: DirectoryNode = new DirectoryNode(clock.now())) {
    this.#clock = clock;
    this.#root = root;
  }

  find(path: string): MemoryNode | undefined {
    let node: MemoryNode | undefined = this.#root;
    for (const name of split(path)) {
      if (!(node instanceof DirectoryNode)) return undefined;
      node = node.seen.get(name);
    }
    return node;
  }

  /** The folder that a path lies in, and its name there. @throws GantryError IO. */
  place(path: string, action: string): { directory: DirectoryNode; name: string } {
    const names = split(path);
    const name = names.pop();
    if (name === undefined) throw ioError(action, path, 'EBUSY');
    const directory = this.find(names.join('/'));
    if (!(directory instanceof DirectoryNode)) throw ioError(action, path, 'ENOENT');
    return { directory, name };
  }

  change(change: NameChange): void {
    for (const { directory, name, node } of change) {
      if (node === undefined) directory.seen.delete(name);
      else directory.seen.set(name, node);
      directory.modifiedMs = this.#clock.now();
    }
    this.#changes.push(change);
  }

  create(path: string): FileNode {
    const node = new FileNode(this.#clock.now());
    this.change([{ ...this.place(path, 'create'), node }]);
    return node;
  }

  makeDirectory(path: string): void {
    let directory = this.#root;
    for (const name of split(path)) {
      let next = directory.seen.get(name);
      if (next instanceof FileNode) throw ioError('create the directory', path, 'ENOTDIR');
      if (next === undefined) {
        next = new DirectoryNode(this.#clock.now());
        this.change([{ directory, name, node: next }]);
      }
      directory = next;
    }
  }

  /** Takes a name away, and those below it one by one. */
  remove(path: string): void {
    const node = this.find(path);
    if (node instanceof DirectoryNode) this.#empty(node);
    this.change([{ ...this.place(path, 'remove'), node: undefined }]);
  }

  #empty(directory: DirectoryNode): void {
    for (const [name, node] of [...directory.seen]) {
      if (node instanceof DirectoryNode) this.#empty(node);
      this.change([{ directory, name, node: undefined }]);
    }
  }

  /** Changes so far that are not durable. */
  get changes(): readonly NameChange[] {
    return this.#changes;
  }

  /** Makes the changes in a folder durable: all, or those of `covered`. */
  settleDirectory(directory: DirectoryNode, covered?: ReadonlySet<NameChange>): void {
    this.#changes = this.#changes.filter((change) => {
      if (covered !== undefined && !covered.has(change)) return true;
      if (!change.some((part) => part.directory === directory)) return true;
      settleNames(change);
      return false;
    });
  }

  /** Makes everything durable, content too. */
  settle(): void {
    for (const change of this.#changes) settleNames(change);
    this.#changes = [];
    eachFile(this.#root, (file) => file.settle(file.order));
  }

  /** Lets the seed decide what of that which is not durable is there. */
  powerCut(random: Random, unit?: number): void {
    keepSomeNames(this.#changes, random);
    this.#changes = [];
    const walk = (directory: DirectoryNode): void => {
      directory.seen = new Map(directory.durable);
      for (const node of directory.seen.values()) {
        if (node instanceof DirectoryNode) walk(node);
        else node.powerCut(random, unit);
      }
    };
    walk(this.#root);
  }

  /** A tree of its own with the same content, all of it durable. */
  clone(clock: Clock): MemoryTree {
    return new MemoryTree(clock, this.#root.clone());
  }

  get usedPages(): number {
    let pages = 0;
    eachFile(this.#root, (file) => {
      pages += file.seen.pageCount;
    });
    return pages;
  }
}

function eachFile(directory: DirectoryNode, visit: (file: FileNode) => void): void {
  for (const node of directory.seen.values()) {
    if (node instanceof DirectoryNode) eachFile(node, visit);
    else visit(node);
  }
}

export function ioError(action: string, path: string, reason: string): GantryError {
  return new GantryError('IO', `cannot ${action} ${path}: ${reason}`);
}

function split(path: string): string[] {
  return path.split('/').filter((name) => name !== '' && name !== '.');
}
