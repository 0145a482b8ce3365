// The consumer groups that this broker knows (config/subscriptionGroup.json), and which of them may not read which topic.
//
// RocketMQ: SubscriptionGroupManager. There every look-up of an unknown group creates it, so that a mistyped name in a query stays for
// ever and a deleted group comes back. Here only what consumes creates (`findOrCreate`); a query looks (`find`).

import type { JsonObject } from '../../remoting/index.ts';
import { isLightQueue } from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { type ConfigEnvironment, ConfigManager } from '../config-manager.ts';
import { DataVersion } from '../data-version.ts';
import { readDataVersion, readInteger, readObject } from '../json-fields.ts';
import { prettyEntry, prettyPieces } from '../pretty-json.ts';
import { alterAttributes, GROUP_ATTRIBUTES } from '../topic/attributes.ts';
import { groupNameFault, isSystemGroup } from '../topic/topic-names.ts';
import {
  defaultGroupConfig,
  groupFields,
  readGroupConfig,
  type SubscriptionGroupConfig,
} from './subscription-group-config.ts';

const PREDEFINED = [
  'TOOLS_CONSUMER',
  'FILTERSRV_CONSUMER',
  'SELF_TEST_C_GROUP',
  'CID_ONS-HTTP-PROXY',
  'CID_ONSAPI_PULL',
  'CID_ONSAPI_PERMISSION',
  'CID_ONSAPI_OWNER',
  'CID_RMQ_SYS_TRANS',
];

/** The bit of (group, topic) that says that the group may not read the topic. RocketMQ: PermName.INDEX_PERM_READ. */
export const FORBIDDEN_READ = 2;

export class SubscriptionGroupManager extends ConfigManager {
  readonly dataVersion: DataVersion;
  /** With enableLmq every group of a light queue's name is there, with defaults. RocketMQ: LmqSubscriptionGroupManager. */
  lightQueues = false;
  readonly #config: BrokerConfig;
  readonly #table = new Map<string, SubscriptionGroupConfig>();
  /** Group, topic, bit set. */
  readonly #forbidden = new Map<string, Map<string, number>>();
  #saveWaits = false;

  constructor(environment: ConfigEnvironment, config: BrokerConfig) {
    super(environment, 'subscriptionGroup.json');
    this.#config = config;
    this.dataVersion = new DataVersion(environment.clock.now());
    for (const group of PREDEFINED) this.#table.set(group, defaultGroupConfig(group));
  }

  /** The group if it exists. */
  find(group: string): SubscriptionGroupConfig | undefined {
    return this.#table.get(group) ?? (this.#isLight(group) ? defaultGroupConfig(group) : undefined);
  }

  has(group: string): boolean {
    return this.#table.has(group) || this.#isLight(group);
  }

