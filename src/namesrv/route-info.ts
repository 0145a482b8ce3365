// The route tables: which brokers live where, and which queues of which topic they hold. (RocketMQ: RouteInfoManager.)
// Pure state: no socket, no clock, no log. Times are handed in and consequences (channels to close, brokers to tell) are
// handed back, so that each rule of registration can be tested by itself.

import {
  addresses,
  type BrokerGroup,
  brokerData,
  dropOtherIds,
  type MinBrokerChange,
  minBrokerChange,
  minimumId,
} from './broker-group.ts';
import {
  type BrokerData,
  type BrokerMemberGroup,
  type ClusterInfo,
  type DataVersion,
  MASTER_ID,
  Perm,
  type QueueData,
  type QueueMappingInfo,
  type RegisteredTables,
  type RegisteredTopic,
  sameDataVersion,
  type TopicList,
  type TopicRouteData,
} from './route-data.ts';

/** A live entry without a timeout of its own counts as gone after this many milliseconds without a sign. */
export const DEFAULT_BROKER_TIMEOUT_MS = 120_000;

/** Topics whose route never shows an acting master, since brokers find their own group by them. */
const SYNC_BROKER_MEMBER_PREFIX = 'rmq_sys_SYNC_BROKER_MEMBER_';

const UNIT_FLAG = 1;
const UNIT_SUB_FLAG = 2;

/** Switches of NamesrvConfig that decide what the tables do; read at each call, since they change at run time. */
export interface RouteSettings {
  readonly supportActingMaster: boolean;
  readonly deleteTopicWithBrokerRegistration: boolean;
}

/** Names one broker process. */
export interface BrokerIdentity {
  clusterName: string;
  brokerName: string;
  brokerAddr: string;
  brokerId: number;
}

/** A registration: who, and what it holds. */
export interface Registration extends BrokerIdentity {
  haServerAddr: string | undefined;
  zoneName: string | undefined;
  /** undefined: a broker from before acting masters. */
  enableActingMaster: boolean | undefined;
  /** undefined: DEFAULT_BROKER_TIMEOUT_MS. */
  heartbeatTimeoutMs: number | undefined;
  tables: RegisteredTables;
  /** Channel.id of the connection that registers; its end is the broker's end. */
  channelId: number;
}

/**
 * `registered`; `ignored`: another address holds this id with a larger state version (answered as success);
 * `refused`: a first registration with exactly one topic, which can only be an increment that came too early.
 */
export interface RegisterResult {
  outcome: 'registered' | 'ignored' | 'refused';
  /** The live entry is a new one. */
  fresh: boolean;
  /** For a slave: its master, if that is live. */
  masterAddr: string | undefined;
  haServerAddr: string | undefined;
  minBrokerChange: MinBrokerChange | undefined;
}

/** A broker that was found silent for too long and has been removed. */
export interface ExpiredBroker {
  clusterName: string;
  brokerAddr: string;
  timeoutMs: number;
  channelId: number;
  minBrokerChange: MinBrokerChange | undefined;
}

interface Live {
  clusterName: string;
  brokerAddr: string;
  lastUpdate: number;
  timeoutMs: number;
  dataVersion: DataVersion;
  channelId: number;
  haServerAddr: string | undefined;
}

export class RouteInfo {
  readonly #settings: RouteSettings;
  /** topic -> broker name -> queues. Never holds an empty inner map. */
  readonly #topics = new Map<string, Map<string, QueueData>>();
  /** broker name -> addresses. Never holds a group without an address. */
  readonly #groups = new Map<string, BrokerGroup>();
  /** cluster -> broker names. Never holds an empty set. */
  readonly #clusters = new Map<string, Set<string>>();
  readonly #live = new Map<string, Live>();
  readonly #filterServers = new Map<string, string[]>();
  /** topic -> broker name -> mapping; only for topics in #topics. */
  readonly #queueMappings = new Map<string, Map<string, QueueMappingInfo>>();

  constructor(settings: RouteSettings) {
    this.#settings = settings;
  }

