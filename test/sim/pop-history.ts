// One simulated history of pops: two groups pop, acknowledge one by one and together, change invisible times, forget; time passes, a topic is
// deleted and made again, the broker stops, is killed or loses its power at any write. A model beside it knows what may be delivered:
//
//   * A message that is durably stored comes again until it is acknowledged.
//   * One that was acknowledged in time, durably, comes no more, but for what RocketMQ's at-least-once, which is ours, allows: a crash sets back
//     what was saved last, and places that a group had popped since consumerOffset.json was saved are popped again.
//   * A pop that is not acknowledged makes one copy; a power cut that takes what was not flushed may make it two.

import assert from 'node:assert/strict';
import type { Popped } from '../../src/broker/pop/pop-world.test.support.ts';
import { SeededRandom } from '../../src/common/index.ts';
import { parseReceiptHandle, popRetryTopicV1, popRetryTopicV2, REVIVE_GROUP } from '../../src/message/index.ts';
import type { FlushDiskType } from '../../src/store/index.ts';
import { PopSimWorld } from './pop-world.ts';

const GROUPS = ['G', 'H'];
/** Topics and their queues; the last one is deleted now and then. */
const TOPICS: ReadonlyArray<readonly [topic: string, queues: number]> = [
  ['T', 2],
  ['U', 1],
];
const INVISIBLE_MS = [1500, 3000, 5000, 12_000];
const LONGEST_MS = 12_000;
/** With asynchronous flush: what is older than this is on disk. */
const FLUSHED_MS = 12_000;
/** With enablePopBufferMerge: what is older than this is in the log (popCkStayBufferTime and a look). */
const MERGED_MS = 10_500;

/** What became of a pop of one message. */
type Outcome = 'open' | 'acked' | 'changed' | 'unknown';

interface Handle {
  readonly popped: Popped;
  readonly place: string;
  /** Life of the process in which it was popped. */
  readonly life: number;
  readonly offset: number;
  readonly reviveMs: number;
  /** Tries that a copy of it counts. */
  copyLevel: number;
  readonly level: number;
  outcome: Outcome;
  /** When it was acknowledged or changed. */
  sinceMs: number;
}

interface Sent {
  readonly id: string;
  readonly topic: string;
  readonly sentMs: number;
  /** It must come. */
  isStored: boolean;
  /** Pops of it, by group. */
  readonly handles: Map<string, Handle[]>;
  /** Copies of it in the retry topic that were popped, by group and tries. */
  readonly copies: Map<string, Set<string>>;
}

export interface PopReport {
  sent: number;
  delivered: number;
  acked: number;
  changed: number;
  revived: number;
  again: number;
  kills: number;
  powerCuts: number;
  cutStarts: number;
  stops: number;
  deletions: number;
}

class History {
  readonly report: PopReport = {
    sent: 0,
    delivered: 0,
    acked: 0,
    changed: 0,
    revived: 0,
    again: 0,
    kills: 0,
    powerCuts: 0,
    cutStarts: 0,
    stops: 0,
    deletions: 0,
  };
  readonly #random: SeededRandom;
  readonly #world: PopSimWorld;
  readonly #syncFlush: boolean;
  /** Acknowledgements are kept in memory for a while. */
  readonly #isMerged: boolean;
  readonly #trace: (line: string) => void;
  readonly #sent = new Map<string, Sent>();
  #nextId = 0;
  #life = 0;
  /** Group offsets that each life began with: `life group topic queue`. */
  readonly #from = new Map<string, number>();
  /** Groups with a pop whose answer nobody got. */
  readonly #hidden = new Set<string>();
  /** A deletion was not answered: whoever wanted it tries it again. */
  #isDeleting = false;

