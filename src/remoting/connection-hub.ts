// What all connections of one server (or one client) share: the loop turn, the output buffers, the limits, the sweep.
//
// A loop turn is the batch. Sockets are read first; then, once, the owner's turn-end callbacks run (a broker commits its log there),
// each connection that has output writes it in one piece, and what was cut off for fairness gets its share of the next turn. All of
// that costs one `clock.soon` a turn, and no timer per connection.

import type { Clock, Logger, Timer } from '../common/index.ts';
import { HeaderView } from './header-view.ts';
import { SlabPool } from './slab-pool.ts';

/** Limits of a connection; the defaults are RocketMQ's where it has them. */
export interface ConnectionLimits {
  /** Largest frame in bytes, its length field included. Default 16777216. */
  frameLimit: number;
  /** Frames of one connection that are handled in one turn. Default 256. */
  turnMessages: number;
  /** The same while others send, too: what they wait for is mostly the rest of that turn. Default 64. */
  sharedTurnMessages: number;
  /** Bytes that a peer may leave unread before we stop reading from it. Default 8 MiB. */
  unsentLimit: number;
  /** A peer that takes nothing for so long, although bytes wait for it, is closed. Default 60,000 ms. */
  stallMs: number;
  /** A connection without a byte in either direction for so long is closed. Default 120,000 ms. */
  idleMs: number;
}

export const DEFAULT_LIMITS: ConnectionLimits = {
  frameLimit: 16_777_216,
  turnMessages: 256,
  sharedTurnMessages: 64,
  unsentLimit: 8 * 1024 * 1024,
  stallMs: 60_000,
  idleMs: 120_000,
};

/** What the hub asks of a connection. */
export interface HubMember {
  /** Goes on with input that waits, or with reading. */
  continueInput(): void;
  /** Writes out the turn's output. */
  flush(): void;
  /** Looks for idleness and stalled readers. */
  sweep(now: number): void;
}

/** Bytes that one read of a socket takes at most, and the share of a connection in a turn. */
export const CHUNK_BYTES = 65_536;

/** So long after the last change of who sends, turns count as shared. */
const SHARED_MS = 100;
const SWEEP_MS = 5_000;
/** Longest that the input of a connection is held while the owner is pressed. */
const HOLD_MS = 1_000;
const SLAB_BYTES_KEPT = 16 * 1024 * 1024;
/** Buffers of frames are kept up to this size, and so many bytes of them. */
const LARGEST_FRAME_SLAB = 8 * 1024 * 1024;
const FRAME_SLAB_BYTES_KEPT = 16 * 1024 * 1024;
/** Complaints about peers between two sweeps; further ones are counted. */
const COMPLAINTS = 20;

export class ConnectionHub {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly limits: ConnectionLimits;
  readonly slabs: SlabPool = new SlabPool(SLAB_BYTES_KEPT);
  /** Buffers of long frames. */
  readonly frameSlabs: SlabPool = new SlabPool(FRAME_SLAB_BYTES_KEPT, LARGEST_FRAME_SLAB);
  /** The header of the frame that is being handled; handlers never nest. */
  readonly header: HeaderView = new HeaderView();
  /** Where every socket's next bytes are read to. */
  readonly chunk: Buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  readonly members: Set<HubMember> = new Set();
  /** Time of the current turn. */
  now: number;
  /** Number of the current turn. */
  turn = 0;
  /** Called when a connection has sent all it had, has less in flight, or has gone: for an owner that is waiting to stop. */
  watcher: (() => void) | undefined;

  /** Says that the owner cannot keep up: then those who had their share of a turn wait for `ease` instead of the next one. */
  pressed: () => boolean = () => false;
  /** Ms after which they go on all the same, once; at most a second. */
  holdLimitMs: () => number = () => HOLD_MS;
  /** While input is handled that waited for an owner who is still pressed: for how many ms it did; 0 for all other input. */
  heldMs = 0;
  /** Connections whose input waited with it. */
  heldConnections = 0;

  readonly #turnEnds: Array<() => void> = [];
  #output: HubMember[] = [];
  #input: HubMember[] = [];
  #holdTimer: Timer | undefined;
  #holdOver = false;
  /** Monotonic time at which the hold began; 0: there is none. */
  #holdSince = 0;
  #lastSender: HubMember | undefined;
  #sharedUntil = 0;
  #scheduled = false;
  #ending = false;
  #sweeper: Timer | undefined;
  #complaints = 0;
  #nextId = 1;
  readonly #endTurnLater = (): void => this.#endTurn();

  constructor(clock: Clock, logger: Logger, limits: Partial<ConnectionLimits>) {
    this.clock = clock;
    this.logger = logger;
    this.limits = { ...DEFAULT_LIMITS, ...limits };
    this.now = clock.now();
  }

