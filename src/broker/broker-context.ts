// The one object that processors are handed: the broker's tables, its store and its services. It is put together once, at the start.

import { readBrokerSettings, type Settings } from '../common/config/index.ts';
import { type Clock, GantryError, type Logger, type Random } from '../common/index.ts';
import type { FileSystem } from '../io/index.ts';
import { hostText } from '../message/index.ts';
import type { MessageStore } from '../store/index.ts';
import { MessageRequestModeManager } from './assignment/message-request-mode-manager.ts';
import type { BrokerConfig } from './broker-config.ts';
import { BrokerStats } from './broker-stats.ts';
import { ConsumerManager } from './client/consumer-manager.ts';
import { ProducerManager } from './client/producer-manager.ts';
import { RebalanceLockManager } from './client/rebalance-lock-manager.ts';
import { ColdDataControl } from './colddata/cold-data-control.ts';
import type { ConfigEnvironment } from './config-manager.ts';
import { ConsumerFilterManager } from './filter/consumer-filter-manager.ts';
import { isBound } from './lite/lite-metadata.ts';
import { LiteService } from './lite/lite-service.ts';
import type { NameServers } from './name-servers.ts';
import { BroadcastOffsetManager } from './offset/broadcast-offset-manager.ts';
import { ConsumerOffsetManager } from './offset/consumer-offset-manager.ts';
import { SlowConsumers } from './offset/slow-consumers.ts';
import { UnreadRemoved } from './offset/unread-removed.ts';
import { PopState } from './pop/pop-state.ts';
import { QueueLevelConsumerManager } from './pop/queue-level-consumer-manager.ts';
import { PopReviveService } from './pop/revive/pop-revive-service.ts';
import { RuntimeConfig } from './runtime-config.ts';
import { ScheduleMessageService } from './schedule/schedule-message-service.ts';
import { BrokerPeers } from './statictopic/broker-peers.ts';
import { MappingCleanService } from './statictopic/mapping-clean-service.ts';
import { TopicQueueMappingManager } from './statictopic/topic-queue-mapping-manager.ts';
import { SubscriptionGroupManager } from './subscription/subscription-group-manager.ts';
import { TimerMessageService } from './timer/timer-message-service.ts';
import { TopicConfigManager, type TopicCreated, type TopicsChanged } from './topic/topic-config-manager.ts';
import { TrafficStats } from './traffic-stats.ts';
import { TransactionService } from './transaction/transaction-service.ts';

export interface BrokerContext {
  readonly config: BrokerConfig;
  readonly fs: FileSystem;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly store: MessageStore;
  readonly topics: TopicConfigManager;
  readonly mappings: TopicQueueMappingManager;
  /** Other brokers, for what static topics have there. */
  readonly peers: BrokerPeers;
  readonly mappingCleaner: MappingCleanService;
  readonly groups: SubscriptionGroupManager;
  readonly offsets: ConsumerOffsetManager;
  readonly filters: ConsumerFilterManager;
  readonly requestModes: MessageRequestModeManager;
  /** What is popped in order. */
  readonly orders: QueueLevelConsumerManager;
  readonly consumers: ConsumerManager;
  readonly producers: ProducerManager;
  readonly locks: RebalanceLockManager;
  readonly schedule: ScheduleMessageService;
  readonly transactions: TransactionService;
  readonly timer: TimerMessageService;
  readonly pop: PopState;
  readonly revive: PopReviveService;
  readonly unread: UnreadRemoved;
  readonly broadcasts: BroadcastOffsetManager;
  readonly slowConsumers: SlowConsumers;
  readonly coldData: ColdDataControl;
  readonly lite: LiteService;
  readonly stats: BrokerStats;
  readonly traffic: TrafficStats;
  readonly settings: RuntimeConfig;
  /** `ip:port` that clients are told. */
  readonly brokerAddress: string;
  /** The same as it stands in records: 4 or 16 address bytes, then the port as i32. */
  readonly storeHost: Uint8Array;
}

/** What a context is made of. */
export interface BrokerContextOptions {
  readonly config: BrokerConfig;
  readonly fs: FileSystem;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** An open store; its root holds the folder `config`. */
  readonly store: MessageStore;
  readonly storeHost: Uint8Array;
  /** The filters whose bits the store writes. Default: a table of its own. */
  readonly filters?: ConsumerFilterManager;
  /** What the broker was started with; default: nothing but defaults. */
  readonly settings?: Settings;
  /** Told of new and changed topics, for an incremental registration. */
  readonly registerTopics: TopicsChanged;
  /** How other brokers are reached. Default: none is. */
  readonly reach?: NameServers;
  /** Told of topics that sends have created, so that they spread. Default: nobody is. */
  readonly spreadTopic?: TopicCreated;
}