  constructor(seed: number, trace: (line: string) => void) {
    this.#random = new SeededRandom(seed);
    this.#syncFlush = this.#random.int(4) > 0;
    this.#isMerged = this.#random.int(3) === 0;
    this.#trace = trace;
    const flushDiskType: FlushDiskType = this.#syncFlush ? 'SYNC_FLUSH' : 'ASYNC_FLUSH';
    this.#world = new PopSimWorld(
      seed,
      {
        reviveQueueNum: 1 + this.#random.int(3),
        enableRetryTopicV2: this.#random.int(3) === 0,
        useSeparateRetryQueue: this.#random.int(4) === 0,
        popFromRetryProbability: 50,
        enablePopBufferMerge: this.#isMerged,
        mappedFileSizeTimerLog: 52 * 40 + 20,
      },
      { flushDiskType, mappedFileSizeCommitLog: 128 * 1024, mappedFileSizeConsumeQueue: 2000 },
    );
  }

  async run(): Promise<PopReport> {
    const lives = 1 + this.#random.int(4);
    for (let life = 0; life < lives; life++) {
      if (this.#random.int(3) === 0)
        this.#world.fs.powerOffAfter(this.#random.int(this.#random.int(3) === 0 ? 60 : 1500));
      await this.#untilDown(() => this.#start());
      const steps = 8 + this.#random.int(30);
      for (let i = 0; i < steps && !this.#world.fs.isDown; i++) await this.#untilDown(() => this.#step());
      await this.#end();
    }
    await this.#start();
    await this.#drain();
    assert.ok(await this.#world.stop());
    return this.report;
  }

  // --- Lives

  /** Does something; what fails because the power went has not failed. */
  async #untilDown(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!this.#world.fs.isDown) throw error;
    }
  }

  async #start(): Promise<void> {
    const world = this.#world;
    this.#life++;
    if (!(await world.unlessDown(() => world.start()))) {
      this.report.cutStarts++;
      return;
    }
    const { context } = world;
    if (this.#isDeleting) await this.#delete();
    for (const [topic, queues] of TOPICS) context.topics.createInSend(topic, 'TBW102', 'sim', queues, 0);
    context.topics.persistIfChanged();
    for (const group of GROUPS) context.groups.findOrCreate(group);
    context.groups.persistIfChanged();
    for (const offsets of context.offsets.entries()) {
      for (const [queueId, offset] of offsets.committed) {
        this.#from.set(`${this.#life} ${offsets.group} ${offsets.topic} ${queueId}`, offset);
      }
    }
  }

  async #end(): Promise<void> {
    const world = this.#world;
    let kind = world.fs.isDown ? 2 : this.#random.int(3);
    if (kind === 0) {
      this.#trace('stop');
      if (await world.stop()) {
        this.report.stops++;
        world.die(() => {});
        return;
      }
      kind = 2;
    }
    if (kind === 1) {
      this.#trace('kill');
      this.report.kills++;
      world.die((fs) => fs.kill(world.random));
      if (this.#isMerged) this.#forgetAcks();
      return;
    }
    this.#trace('power cut');
    this.report.powerCuts++;
    world.die((fs) => fs.powerCut(world.random));
    if (this.#isMerged) this.#forgetAcks();
    if (!this.#syncFlush) this.#forgetUnflushed();
  }

  /** With enablePopBufferMerge a crash takes the acknowledgements that are in memory only. */
  #forgetAcks(): void {
    const since = this.#world.clock.now() - MERGED_MS;
    for (const sent of this.#sent.values()) {
      for (const handles of sent.handles.values()) {
        for (const handle of handles) if (handle.sinceMs > since) handle.outcome = 'unknown';
      }
    }
  }

  /** With asynchronous flush a power cut may take what was answered in the last seconds. */
  #forgetUnflushed(): void {
    const since = this.#world.clock.now() - FLUSHED_MS;
    for (const sent of this.#sent.values()) {
      if (sent.sentMs > since) sent.isStored = false;
      for (const handles of sent.handles.values()) {
        // Their places may be those of other messages from now on.
        for (const handle of handles) if (!sent.isStored || handle.sinceMs > since) handle.outcome = 'unknown';
      }
    }
  }

  // --- Steps

  async #step(): Promise<void> {
    const choice = this.#random.int(20);
    if (choice < 4) await this.#send();
    else if (choice < 9) await this.#pop(GROUPS[this.#random.int(2)]!, TOPICS[this.#random.int(2)]![0]);
    else if (choice < 13) await this.#ackSome();
    else if (choice < 14) await this.#change();
    else if (choice < 15) await this.#stray();
    else if (choice < 16 && this.#random.int(4) === 0) await this.#delete();
    else await this.#world.pass(50 + this.#random.int(this.#random.int(3) === 0 ? 8000 : 1500), 100);
  }

  async #send(): Promise<void> {
    const count = 1 + this.#random.int(6);
    for (let i = 0; i < count; i++) {
      const [topic, queues] = TOPICS[this.#random.int(2)]!;
      const id = `m${this.#nextId++}`;
      const sent: Sent = {
        id,
        topic,
        sentMs: this.#world.clock.now(),
        isStored: false,
        handles: new Map(GROUPS.map((group) => [group, []])),
        copies: new Map(),
      };
      this.#sent.set(id, sent);
      sent.isStored = await this.#world.trySend(id, topic, this.#random.int(queues));
      this.report.sent++;
    }
  }

  async #pop(group: string, topic: string, invisible?: number, max?: number): Promise<Handle[]> {
    const world = this.#world;
    const invisibleMs = invisible ?? INVISIBLE_MS[this.#random.int(INVISIBLE_MS.length)]!;
    const got = await world.tryPop(group, topic, max ?? 1 + this.#random.int(10), invisibleMs);
    if (got === undefined) {
      this.#trace(`${group} pops ${topic}: no answer`);
      this.#hidden.add(`${group} ${topic}`);
      return [];
    }
    return got.map((popped) => this.#delivered(group, topic, popped));
  }

  #delivered(group: string, topic: string, popped: Popped): Handle {
    const { message, topic: place } = popped;
    const id = popped.body;
    const what = `${group} gets ${id} at ${place} ${message.queueId} ${message.queueOffset}, tries ${message.reconsumeTimes}`;
    this.#trace(`${what}: ${popped.handle}`);
    this.report.delivered++;
    const sent = this.#sent.get(id);
    assert.ok(sent !== undefined && sent.topic === topic, `${what}: nobody sent that, or its topic was deleted since`);
    const parsed = parseReceiptHandle(popped.handle);
    assert.ok(typeof parsed !== 'string', `${what}: ${popped.handle}`);
    const handles = sent.handles.get(group)!;
    const handle: Handle = {
      popped,
      place: `${place} ${message.queueId} ${message.queueOffset}`,
      life: this.#life,
      offset: message.queueOffset,
      reviveMs: parsed.popTime + parsed.invisibleTimeMs,
      level: message.reconsumeTimes,
      copyLevel: message.reconsumeTimes + 1,
      outcome: 'open',
      sinceMs: 0,
    };
    this.#checkPlace(what, group, handle, handles);
    if (place !== topic) this.#checkCopy(what, group, sent, handle, handles);
    handles.push(handle);
    return handle;
  }

  /** A place is popped again only after a crash, from the offset on that was saved before. */
  #checkPlace(what: string, group: string, handle: Handle, handles: readonly Handle[]): void {
    const before = handles.findLast(({ place }) => place === handle.place);
    if (before === undefined) return;
    const { topic, message } = handle.popped;
    for (let life = before.life + 1; life <= this.#life; life++) {
      const from = this.#from.get(`${life} ${group} ${topic} ${message.queueId}`) ?? 0;
      if (handle.offset >= from) {
        this.report.again++;
        return;
      }
    }
    assert.fail(`${what}: the group had it in life ${before.life} (${before.outcome}), and no crash has set it back`);
  }

  /** A copy is of a pop that was not acknowledged in time, and there is one for each, also over a kill. */
  #checkCopy(what: string, group: string, sent: Sent, handle: Handle, handles: readonly Handle[]): void {
    this.report.revived++;
    const now = this.#world.clock.now();
    const key = `${group} ${handle.level}`;
    const copies = sent.copies.get(key) ?? new Set();
    sent.copies.set(key, copies.add(handle.place));
    const origins = handles.filter(
      ({ copyLevel, outcome, reviveMs }) =>
        copyLevel === handle.level && reviveMs <= now && (outcome === 'open' || outcome === 'unknown'),
    );
    if (this.#hidden.has(`${group} ${sent.topic}`)) return;
    assert.ok(origins.length > 0, `${what}: all pops of it were acknowledged in time, or are not over`);
    if (this.#syncFlush || this.report.powerCuts === 0) {
      assert.ok(copies.size <= origins.length, `${what}: ${copies.size} copies of ${origins.length} pops`);
    }
  }

  /** Handles that a client has not used. */
  #openHandles(group: string): Handle[] {
    const open: Handle[] = [];
    for (const sent of this.#sent.values()) {
      for (const handle of sent.handles.get(group)!) if (handle.outcome === 'open') open.push(handle);
    }
    return open;
  }

  async #ackSome(): Promise<void> {
    const group = GROUPS[this.#random.int(2)]!;
    const open = this.#openHandles(group);
    // The newest, mostly: acknowledgements that come too late are part of it.
    const some = open.slice(-6).filter(() => this.#random.int(3) > 0);
    if (some.length === 0) return;
    if (this.#random.int(2) === 0) {
      for (const handle of some) await this.#ack(group, handle);
      return;
    }
    const topic = this.#sent.get(some[0]!.popped.body)!.topic;
    const same = some.filter(({ popped }) => this.#sent.get(popped.body)!.topic === topic);
    const now = this.#world.clock.now();
    const answer = await this.#world.tryBatchAck(
      group,
      same.map(({ popped }) => popped),
      topic,
    );
    for (const handle of same) this.#acked(group, handle, now, answer?.code);
  }

  async #ack(group: string, handle: Handle): Promise<void> {
    const now = this.#world.clock.now();
    const answer = await this.#world.tryAck(group, handle.popped);
    this.#acked(group, handle, now, answer?.code);
    if (this.#random.int(8) === 0) await this.#world.tryAck(group, handle.popped);
  }

  #acked(group: string, handle: Handle, now: number, code: number | undefined): void {
    const inTime = now < handle.reviveMs && code === 0;
    handle.outcome = inTime ? 'acked' : 'unknown';
    handle.sinceMs = now;
    if (inTime) this.report.acked++;
    this.#trace(`${group} acknowledges ${handle.popped.body} at ${handle.place}: ${code}${inTime ? '' : ', too late'}`);
  }

  async #change(): Promise<void> {
    const group = GROUPS[this.#random.int(2)]!;
    const open = this.#openHandles(group);
    const handle = open.at(-1 - this.#random.int(4));
    if (handle === undefined) return;
    const now = this.#world.clock.now();
    const invisibleMs = [0, 500, 4000, 9000][this.#random.int(4)]!;
    const suspend = this.#random.int(3) === 0;
    const answer = await this.#world.tryChange(group, handle.popped, invisibleMs, suspend);
    const inTime = now < handle.reviveMs && answer?.code === 0;
    this.#trace(`${group} changes ${handle.popped.body} at ${handle.place} to ${invisibleMs} ms: ${answer?.code}`);
    handle.outcome = inTime ? 'changed' : 'unknown';
    handle.sinceMs = now;
    this.report.changed++;
    // RocketMQ's clients build the new handle of what the answer says.
    const { popTime, reviveQid } = answer?.ext ?? {};
    const [, , , , flag, broker, queueId, offset] = handle.popped.handle.split(' ');
    const time = popTime === undefined ? now : Number(popTime);
    const text = `${handle.offset} ${time} ${invisibleMs} ${reviveQid ?? 0} ${flag} ${broker} ${queueId} ${offset}`;
    const changed: Handle = {
      ...handle,
      popped: { ...handle.popped, handle: text },
      reviveMs: time + invisibleMs,
      copyLevel: handle.level + (suspend ? 0 : 1),
      outcome: answer?.code === 0 ? 'open' : 'unknown',
      sinceMs: answer?.code === 0 ? 0 : now,
    };
    this.#sent.get(handle.popped.body)!.handles.get(group)!.push(changed);
  }

  /** Acknowledgements of pops that never were. */
  async #stray(): Promise<void> {
    const [handle] = this.#openHandles('G');
    if (handle === undefined) return;
    const words = handle.popped.handle.split(' ');
    words[1] = String(Number(words[1]) - 1 - this.#random.int(100_000));
    await this.#world.tryAck('G', { ...handle.popped, handle: words.join(' ') });
  }

  async #delete(): Promise<void> {
    const { context } = this.#world;
    const [topic] = TOPICS.at(-1)!;
    this.#trace(`delete ${topic}`);
    const doomed = [
      topic,
      ...GROUPS.flatMap((group) => [popRetryTopicV1(topic, group), popRetryTopicV2(topic, group)]),
    ];
    this.#isDeleting = true;
    // Whether it is deleted when the power went nobody knows; the messages may come or not.
    if (!(await this.#world.unlessDown(() => context.store.deleteTopics(doomed)))) {
      for (const sent of this.#sent.values()) if (sent.topic === topic) sent.isStored = false;
      return;
    }
    for (const [id, sent] of this.#sent) if (sent.topic === topic) this.#sent.delete(id);
    // The numbers begin anew.
    for (const key of this.#from.keys()) if (key.split(' ')[2]!.endsWith('U')) this.#from.delete(key);
    this.report.deletions++;
    for (const name of doomed) {
      context.topics.delete(name);
      context.offsets.removeTopic(name);
    }
    context.offsets.persist();
    this.#isDeleting = false;
    context.topics.createInSend(topic, 'TBW102', 'sim', 1, 0);
    context.topics.persistIfChanged();
  }

  // --- The end

  /** Consumers take all there is and acknowledge it, until nothing has come for three times the longest invisible time. */
  async #drain(): Promise<void> {
    const world = this.#world;
    this.#trace('drain');
    for (let quietSince = world.clock.now(); world.clock.now() - quietSince < 3 * LONGEST_MS; ) {
      for (const group of GROUPS) {
        for (const [topic] of TOPICS) {
          for (const handle of await this.#pop(group, topic, LONGEST_MS, 32)) {
            quietSince = world.clock.now();
            await this.#ack(group, handle);
          }
        }
      }
      await world.pass(1500, 250);
    }
    for (const sent of this.#sent.values()) {
      if (!sent.isStored) continue;
      for (const [group, handles] of sent.handles) {
        assert.ok(handles.length > 0, `${sent.id} of ${sent.topic} was never delivered to ${group}`);
        const isDone = handles.some(({ outcome }) => outcome === 'acked' || outcome === 'unknown');
        assert.ok(isDone, `${sent.id} of ${sent.topic} was not acknowledged by ${group}, and comes no more`);
      }
    }
    this.#checkPositions();
  }

  /** Nothing holds revive up: not acknowledgements without a pop, not pops of deleted topics. */
  #checkPositions(): void {
    const { offsets, pop, revive, store } = this.#world.context;
    const { topic } = pop.revive;
    for (const { topic: other, queueId } of store.queues()) {
      if (other !== topic) continue;
      const end = store.maxOffsetInQueue(topic, queueId);
      assert.equal(offsets.query(REVIVE_GROUP, topic, queueId), end - 1, `revive queue ${queueId} of ${end} records`);
    }
    assert.deepEqual([...revive.progress()], []);
    // A record that was torn by a power cut, but for its body.
    assert.ok(revive.counts.setAside <= this.report.powerCuts);
  }
}

/** Runs one history. @throws whatever was found wrong */
export async function runPopHistory(
  seed: number,
  options: { trace?: (line: string) => void } = {},
): Promise<PopReport> {
  return await new History(seed, options.trace ?? (() => {})).run();
}
