// Which operations of a disk in memory fail or wait: rules by operation and path, kept apart from what the disk does.

/** What a program asks of the disk. `open` of a file that is made on the way counts as `create` too. */
export type Operation =
  | 'open'
  | 'create'
  | 'createSized'
  | 'map'
  | 'read'
  | 'write'
  | 'sync'
  | 'truncate'
  | 'rename'
  | 'remove'
  | 'makeDirectory'
  | 'syncDirectory';

export interface FaultRule {
  operation: Operation;
  /** A part of the path, or a pattern; without it, every path. */
  path?: string | RegExp;
  /** Lets so many matching operations pass first; default 0. */
  skip?: number;
  /** How many operations fail; default 1, `Infinity` until cleared. */
  times?: number;
  /** Default IO. */
  code?: 'IO' | 'DISK_FULL';
  /** Of a failing write, so many bytes reach the file; default 0. */
  keepBytes?: number;
  /** The operation (write or sync) reports success all the same: a torn write or a lost sync that nobody hears of. */
  silent?: boolean;
}

/** A rule in force. */
export interface InjectedFault {
  /** Operations that it has struck. */
  readonly hits: number;
  clear(): void;
}

/** Completions held back. */
export interface Hold {
  /** Completions that wait now. */
  readonly waiting: number;
  /** Lets the oldest `count` complete (default all); later ones are still held. */
  release(count?: number): void;
  /** Lets all complete and holds no more. */
  end(): void;
}

class ActiveFault implements InjectedFault {
  readonly rule: FaultRule;
  hits = 0;
  #skip: number;
  #left: number;

  constructor(rule: FaultRule) {
    this.rule = rule;
    this.#skip = rule.skip ?? 0;
    this.#left = rule.times ?? 1;
  }

  strike(operation: Operation, path: string): boolean {
    if (this.#left <= 0 || operation !== this.rule.operation || !matches(this.rule.path, path)) return false;
    if (this.#skip-- > 0) return false;
    this.#left--;
    this.hits++;
    return true;
  }

  clear(): void {
    this.#left = 0;
  }
}

class ActiveHold implements Hold {
  readonly operation: Operation;
  readonly path: string | RegExp | undefined;
  active = true;
  #waiting: Array<() => void> = [];
  readonly #schedule: (task: () => void) => void;

  constructor(operation: Operation, path: string | RegExp | undefined, schedule: (task: () => void) => void) {
    this.operation = operation;
    this.path = path;
    this.#schedule = schedule;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  add(task: () => void): void {
    this.#waiting.push(task);
  }

  release(count: number = this.#waiting.length): void {
    for (const task of this.#waiting.splice(0, count)) this.#schedule(task);
  }

  end(): void {
    this.active = false;
    this.release();
  }
}

/** All rules of one disk. */
export class Faults {
  #faults: ActiveFault[] = [];
  #holds: ActiveHold[] = [];

  add(rule: FaultRule): InjectedFault {
    const fault = new ActiveFault(rule);
    this.#faults.push(fault);
    return fault;
  }

  hold(operation: Operation, path: string | RegExp | undefined, schedule: (task: () => void) => void): Hold {
    const hold = new ActiveHold(operation, path, schedule);
    this.#holds.push(hold);
    return hold;
  }

  /** The first rule that strikes this operation. */
  strike(operation: Operation, path: string): FaultRule | undefined {
    for (const fault of this.#faults) if (fault.strike(operation, path)) return fault.rule;
    return undefined;
  }

  /** True if a hold has taken the completion. */
  held(operation: Operation, path: string, task: () => void): boolean {
    for (const hold of this.#holds) {
      if (hold.active && hold.operation === operation && matches(hold.path, path)) {
        hold.add(task);
        return true;
      }
    }
    return false;
  }

  clear(): void {
    this.#faults = [];
    this.#holds = [];
  }
}

function matches(pattern: string | RegExp | undefined, path: string): boolean {
  if (pattern === undefined) return true;
  return typeof pattern === 'string' ? path.includes(pattern) : pattern.test(path);
}