  /** Takes in a registration at time `now` (milliseconds). */
  registerBroker(r: Registration, now: number): RegisterResult {
    const result: RegisterResult = {
      outcome: 'registered',
      fresh: false,
      masterAddr: undefined,
      haServerAddr: undefined,
      minBrokerChange: undefined,
    };
    const key = liveKey(r.clusterName, r.brokerAddr);
    const known = this.#groups.get(r.brokerName);
    const heldBy = known?.addrs.get(r.brokerId);
    // RocketMQ: the tables are touched before these two checks, so that a refused broker leaves an entry without addresses.
    if (known !== undefined && heldBy !== undefined && heldBy !== r.brokerAddr && this.#isOlder(r, heldBy)) {
      dropOtherIds(known, r.brokerAddr, r.brokerId);
      this.#live.delete(key);
      result.outcome = 'ignored';
      return result;
    }
    if (heldBy === undefined && r.tables.topics.length === 1) {
      result.outcome = 'refused';
      return result;
    }

    const group = known ?? this.#newGroup(r);
    addTo(this.#clusters, r.clusterName, r.brokerName);
    group.enableActingMaster = r.enableActingMaster ?? false;
    group.zoneName = r.zoneName;
    const previousMinimum = group.addrs.size === 0 ? MASTER_ID : minimumId(group);
    dropOtherIds(group, r.brokerAddr, r.brokerId);
    group.addrs.set(r.brokerId, r.brokerAddr);

    const primeSlave =
      r.enableActingMaster !== undefined && r.brokerId !== MASTER_ID && r.brokerId === minimumId(group);
    if (r.brokerId === MASTER_ID || primeSlave) this.#takeTopics(r, group, primeSlave, heldBy === undefined);

    result.fresh = !this.#live.has(key);
    this.#live.set(key, {
      clusterName: r.clusterName,
      brokerAddr: r.brokerAddr,
      lastUpdate: now,
      timeoutMs: r.heartbeatTimeoutMs ?? DEFAULT_BROKER_TIMEOUT_MS,
      dataVersion: r.tables.dataVersion,
      channelId: r.channelId,
      haServerAddr: r.haServerAddr,
    });
    if (r.tables.filterServers.length === 0) this.#filterServers.delete(key);
    else this.#filterServers.set(key, r.tables.filterServers);
    this.#nameMaster(r, group, result);
    if (r.brokerId < previousMinimum) result.minBrokerChange = minBrokerChange(group, undefined, r.haServerAddr);
    return result;
  }

  /**
   * Removes a broker. What is left without an address, a broker or a queue goes as well; a group that has lost its master
   * and works with acting masters keeps its topics without the write permission.
   */
  unregisterBroker(who: BrokerIdentity): MinBrokerChange | undefined {
    const key = liveKey(who.clusterName, who.brokerAddr);
    this.#live.delete(key);
    this.#filterServers.delete(key);
    const group = this.#groups.get(who.brokerName);
    if (group === undefined) return undefined;
    const wasMinimum = who.brokerId === minimumId(group);
    const before = group.addrs.size;
    for (const [id, addr] of group.addrs) {
      if (addr === who.brokerAddr) group.addrs.delete(id);
    }
    if (group.addrs.size === before) return undefined;
    if (group.addrs.size > 0) {
      this.#wipeWriteWithoutMaster(group);
      const tell = wasMinimum && group.enableActingMaster;
      return tell ? minBrokerChange(group, who.brokerAddr, undefined) : undefined;
    }
    this.#groups.delete(who.brokerName);
    for (const cluster of [...this.#clusters.keys()]) removeFrom(this.#clusters, cluster, who.brokerName);
    for (const topic of [...this.#topics.keys()]) this.#removeQueues(topic, who.brokerName);
    return undefined;
  }

  /** Refreshes a live entry (BROKER_HEARTBEAT, QUERY_DATA_VERSION); nothing happens for an unknown broker. */
  touch(clusterName: string, brokerAddr: string, now: number): void {
    const live = this.#live.get(liveKey(clusterName, brokerAddr));
    if (live !== undefined) live.lastUpdate = now;
  }

  /** The version of the last registration of this address; undefined if it is not live. */
  dataVersionOf(clusterName: string, brokerAddr: string): DataVersion | undefined {
    return this.#live.get(liveKey(clusterName, brokerAddr))?.dataVersion;
  }

  /** Removes every broker whose time is over at `now`. */
  scanNotActiveBrokers(now: number): ExpiredBroker[] {
    const expired: ExpiredBroker[] = [];
    for (const live of [...this.#live.values()]) {
      if (live.lastUpdate + live.timeoutMs >= now) continue;
      const { clusterName, brokerAddr, timeoutMs, channelId } = live;
      expired.push({ clusterName, brokerAddr, timeoutMs, channelId, minBrokerChange: this.#removeLive(live) });
    }
    return expired;
  }

  /**
   * Removes the brokers that registered over a connection that ended.
   * RocketMQ: removes only the first it finds, so that other brokers of a shared connection wait for the scan.
   */
  channelClosed(channelId: number): ExpiredBroker[] {
    const gone: ExpiredBroker[] = [];
    for (const live of [...this.#live.values()]) {
      if (live.channelId !== channelId) continue;
      const { clusterName, brokerAddr, timeoutMs } = live;
      gone.push({ clusterName, brokerAddr, timeoutMs, channelId, minBrokerChange: this.#removeLive(live) });
    }
    return gone;
  }

  /** The route of a topic; undefined unless it has queues on a broker that is there. */
  pickupTopicRoute(topic: string): TopicRouteData | undefined {
    const queues = this.#topics.get(topic);
    if (queues === undefined) return undefined;
    const groups: BrokerGroup[] = [];
    for (const brokerName of queues.keys()) {
      const group = this.#groups.get(brokerName);
      if (group !== undefined) groups.push(group);
    }
    if (groups.length === 0) return undefined;
    const actingMasters = this.#settings.supportActingMaster && !topic.startsWith(SYNC_BROKER_MEMBER_PREFIX);
    const route: TopicRouteData = { brokerDatas: [], filterServerTable: {}, queueDatas: [] };
    for (const group of groups) {
      const queue = queues.get(group.brokerName)!;
      const acting = actingMasters && group.enableActingMaster && (queue.perm & Perm.WRITE) === 0;
      route.brokerDatas.push(brokerData(group, acting));
      for (const addr of group.addrs.values()) {
        const servers = this.#filterServers.get(liveKey(group.cluster, addr));
        if (servers !== undefined) route.filterServerTable[addr] = servers;
      }
    }
    for (const queue of queues.values()) route.queueDatas.push({ ...queue });
    const mappings = this.#queueMappings.get(topic);
    if (mappings !== undefined) route.topicQueueMappingByBroker = Object.fromEntries(mappings);
    return route;
  }

  /** All brokers and clusters. */
  clusterInfo(): ClusterInfo {
    const brokers: Array<[string, BrokerData]> = [];
    for (const [name, group] of this.#groups) brokers.push([name, brokerData(group, false)]);
    const clusters: Array<[string, string[]]> = [];
    for (const [name, members] of this.#clusters) clusters.push([name, [...members]]);
    return { brokerAddrTable: Object.fromEntries(brokers), clusterAddrTable: Object.fromEntries(clusters) };
  }

  /** All addresses of one broker name; none if it is unknown. */
  brokerMemberGroup(clusterName: string | undefined, brokerName: string | undefined): BrokerMemberGroup {
    const group = brokerName === undefined ? undefined : this.#groups.get(brokerName);
    return { brokerAddrs: group === undefined ? {} : addresses(group, false), brokerName, cluster: clusterName };
  }

  allTopics(): TopicList {
    return { topicList: [...this.#topics.keys()] };
  }

  /** Topics with queues on a broker of the cluster; none if the cluster is unknown. */
  topicsByCluster(clusterName: string): TopicList {
    const members = this.#clusters.get(clusterName);
    return { topicList: members === undefined ? [] : this.#topicsWhere((queues) => hasAny(queues, members)) };
  }

  /** The names of clusters and brokers (each has a topic of that name), and some broker's address. */
  systemTopics(): TopicList {
    const names = new Set<string>();
    for (const [cluster, members] of this.#clusters) {
      names.add(cluster);
      for (const name of members) names.add(name);
    }
    for (const group of this.#groups.values()) {
      for (const brokerAddr of group.addrs.values()) return { brokerAddr, topicList: [...names] };
    }
    return { topicList: [...names] };
  }

  /** Topics of units (`unit`), with subscriptions across units (`unitSub`), or with those but of no unit (`unitSubOnly`). */
  unitTopics(kind: 'unit' | 'unitSub' | 'unitSubOnly'): TopicList {
    return {
      topicList: this.#topicsWhere((queues) => {
        const flag = queues.values().next().value?.topicSysFlag ?? 0;
        if (kind === 'unit') return (flag & UNIT_FLAG) !== 0;
        return (flag & UNIT_SUB_FLAG) !== 0 && (kind === 'unitSub' || (flag & UNIT_FLAG) === 0);
      }),
    };
  }

  /** Puts the queues of brokers that are there; those of unknown brokers are left out, and named in the answer. */
  registerTopic(topic: string, queues: readonly QueueData[]): string[] {
    const unknown: string[] = [];
    for (const queue of queues) {
      if (this.#groups.has(queue.brokerName)) this.#putQueue(topic, { ...queue });
      else unknown.push(queue.brokerName);
    }
    return unknown;
  }

  /** Forgets a topic, on all brokers or on those of one cluster. It comes back when a broker registers with it. */
  deleteTopic(topic: string, clusterName?: string): void {
    if (clusterName === undefined) return this.#forgetTopic(topic);
    for (const brokerName of this.#clusters.get(clusterName) ?? []) this.#removeQueues(topic, brokerName);
  }

  /** Takes the write permission from all queues of a broker, until it registers with another version; how many topics. */
  wipeWritePerm(brokerName: string): number {
    return this.#changePerm(brokerName, (perm) => perm & ~Perm.WRITE);
  }

  /** Gives read and write permission to all queues of a broker; how many topics. */
  addWritePerm(brokerName: string): number {
    return this.#changePerm(brokerName, () => Perm.READ | Perm.WRITE);
  }

  #isOlder(r: Registration, heldBy: string): boolean {
    const live = this.#live.get(liveKey(r.clusterName, heldBy));
    return live !== undefined && live.dataVersion.stateVersion > r.tables.dataVersion.stateVersion;
  }

  #newGroup(r: Registration): BrokerGroup {
    const { clusterName: cluster, brokerName, zoneName } = r;
    const group: BrokerGroup = { cluster, brokerName, addrs: new Map(), enableActingMaster: false, zoneName };
    this.#groups.set(brokerName, group);
    return group;
  }

  #takeTopics(r: Registration, group: BrokerGroup, primeSlave: boolean, first: boolean): void {
    const live = this.#live.get(liveKey(r.clusterName, r.brokerAddr));
    const changed = first || live === undefined || !sameDataVersion(live.dataVersion, r.tables.dataVersion);
    if (this.#settings.deleteTopicWithBrokerRegistration && r.tables.queueMappings.length === 0) {
      this.#removeUnlisted(r.brokerName, r.tables.topics);
    }
    const permMask = primeSlave && group.enableActingMaster ? ~Perm.WRITE : -1;
    for (const t of r.tables.topics) {
      if (!changed && this.#topics.get(t.topicName)?.has(r.brokerName)) continue;
      this.#putQueue(t.topicName, {
        brokerName: r.brokerName,
        perm: t.perm & permMask,
        readQueueNums: t.readQueueNums,
        topicSysFlag: t.topicSysFlag,
        writeQueueNums: t.writeQueueNums,
      });
    }
    for (const info of r.tables.queueMappings) {
      if (!this.#topics.has(info.topic)) continue;
      const byBroker = this.#queueMappings.get(info.topic) ?? new Map<string, QueueMappingInfo>();
      if (changed || !byBroker.has(info.bname)) this.#queueMappings.set(info.topic, byBroker.set(info.bname, info));
    }
  }

  #removeUnlisted(brokerName: string, listed: readonly RegisteredTopic[]): void {
    const names = new Set<string>();
    for (const topic of listed) names.add(topic.topicName);
    for (const topic of [...this.#topics.keys()]) {
      if (!names.has(topic)) this.#removeQueues(topic, brokerName);
    }
  }

  #nameMaster(r: Registration, group: BrokerGroup, result: RegisterResult): void {
    if (r.brokerId === MASTER_ID) return;
    const masterAddr = group.addrs.get(MASTER_ID);
    if (masterAddr === undefined) return;
    const master = this.#live.get(liveKey(r.clusterName, masterAddr));
    if (master === undefined) return;
    result.masterAddr = masterAddr;
    result.haServerAddr = master.haServerAddr;
  }

  #removeLive(live: Live): MinBrokerChange | undefined {
    const members = this.#clusters.get(live.clusterName);
    for (const group of this.#groups.values()) {
      // Not by the group's own cluster: another one may have registered the name since.
      if (members?.has(group.brokerName) !== true) continue;
      for (const [brokerId, addr] of group.addrs) {
        if (addr !== live.brokerAddr) continue;
        const { clusterName, brokerAddr } = live;
        return this.unregisterBroker({ clusterName, brokerName: group.brokerName, brokerAddr, brokerId });
      }
    }
    // RocketMQ: an entry whose address has been taken over by another broker stays, and is found expired at each scan.
    this.#live.delete(liveKey(live.clusterName, live.brokerAddr));
    return undefined;
  }

  #wipeWriteWithoutMaster(group: BrokerGroup): void {
    if (!group.enableActingMaster || minimumId(group) === MASTER_ID) return;
    this.#changePerm(group.brokerName, (perm) => perm & ~Perm.WRITE);
  }

  #changePerm(brokerName: string, change: (perm: number) => number): number {
    let count = 0;
    for (const queues of this.#topics.values()) {
      const queue = queues.get(brokerName);
      if (queue === undefined) continue;
      queue.perm = change(queue.perm);
      count++;
    }
    return count;
  }

  #putQueue(topic: string, queue: QueueData): void {
    const queues = this.#topics.get(topic);
    if (queues === undefined) this.#topics.set(topic, new Map([[queue.brokerName, queue]]));
    else queues.set(queue.brokerName, queue);
  }

  #removeQueues(topic: string, brokerName: string): void {
    const queues = this.#topics.get(topic);
    if (queues?.delete(brokerName) && queues.size === 0) this.#forgetTopic(topic);
  }

  #forgetTopic(topic: string): void {
    this.#topics.delete(topic);
    // RocketMQ: keeps the mapping, so that a plain topic of the same name later looks static.
    this.#queueMappings.delete(topic);
  }

  #topicsWhere(test: (queues: Map<string, QueueData>) => boolean): string[] {
    const names: string[] = [];
    for (const [topic, queues] of this.#topics) {
      if (test(queues)) names.push(topic);
    }
    return names;
  }
}

/** The separator cannot be part of a cluster name that came as text. */
function liveKey(clusterName: string, brokerAddr: string): string {
  return `${clusterName}\n${brokerAddr}`;
}

function hasAny(queues: Map<string, QueueData>, members: Set<string>): boolean {
  for (const brokerName of members) {
    if (queues.has(brokerName)) return true;
  }
  return false;
}

function addTo(sets: Map<string, Set<string>>, key: string, value: string): void {
  const set = sets.get(key);
  if (set === undefined) sets.set(key, new Set([value]));
  else set.add(value);
}

function removeFrom(sets: Map<string, Set<string>>, key: string, value: string): void {
  const set = sets.get(key);
  if (set?.delete(value) && set.size === 0) sets.delete(key);
}
