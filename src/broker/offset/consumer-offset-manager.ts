// How far each group has consumed each queue (config/consumerOffset.json). A commit is on the path of every pull, so it is two map
// look-ups and a number; the file is written between other work every few seconds, and only if something changed.
//
// Beside the committed offsets there are two tables that are never loaded: how far a group has pulled (shown by tools, written into the
// file for them), and pending resets (an administrator's wish: it wins over every commit until the next pull has been told of it).
//
// With enableLmq the file is config/lmqConsumerOffset.json, which also holds the offsets of groups that bear a light queue's name, one a
// topic: `lmqOffsetTable`.
//
// RocketMQ: ConsumerOffsetManager, LmqConsumerOffsetManager.

import { type JsonObject, toJson } from '../../remoting/index.ts';
import { isLightQueue, type MessageStore } from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { type ConfigEnvironment, ConfigManager, type ConfigSource } from '../config-manager.ts';
import { DataVersion } from '../data-version.ts';
import { mapPieces } from '../in-turns.ts';
import { readDataVersion, readInteger, readIntegerMap, readObject } from '../json-fields.ts';
import { prettyEntry, prettyPieces } from '../pretty-json.ts';
import type { TrafficCount } from '../traffic-stats.ts';

/** The offsets of one group on one topic, by queue id. A caller may keep it; `removed` says that it counts no longer. */
export class GroupOffsets {
  readonly topic: string;
  readonly group: string;
  /** Next offset to consume. */
  readonly committed: Map<number, number> = new Map();
  /** Next offset to pull. */
  readonly pulled: Map<number, number> = new Map();
  /** Offsets to be saved in the place of committed ones that are ahead of what is durable; undefined until there was one. */
  unsaved: Map<number, number> | undefined;
  /** Pending resets; undefined while there is none. */
  resets: Map<number, number> | undefined;
  removed = false;
  /** What the group has pulled; undefined until it has. */
  got: TrafficCount | undefined;

  constructor(topic: string, group: string) {
    this.topic = topic;
    this.group = group;
  }

  /** The key in the file. */
  get key(): string {
    return `${this.topic}@${this.group}`;
  }
}

export class ConsumerOffsetManager extends ConfigManager {
  readonly dataVersion: DataVersion;
  readonly #config: BrokerConfig;
  readonly #byGroup = new Map<string, Map<string, GroupOffsets>>();
  #commitsSinceVersion = 0;
  readonly #lightQueues: boolean;
  /** Brings `unsaved` up to date before a save; true if some are left, so that the next save is not the same. */
  beforeSave: () => boolean = () => false;

  /** `lightQueues`: enableLmq. */
  constructor(environment: ConfigEnvironment, config: BrokerConfig, lightQueues = false) {
    super(environment, lightQueues ? 'lmqConsumerOffset.json' : 'consumerOffset.json');
    this.#config = config;
    this.#lightQueues = lightQueues;
    this.dataVersion = new DataVersion(environment.clock.now());
  }