const NOBODY: NameServers = {
  invoke: () => Promise.reject(new GantryError('REMOTING_CONNECT', 'no other broker can be reached from here')),
  nameServers: () => [],
};

/** Makes the tables without reading their files; nothing runs yet. */
export function createBrokerContext(options: BrokerContextOptions): BrokerContext {
  const { config, fs, clock, random, logger, store, storeHost } = options;
  const { enableLmq } = store.config;
  const environment: ConfigEnvironment = { fs, clock, logger, folder: `${store.config.storePathRootDir}/config` };
  const topics = new TopicConfigManager(environment, config, options.registerTopics, options.spreadTopic);
  const mappings = new TopicQueueMappingManager(environment, config.brokerName, () => topics.version++);
  const peers = new BrokerPeers({ clock, ...(options.reach ?? NOBODY) });
  const groups = new SubscriptionGroupManager(environment, config);
  topics.lightQueues = enableLmq;
  groups.lightQueues = enableLmq;
  const offsets = new ConsumerOffsetManager(environment, config, enableLmq);
  const filters = options.filters ?? new ConsumerFilterManager(environment, config);
  const orders = new QueueLevelConsumerManager(environment, {
    enableNotifyAfterPopOrderLockRelease: () => config.enableNotifyAfterPopOrderLockRelease,
    queuesOf: (topic) => topics.select(topic)?.readQueueNums,
    hasGroup: (group) => groups.has(group),
  });
  const consumers = new ConsumerManager(config, clock, logger, filters);
  const stats = new BrokerStats(clock);
  const traffic = new TrafficStats(clock, {
    clusterName: config.brokerClusterName,
    config,
    total: () => stats,
    hasTopic: (topic) => topics.has(topic),
    isSystemTopic: (topic) => topics.systemTopics.isSystem(topic),
    hasOffsets: (key) => offsets.has(key) || isBound(groups, key),
  });
  const schedule = new ScheduleMessageService(environment, { config, store, storeHost, stats, traffic });
  const producers = new ProducerManager(config, clock, logger);
  const brokerAddress = hostText(storeHost);
  const transactions = new TransactionService(environment, {
    config,
    store,
    offsets,
    producers,
    topics,
    storeHost,
    brokerAddress,
  });
  const unread = new UnreadRemoved(offsets, clock, logger);
  store.retention.onRemoval((removal) => unread.note(removal));
  const timer = new TimerMessageService(environment, { config, store, storeHost });
  const pop = new PopState({ config, clock, logger, random, store, timer, storeHost, offsets, topics, groups });
  const checkPoints = pop.revive;
  const revive = new PopReviveService({
    config,
    store,
    clock,
    logger,
    offsets,
    topics,
    groups,
    timer,
    storeHost,
    checkPoints,
  });
  revive.onLanded = (ck) => pop.queues.landed(ck.topic, ck.group, ck.queueId, ck.popTime, 1);
  for (const floor of [schedule, transactions, timer, revive]) store.retention.addFloor(floor);
  return {
    config,
    fs,
    clock,
    random,
    logger,
    store,
    topics,
    mappings,
    peers,
    mappingCleaner: new MappingCleanService({ config, clock, logger, mappings, peers, deleteWhen: store.config }),
    groups,
    offsets,
    filters,
    requestModes: new MessageRequestModeManager(environment),
    orders,
    consumers,
    producers,
    locks: new RebalanceLockManager(clock, logger, config),
    schedule,
    transactions,
    timer,
    pop,
    revive,
    unread,
    slowConsumers: new SlowConsumers(config, groups, clock, logger),
    broadcasts: new BroadcastOffsetManager(config, clock, consumers, offsets),
    coldData: new ColdDataControl(clock, config, store.config),
    lite: new LiteService({ config, clock, logger, random, store, topics, groups, offsets }),
    stats,
    traffic,
    settings: new RuntimeConfig({
      fs,
      logger,
      nowMs: clock.now(),
      settings: options.settings ?? readBrokerSettings({}),
      tables: [config, store.config],
      blackList: config.configBlackList,
    }),
    brokerAddress,
    storeHost,
  };
}