  /** Calls `fn` once at the end of each turn that had input or output, before output is written. */
  onTurnEnd(fn: () => void): void {
    this.#turnEnds.push(fn);
  }

  add(member: HubMember): number {
    this.members.add(member);
    this.#sweeper ??= this.clock.every(SWEEP_MS, () => this.#sweep());
    return this.#nextId++;
  }

  remove(member: HubMember): void {
    this.members.delete(member);
    if (this.#lastSender === member) this.#lastSender = undefined;
    this.watcher?.();
    // The sweep goes on while there are complaints to count.
    if (this.members.size === 0 && this.#complaints === 0) this.#stopSweeping();
  }

  /** Makes sure that this turn gets its end. */
  wake(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    if (this.#ending) return;
    this.now = this.clock.now();
    this.clock.soon(this.#endTurnLater);
  }

  /** Whether more than one connection has sent of late. */
  get isShared(): boolean {
    return this.clock.now() < this.#sharedUntil;
  }

  /** The member has input in this turn. Answers how many frames of it may be handled. */
  beginTurn(member: HubMember): number {
    if (member !== this.#lastSender) {
      if (this.#lastSender !== undefined) this.#sharedUntil = this.now + SHARED_MS;
      this.#lastSender = member;
    }
    const { turnMessages, sharedTurnMessages } = this.limits;
    return this.now < this.#sharedUntil ? Math.min(turnMessages, sharedTurnMessages) : turnMessages;
  }

  /** The member has output; it is flushed at the end of the turn. */
  queueOutput(member: HubMember): void {
    this.#output.push(member);
    if (!this.#ending) this.wake();
  }

  /** The member has had its share of this turn; it goes on in the next one, after those that came before it. */
  queueInput(member: HubMember): void {
    this.#input.push(member);
    this.wake();
  }

  /** The owner may keep up again. */
  ease(): void {
    if (this.#input.length > 0) this.wake();
  }

  /** Whether those who had their share wait on. A hold ends after a while: an owner that stalls says so itself. */
  #holds(): boolean {
    const pressed = this.pressed();
    if (!pressed || this.#holdOver) {
      if (pressed) this.#noteHold();
      this.#holdSince = 0;
      this.#holdTimer?.cancel();
      this.#holdTimer = undefined;
      this.#holdOver = false;
      return false;
    }
    if (this.#holdSince === 0) this.#holdSince = this.clock.monotonic();
    this.#holdTimer ??= this.clock.after(Math.min(HOLD_MS, this.holdLimitMs()), () => {
      this.#holdTimer = undefined;
      this.#holdOver = true;
      this.wake();
    });
    return true;
  }

  /** For who looks at the input of this turn: it has waited, and what it waited for is still so. */
  #noteHold(): void {
    this.heldMs = Math.max(1, Math.round(this.clock.monotonic() - this.#holdSince));
    this.heldConnections = this.#input.length;
  }

  /** One line about a peer that sent what it should not; many in a row are counted instead. */
  complain(peer: string, reason: string): void {
    if (++this.#complaints <= COMPLAINTS) this.logger.warn(`closed the connection of ${peer}: ${reason}`, { peer });
  }

  #endTurn(): void {
    this.#scheduled = false;
    this.#ending = true;
    try {
      for (const fn of this.#turnEnds) fn();
      const output = this.#output;
      this.#output = [];
      for (const member of output) member.flush();
      this.turn++;
      if (this.#input.length > 0 && this.#holds()) return;
      const input = this.#input;
      this.#input = [];
      for (const member of input) member.continueInput();
    } finally {
      this.heldMs = 0;
      this.#ending = false;
      if (this.#scheduled || this.#output.length > 0) {
        this.#scheduled = true;
        this.now = this.clock.now();
        this.clock.soon(this.#endTurnLater);
      }
    }
  }

  /** Says what was counted and not said yet, and starts nothing more. */
  stop(): void {
    this.#tellUncounted();
    this.#stopSweeping();
    this.#holdTimer?.cancel();
  }

  #stopSweeping(): void {
    this.#sweeper?.cancel();
    this.#sweeper = undefined;
  }

  #tellUncounted(): void {
    const uncounted = this.#complaints - COMPLAINTS;
    this.#complaints = 0;
    if (uncounted > 0) this.logger.warn(`closed ${uncounted} more connections for bad input`);
  }

  #sweep(): void {
    this.now = this.clock.now();
    this.#tellUncounted();
    for (const member of [...this.members]) member.sweep(this.now);
    if (this.members.size === 0) this.#stopSweeping();
  }
}