  /** RocketMQ: begins without any offset when enableLmq is set on a broker that had none. */
  override load(): ConfigSource {
    const source = super.load();
    if (!this.#lightQueues || source !== 'defaults') return source;
    const before = new ConsumerOffsetManager(this.environment, this.#config);
    const earlier = before.load();
    for (const { topic, group, committed } of before.entries()) {
      const offsets = this.of(group, topic);
      for (const [queueId, offset] of committed) offsets.committed.set(queueId, offset);
    }
    return earlier;
  }

  /** The offsets of (group, topic) if anything is known of them. */
  find(group: string, topic: string): GroupOffsets | undefined {
    return this.#byGroup.get(group)?.get(topic);
  }

  /** As `find`, made if there is nothing yet. */
  of(group: string, topic: string): GroupOffsets {
    let topics = this.#byGroup.get(group);
    if (topics === undefined) {
      topics = new Map();
      this.#byGroup.set(group, topics);
    }
    let offsets = topics.get(topic);
    if (offsets === undefined) {
      offsets = new GroupOffsets(topic, group);
      topics.set(topic, offsets);
    }
    return offsets;
  }

  /** Stores the next offset to consume; it may go backwards. */
  commit(clientAddress: string, group: string, topic: string, queueId: number, offset: number): void {
    this.commitTo(this.of(group, topic), clientAddress, queueId, offset);
  }

  /** As `commit`, for a caller that keeps the entry. */
  commitTo(offsets: GroupOffsets, clientAddress: string, queueId: number, wanted: number): void {
    // Beyond 2^53 - 1 a number is rounded, and Long.MAX_VALUE to one that a Java broker could not load.
    const offset = Math.min(wanted, Number.MAX_SAFE_INTEGER);
    const before = offsets.committed.get(queueId);
    if (before === offset) return;
    offsets.committed.set(queueId, offset);
    if (before !== undefined && offset < before) {
      this.environment.logger.warn(
        `offset of ${offsets.key} queue ${queueId} goes back from ${before} to ${offset} (client ${clientAddress})`,
      );
    }
    this.markChanged();
    if (++this.#commitsSinceVersion >= this.#config.consumerOffsetUpdateVersionStep) {
      this.#commitsSinceVersion = 0;
      this.dataVersion.next(this.environment.clock.now());
    }
  }

  /** Notes how far a group has pulled; the entry that says so. */
  commitPull(group: string, topic: string, queueId: number, offset: number): GroupOffsets {
    const offsets = this.of(group, topic);
    offsets.pulled.set(queueId, offset);
    return offsets;
  }

  /** Whether anything is known of a key of the file. */
  has(key: string): boolean {
    const at = groupAt(key);
    return this.find(key.slice(at + 1), key.slice(0, at)) !== undefined;
  }

  /** The pending reset if there is one, else the committed offset, else -1. */
  query(group: string, topic: string, queueId: number): number {
    const offsets = this.find(group, topic);
    if (offsets === undefined) return -1;
    if (this.#config.useServerSideResetOffset) {
      const reset = offsets.resets?.get(queueId);
      if (reset !== undefined) return reset;
    }
    return offsets.committed.get(queueId) ?? -1;
  }

  /** How far the group has pulled, or its offset if it never pulled here. */
  queryPull(group: string, topic: string, queueId: number): number {
    return this.find(group, topic)?.pulled.get(queueId) ?? this.query(group, topic, queueId);
  }

  /** Remembers a reset until the next pull takes it; it counts as committed at once. */
  assignReset(group: string, topic: string, queueId: number, offset: number): void {
    if (queueId < 0 || offset < 0) return;
    const offsets = this.of(group, topic);
    if (offsets.resets === undefined) offsets.resets = new Map();
    offsets.resets.set(queueId, offset);
    offsets.committed.set(queueId, offset);
    this.markChanged();
  }

  hasReset(group: string, topic: string, queueId: number): boolean {
    return this.find(group, topic)?.resets?.has(queueId) ?? false;
  }

  /** The pending reset of a queue, which is then no longer pending; -1 if there is none. */
  takeReset(group: string, topic: string, queueId: number): number {
    const offsets = this.find(group, topic);
    const reset = offsets?.resets?.get(queueId);
    if (offsets === undefined || reset === undefined) return -1;
    offsets.resets!.delete(queueId);
    if (offsets.resets!.size === 0) offsets.resets = undefined;
    return reset;
  }

  /** Topics that a group has committed offsets for. */
  topicsOf(group: string): string[] {
    const topics: string[] = [];
    for (const offsets of this.#byGroup.get(group)?.values() ?? []) {
      if (offsets.committed.size > 0) topics.push(offsets.topic);
    }
    return topics;
  }

  /** Groups that have committed offsets for a topic. */
  groupsOf(topic: string): string[] {
    const groups: string[] = [];
    for (const [group, topics] of this.#byGroup) {
      const offsets = topics.get(topic);
      if (offsets !== undefined && offsets.committed.size > 0 && !isBroadcast(group)) groups.push(group);
    }
    return groups;
  }

  /** Forgets all that concerns a group. */
  removeGroup(group: string): void {
    const topics = this.#byGroup.get(group);
    if (topics === undefined) return;
    for (const offsets of topics.values()) offsets.removed = true;
    this.#byGroup.delete(group);
    this.environment.logger.info(`offsets of group ${group} are removed`);
    this.#changedTable();
  }

  /** Forgets all that concerns a topic; whether there was anything. */
  removeTopic(topic: string): boolean {
    let removed = false;
    for (const [group, topics] of this.#byGroup) {
      const offsets = topics.get(topic);
      if (offsets === undefined) continue;
      offsets.removed = true;
      topics.delete(topic);
      if (topics.size === 0) this.#byGroup.delete(group);
      this.environment.logger.info(`offsets of ${offsets.key} are removed`);
      this.#changedTable();
      removed = true;
    }
    return removed;
  }

  /** Gives `to` the offsets that `from` has on a topic. */
  clone(from: string, to: string, topic: string): void {
    const source = this.find(from, topic);
    if (source === undefined || source.committed.size === 0) return;
    const target = this.of(to, topic);
    target.committed.clear();
    for (const [queueId, offset] of source.committed) target.committed.set(queueId, offset);
    this.#changedTable();
  }

  /**
   * Lowers, after a start, every offset that lies above its queue's end: the messages that it counted were lost with the unsynced end of
   * the log, and the next ones would be skipped. Each one is reported.
   */
  clampTo(store: Pick<MessageStore, 'maxOffsetInQueue'>): number {
    let lowered = 0;
    for (const offsets of this.entries()) {
      for (const [queueId, offset] of offsets.committed) {
        const max = store.maxOffsetInQueue(offsets.topic, queueId, false);
        if (offset <= max) continue;
        this.environment.logger.warn(
          `offset of ${offsets.key} queue ${queueId} is lowered from ${offset} to the queue's end ${max}`,
        );
        offsets.committed.set(queueId, max);
        lowered++;
      }
    }
    if (lowered > 0) this.#changedTable();
    return lowered;
  }

  /** Pieces of what a slave is answered: the table in the compact form, with what is not durable yet. RocketMQ: encode. */
  *compactPieces(): Generator<string> {
    yield `{"dataVersion":${toJson(this.dataVersion.fields())},"groupTopicMap":`;
    yield* mapPieces(this.#groupTopics(true));
    yield ',"offsetTable":';
    yield* mapPieces(this.#all('committed'));
    yield ',"pullOffsetTable":';
    yield* mapPieces(this.#all('pulled'));
    yield '}';
  }

  *#all(which: 'committed' | 'pulled'): Generator<[string, ReadonlyMap<number, number>] | undefined> {
    for (const offsets of this.entries()) yield offsets[which].size === 0 ? undefined : [offsets.key, offsets[which]];
  }

  *entries(): Generator<GroupOffsets> {
    for (const topics of this.#byGroup.values()) yield* topics.values();
  }

  protected override *encode(): Iterable<string> {
    if (this.beforeSave()) this.markChanged();
    yield `{\n\t${prettyEntry('dataVersion', this.dataVersion.fields(), 1)},\n\t"groupTopicMap":{`;
    yield* prettyPieces(this.#groupTopics(false), (topics) => topics);
    if (this.#lightQueues) {
      yield `,\n\t"lmqOffsetTable":{`;
      yield* prettyPieces(this.#lightOffsets(), (offset) => offset);
    }
    yield `,\n\t"offsetTable":{`;
    yield* prettyPieces(this.#tables('committed'), inOrder);
    yield `,\n\t"pullOffsetTable":{`;
    yield* prettyPieces(this.#tables('pulled'), inOrder);
    yield '\n}';
  }

  protected override decode(json: JsonObject): void {
    const loaded: Array<[key: string, offsets: ReadonlyMap<number, number>]> = [];
    const light = (this.#lightQueues ? readObject(json, 'lmqOffsetTable') : undefined) ?? {};
    for (const key of keysOf(light)) {
      const offset = readInteger(light, key);
      if (offset !== undefined) loaded.push([key, new Map([[0, offset]])]);
    }
    const table = readObject(json, 'offsetTable') ?? {};
    for (const key of keysOf(table)) loaded.push([key, readIntegerMap(table, key)]);
    const version = readDataVersion(json);
    for (const [key, offsets] of loaded) {
      const at = groupAt(key);
      const entry = this.of(key.slice(at + 1), key.slice(0, at));
      for (const [queueId, offset] of offsets) entry.committed.set(queueId, offset);
    }
    if (version !== undefined) this.dataVersion.assign(version);
  }

  #changedTable(): void {
    this.markChanged();
    this.dataVersion.next(this.environment.clock.now());
  }

  /** As those below: undefined for what is left out, so that nobody who goes through it is held up. `light`: those of light queues, too. */
  *#groupTopics(light: boolean): Generator<[string, string[]] | undefined> {
    for (const group of this.#byGroup.keys()) {
      const isOut = isBroadcast(group) || (!light && this.#isLight(group));
      const topics = isOut ? [] : this.topicsOf(group);
      yield topics.length > 0 ? [group, topics] : undefined;
    }
  }

  #isLight(group: string): boolean {
    return this.#lightQueues && isLightQueue(group);
  }

  *#lightOffsets(): Generator<[string, number] | undefined> {
    for (const offsets of this.entries()) {
      const offset = this.#isLight(offsets.group) ? durableOf(offsets).get(0) : undefined;
      yield offset === undefined ? undefined : [offsets.key, offset];
    }
  }

  *#tables(which: 'committed' | 'pulled'): Generator<[string, ReadonlyMap<number, number>] | undefined> {
    for (const offsets of this.entries()) {
      const table = which === 'committed' ? durableOf(offsets) : offsets[which];
      const isIn = table.size > 0 && !(which === 'committed' && this.#isLight(offsets.group));
      yield isIn ? [offsets.key, table] : undefined;
    }
  }
}

function inOrder(table: ReadonlyMap<number, number>): Map<number, number> {
  return new Map([...table].sort((a, b) => a[0] - b[0]));
}

/** The offsets that may be saved. */
function durableOf({ committed, unsaved }: GroupOffsets): ReadonlyMap<number, number> {
  if (unsaved === undefined || unsaved.size === 0) return committed;
  const durable = new Map(committed);
  for (const [queueId, offset] of unsaved) durable.set(queueId, Math.min(offset, committed.get(queueId) ?? offset));
  return durable;
}

const BROADCAST = '@broadcast';

/** The name under which the lowest offsets of a broadcasting group's clients stand; no group can bear it. */
export function broadcastGroup(group: string): string {
  return `${group}${BROADCAST}`;
}

/** Whether a name is such a one. */
export function isBroadcast(group: string): boolean {
  return group.endsWith(BROADCAST);
}

/** Where the "@" is that ends the topic in a key: the names of light queues, which clients choose, may hold others. */
function groupAt(key: string): number {
  if (!isLightQueue(key)) return key.indexOf('@');
  return key.lastIndexOf('@', isBroadcast(key) ? key.length - BROADCAST.length - 1 : key.length);
}

/** RocketMQ: splits at every "@" and passes over keys that do not give two parts; no valid name holds one. */
function keysOf(table: JsonObject): string[] {
  return Object.keys(table).filter((key) => key.indexOf('@') > 0);
}