  #isLight(group: string): boolean {
    return this.lightQueues && isLightQueue(group);
  }

  get size(): number {
    return this.#table.size;
  }

  all(): IterableIterator<SubscriptionGroupConfig> {
    return this.#table.values();
  }

  /** The group, created with defaults if it does not exist and may be; for requests that consume. */
  findOrCreate(group: string): SubscriptionGroupConfig | undefined {
    const existing = this.find(group);
    if (existing !== undefined) return existing;
    const may = this.#config.autoCreateSubscriptionGroup || (isSystemGroup(group) && this.#config.enableCreateSysGroup);
    if (!may || groupNameFault(group) !== undefined) return undefined;
    const created = defaultGroupConfig(group);
    this.environment.logger.info(`subscription group ${group} is created`);
    this.#put(created);
    this.#saveSoon();
    return created;
  }

  /**
   * Creates or replaces groups by an administrator's wish; saved on return. A wish's attributes are changes (`+name`, `-name`).
   * @throws GantryError CONFIG_VALUE for an attribute that is not allowed (nothing is changed then), IO or DISK_FULL if saving fails
   */
  update(wishes: readonly SubscriptionGroupConfig[]): void {
    const kept = wishes.filter((wish) => !this.#isLight(wish.groupName));
    const ready = kept.map((wish) => {
      const old = this.#table.get(wish.groupName);
      return {
        ...wish,
        attributes: alterAttributes(old === undefined, GROUP_ATTRIBUTES, old?.attributes ?? new Map(), wish.attributes),
      };
    });
    for (const group of ready) {
      const old = this.#table.get(group.groupName);
      this.environment.logger.info(
        `subscription group ${group.groupName} is ${old === undefined ? 'created' : 'changed'}`,
      );
      this.#put(group);
    }
    if (ready.length > 0) this.persist();
  }

  /** Suspends a group; saved soon. False if there is none, or it is suspended already. */
  disableConsume(group: string): boolean {
    const old = this.#table.get(group);
    if (old === undefined || !old.consumeEnable) return false;
    this.#put({ ...old, consumeEnable: false });
    this.#saveSoon();
    return true;
  }

  /** Removes a group; saved on return. False if there was none. @throws GantryError IO or DISK_FULL if saving fails. */
  delete(group: string): boolean {
    this.#forbidden.delete(group);
    if (!this.#table.delete(group)) return false;
    this.environment.logger.info(`subscription group ${group} is deleted`);
    this.#moveOn();
    this.persist();
    return true;
  }

  /** Whether a bit of (group, topic) is set. */
  isForbidden(group: string, topic: string, bit: number): boolean {
    const bits = this.#forbidden.get(group)?.get(topic) ?? 0;
    return bits > 0 && (bits & (1 << bit)) !== 0;
  }

  /** Sets or clears a bit of (group, topic); saved on return. @throws GantryError IO or DISK_FULL if saving fails. */
  setForbidden(group: string, topic: string, bit: number, set: boolean): void {
    const topics = this.#forbidden.get(group) ?? new Map<string, number>();
    const old = topics.get(topic) ?? 0;
    const bits = set ? old | (1 << bit) : old & ~(1 << bit);
    if (bits === old) return;
    // RocketMQ: clearing one topic's last bit drops all topics of the group.
    if (bits > 0) topics.set(topic, bits);
    else topics.delete(topic);
    if (topics.size > 0) this.#forbidden.set(group, topics);
    else this.#forbidden.delete(group);
    this.#moveOn();
    this.persist();
  }

  /** The forbidden table, or the part that concerns some groups. */
  forbiddenTable(groups?: ReadonlySet<string>): Map<string, ReadonlyMap<string, number>> {
    const table = new Map<string, ReadonlyMap<string, number>>();
    for (const [group, topics] of this.#forbidden) {
      if (groups === undefined || groups.has(group)) table.set(group, topics);
    }
    return table;
  }

  /** The groups `[first, first + count)` in name order, as the paged answer wants them. */
  page(first: number, count: number): SubscriptionGroupConfig[] {
    const ordered = [...this.#table.keys()].sort();
    return ordered.slice(first, first + count).map((group) => this.#table.get(group)!);
  }

  protected override *encode(): Iterable<string> {
    yield `{\n\t${prettyEntry('dataVersion', this.dataVersion.fields(), 1)},\n`;
    yield `\t${prettyEntry('forbiddenTable', this.#forbidden, 1)},\n\t"subscriptionGroupTable":{`;
    yield* prettyPieces(this.#table, groupFields);
    yield '\n}';
  }

  protected override decode(json: JsonObject): void {
    const groups = readObject(json, 'subscriptionGroupTable') ?? {};
    const loaded = Object.entries(groups).map(([name, value]) => readGroupConfig(value, name));
    const forbidden = readForbidden(json);
    const version = readDataVersion(json);
    for (const group of loaded) {
      if (group !== undefined) this.#table.set(group.groupName, group);
    }
    for (const [group, topics] of forbidden) this.#forbidden.set(group, topics);
    if (version !== undefined) this.dataVersion.assign(version);
  }

  #put(group: SubscriptionGroupConfig): void {
    this.#table.set(group.groupName, group);
    this.#moveOn();
  }

  #moveOn(): void {
    this.dataVersion.next(this.environment.clock.now());
    this.markChanged();
  }

  #saveSoon(): void {
    if (this.#saveWaits) return;
    this.#saveWaits = true;
    this.environment.clock.soon(() => {
      this.#saveWaits = false;
      // What cannot be saved is logged, and tried again by the broker's timer.
      this.saved().catch(() => {});
    });
  }
}

function readForbidden(json: JsonObject): Map<string, Map<string, number>> {
  const table = new Map<string, Map<string, number>>();
  const groups = readObject(json, 'forbiddenTable') ?? {};
  for (const group of Object.keys(groups)) {
    const topics = readObject(groups, group) ?? {};
    const bits = new Map<string, number>();
    for (const topic of Object.keys(topics)) bits.set(topic, readInteger(topics, topic) ?? 0);
    table.set(group, bits);
  }
  return table;
}
