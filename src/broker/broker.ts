// A broker: one store, its tables, its server, its registration with the name servers. Started and stopped here and nowhere else, in
// the order that the rules of the engine ask for: primary tables are loaded before a request can change them, and on the way out
// clients are sent elsewhere first and offsets are saved after the messages that they speak of. RocketMQ: BrokerController.

import type { Settings } from '../common/config/index.ts';
import {
  type Clock,
  errorText,
  type Logger,
  type Random,
  silentLogger,
  systemClock,
  systemRandom,
  type Timer,
} from '../common/index.ts';
import { type FileSystem, nodeFileSystem } from '../io/index.ts';
import { hostField, UniqueIds } from '../message/index.ts';
import { addressText, RemotingClient, RemotingServer } from '../remoting/index.ts';
import { checkTimerFiles, type FilterBits, MessageStore, type MessageStoreConfig } from '../store/index.ts';
import { MessageRequestModeManager } from './assignment/message-request-mode-manager.ts';
import { TopicRoutes } from './assignment/topic-routes.ts';
import { type BrokerConfig, defaultBrokerConfig } from './broker-config.ts';
import { type BrokerContext, createBrokerContext } from './broker-context.ts';
import { saveInTurn } from './config-manager.ts';
import { SendDeduplication } from './dedup/send-deduplication.ts';
import { ConsumerFilterManager } from './filter/consumer-filter-manager.ts';
import { writeQueues } from './lite/write-queues.ts';
import { Arrivals } from './longpolling/arrivals.ts';
import { PopWaits } from './longpolling/pop-waits.ts';
import { PullRequestHold } from './longpolling/pull-request-hold.ts';
import type { NameServers } from './name-servers.ts';
import { ConsumerOffsetManager } from './offset/consumer-offset-manager.ts';
import { NO_ORDER_TABLES, QueueLevelConsumerManager } from './pop/queue-level-consumer-manager.ts';
import { AckMessageProcessor } from './processor/ack-message.ts';
import { ChangeInvisibleTimeProcessor } from './processor/change-invisible-time.ts';
import { NotificationProcessor } from './processor/notification.ts';
import { PopMessageProcessor } from './processor/pop-message.ts';
import { PullMessageProcessor } from './processor/pull-message.ts';
import { registerQueryAssignment } from './processor/query-assignment.ts';
import { registerProcessors } from './processor/register.ts';
import { ReplyMessageProcessor } from './processor/reply-message.ts';
import { SendMessageProcessor } from './processor/send-message.ts';
import { NameServerRegistration } from './register/name-server-registration.ts';
import { TopicSpread } from './register/topic-spread.ts';
import { TopicQueueMappingManager } from './statictopic/topic-queue-mapping-manager.ts';
import { SubscriptionGroupManager } from './subscription/subscription-group-manager.ts';
import { TopicConfigManager } from './topic/topic-config-manager.ts';
import { EndTransactionProcessor } from './transaction/end-transaction.ts';

export interface BrokerOptions {
  /** Completed with RocketMQ's defaults. `brokerIP1` must be a literal IP address; it is what clients are told to dial. */
  config?: Partial<BrokerConfig>;
  /** The settings that `config` was filled from; a change at run time is checked and saved by them. */
  settings?: Settings;
  /** Completed with RocketMQ's defaults. */
  storeConfig: Partial<MessageStoreConfig> & Pick<MessageStoreConfig, 'storePathRootDir'>;
  /** `a:1;b:2`; empty: the broker is known to no name server. */
  namesrvAddrs?: string;
  /** Address to listen on. Default 0.0.0.0. */
  host?: string;
  /** Port that clients are told if it differs from the one that is listened on (a mapped port). */
  advertisedPort?: number;
  /** Whether to listen on `listenPort - 2` too, where old clients expect a second door (vipChannelEnabled). Default true. */
  vipPort?: boolean;
  deps?: BrokerDependencies;
}

/** What the broker is handed. Everything has a real default. */
export interface BrokerDependencies {
  fs?: FileSystem;
  clock?: Clock;
  random?: Random;
  logger?: Logger;
  memoryBytes?: number;
  processId?: number;
}

/** How long a stop waits for requests in flight. */
const STOP_GRACE_MS = 1500;
/** RocketMQ: ms between two looks for filters that nobody uses, which are saved then. */
const FILTER_PERIOD_MS = 10_000;
/** RocketMQ: the distance of the second port. */
const VIP_PORT_OFFSET = 2;

/** What runs beside the requests. */
interface Service {
  start(): void;
  /** Puts nothing any more when this is done. */
  stop(): void | Promise<void>;
  /** Saves how far it came, when the store is closed and its last sync has succeeded or not. */
  close?(): void | Promise<void>;
}

export class Broker {
  /** `ip:port` that clients are told. */
  readonly address: string;
  /** Port that is listened on. */
  readonly port: number;
  readonly context: BrokerContext;
  readonly registration: NameServerRegistration;

  readonly #server: RemotingServer;
  readonly #client: RemotingClient;
  readonly #hold: PullRequestHold;
  readonly #waits: PopWaits;
  readonly #spread: TopicSpread;
  readonly #routes: TopicRoutes;
  /** In the order in which they start; they stop in the opposite one. */
  readonly #services: readonly Service[];
  readonly #timers: Timer[] = [];
  #stopping: Promise<void> | undefined;
  /** Parts of the stop that have ended. */
  #stopSteps = 0;

  private constructor(
    context: BrokerContext,
    port: number,
    server: RemotingServer,
    client: RemotingClient,
    hold: PullRequestHold,
    waits: PopWaits,
    registration: NameServerRegistration,
    spread: TopicSpread,
    routes: TopicRoutes,
  ) {
    this.context = context;
    this.address = context.brokerAddress;
    this.port = port;
    this.registration = registration;
    this.#server = server;
    this.#client = client;
    this.#hold = hold;
    this.#spread = spread;
    this.#waits = waits;
    this.#routes = routes;
    this.#services = [
      context.consumers,
      context.producers,
      context.stats,
      context.traffic,
      context.schedule,
      context.transactions,
      context.timer,
      context.pop,
      context.revive,
      context.coldData,
      context.broadcasts,
      context.slowConsumers,
      context.lite,
      context.mappingCleaner,
      hold,
      waits,
    ];
  }

  /**
   * Opens the store, loads the tables, listens, registers. On return clients can send, and every name server that answers knows the
   * broker.
   * @throws GantryError whatever kept it from starting (ports, addresses, store and state files); nothing keeps running.
   * @example const broker = await Broker.start({ storeConfig: { storePathRootDir: './store' }, namesrvAddrs: '127.0.0.1:9876' });
   */
  static async start(options: BrokerOptions): Promise<Broker> {
    const deps = options.deps ?? {};
    const fs = deps.fs ?? nodeFileSystem;
    const clock = deps.clock ?? systemClock;
    const random = deps.random ?? systemRandom;
    const logger = deps.logger ?? silentLogger;
    const config: BrokerConfig = { ...defaultBrokerConfig(), ...options.config };
    const host = options.host ?? '0.0.0.0';
    const server = new RemotingServer({ clock, logger });
    const client = new RemotingClient({ clock, logger });
    const undo: Array<() => Promise<unknown>> = [() => client.close(), () => server.close(0)];
    try {
      // A port of 0 is known only when it is taken, and the address is part of every record.
      const early = config.listenPort === 0 ? await server.listen(host, 0) : undefined;
      const port = early ?? config.listenPort;
      const advertisedPort = options.advertisedPort ?? port;
      // What a change at run time changes: all parts look at this one.
      const shared: BrokerConfig = { ...config, listenPort: advertisedPort };
      // What a topic's queues are is asked while the store opens; the broker's own table is loaded behind it.
      let topicTable = checkTables(options.storeConfig, config, fs, clock);
      // So are the filters of groups, by which the start may have to write bits again.
      const filters = new ConsumerFilterManager(
        { fs, clock, logger, folder: `${options.storeConfig.storePathRootDir}/config` },
        shared,
      );
      filters.check();
      const isBatchTopic = (topic: string): boolean | undefined => topicTable.select(topic)?.isBatchQueue;
      const isCompactionTopic = (topic: string): boolean => {
        const found = topicTable.select(topic);
        return found?.isCompacted === true && !found.isBatchQueue;
      };
      const filterBits: FilterBits = (topic, bytes, start, end) => filters.bitsOf(topic, bytes, start, end);
      const store = await MessageStore.open(options.storeConfig, {
        ...deps,
        fs,
        clock,
        logger,
        isBatchTopic,
        isCompactionTopic,
        random,
        filterBits,
      });
      undo.push(() => store.close());
      let registration: NameServerRegistration | undefined;
      let spread: TopicSpread | undefined;
      const reach: NameServers = {
        invoke: (...request) => client.invoke(...request),
        nameServers: () => registration?.knownAt() ?? [],
      };
      const context = createBrokerContext({
        config: shared,
        fs,
        clock,
        random,
        logger,
        store,
        storeHost: hostField(config.brokerIP1, advertisedPort),
        filters,
        ...(options.settings === undefined ? {} : { settings: options.settings }),
        reach,
        registerTopics: (topics) => void registration?.registerTopics(topics.map((topic) => topic.topicName)),
        spreadTopic: (topic) => {
          if (context.config.gantrySpreadNewTopics) spread?.add(topic);
        },
      });
      const { topics, mappings, groups, offsets, requestModes, orders } = context;
      for (const table of [topics, mappings, groups, offsets, context.schedule.offsets, filters, requestModes, orders])
        table.load();
      context.transactions.metrics.load();
      undo.push(async () => context.timer.release());
      await context.timer.load();
      topicTable = context.topics;
      const lowered = context.offsets.clampTo(store);
      if (lowered > 0) logger.warn(`${lowered} consumer offsets lay beyond their queue's end and were moved to it`);
      registration = new NameServerRegistration(
        {
          identity: {
            clusterName: config.brokerClusterName,
            brokerName: config.brokerName,
            brokerAddr: context.brokerAddress,
            brokerId: config.brokerId,
            haServerAddr: addressText(config.brokerIP1, advertisedPort + 1),
          },
          topics: context.topics,
          mappings: context.mappings,
          nameServers: options.namesrvAddrs ?? '',
          permission: () => context.config.brokerPermission,
          periodMs: config.registerNameServerPeriod,
          quietMs: config.disappearTimeAfterStart,
          requestTimeoutMs: config.registerBrokerTimeoutMills,
          forceRegister: config.forceRegister,
          singleTopicRegister: config.enableSingleTopicRegister,
          onOrderTopics: (topics) => context.topics.updateOrderTopics(topics),
        },
        { clock, logger, connect: (address) => client.connect(address) },
      );
      spread = new TopicSpread(
        {
          clusterName: config.brokerClusterName,
          brokerName: config.brokerName,
          nameServers: reach.nameServers,
          select: (topic) => context.topics.select(topic),
        },
        { clock, logger, invoke: reach.invoke },
      );

      context.lite.sharding.writeQueues = writeQueues(reach);

      const routes = new TopicRoutes({ clock, logger, ...reach }, config.loadBalancePollNameServerInterval);
      const arrivals = new Arrivals(store);
      const hold = new PullRequestHold(clock, store, arrivals);
      const waits = new PopWaits(context, arrivals);
      const uniqueIds = new UniqueIds(
        { ip: context.storeHost.subarray(0, -4), pid: deps.processId ?? process.pid, salt: random.int(0x7fffffff) },
        random.int(0x10000),
      );
      const once = await SendDeduplication.open(context);
      const send = new SendMessageProcessor(context, uniqueIds, server.heldInput, once);
      const pull = new PullMessageProcessor(context, hold);
      registerProcessors(server, context);
      registerQueryAssignment(server, context, routes);
      new NotificationProcessor(context, waits).register(server);
      send.register(server);
      const ends = new EndTransactionProcessor(context);
      ends.register(server);
      new ReplyMessageProcessor(context, send).register(server);
      pull.register(server);
      new PopMessageProcessor(context).register(server);
      const popAcks = [new AckMessageProcessor(context), new ChangeInvisibleTimeProcessor(context)];
      for (const processor of popAcks) processor.register(server);
      // One commit per turn, and its answers leave with the turn's output.
      server.onTurnEnd(() => {
        send.endTurn();
        ends.endTurn();
        for (const processor of popAcks) processor.endTurn();
        store.endTurn();
      });
      server.holdWhile(
        () => store.pressed,
        () =>
          context.config.brokerFastFailureEnable ? context.config.waitTimeMillsInSendQueue : Number.POSITIVE_INFINITY,
      );
      store.onProgress(() => server.ease());

      server.onConnect(() => context.traffic.channels.add('CONNECT'));
      server.onDisconnect(() => context.traffic.channels.add('CLOSE'));

      const broker = new Broker(context, port, server, client, hold, waits, registration, spread, routes);
      broker.#startServices();
      undo.push(() => broker.#stopServices());
      if (early === undefined) await server.listen(host, port);
      if ((options.vipPort ?? true) && config.listenPort !== 0) await broker.#listenVip(host, port - VIP_PORT_OFFSET);
      await registration.start();
      return broker;
    } catch (error) {
      for (const step of undo.reverse()) {
        await step().catch((second: unknown) => logger.error(`while giving up the start: ${errorText(second)}`));
      }
      throw error;
    }
  }

  /**
   * Stops in order: leaves the name servers, answers what is in flight, flushes and closes the store, saves the tables. Calling it
   * again gives the same promise.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  /** How far a stop is: `moved` is another number each time something has got on, `filesLeft` what the store has still to make durable. */
  get stopState(): { moved: number; filesLeft: number } {
    const { moved, filesLeft } = this.context.store.closeState;
    return { moved: moved + this.#stopSteps, filesLeft };
  }

  async #stop(): Promise<void> {
    const { context } = this;
    await this.registration.stop();
    this.#stopSteps++;
    this.#hold.stop();
    this.#waits.stop();
    context.lite.hold.stop();
    context.coldData.stop();
    await this.#server.close(STOP_GRACE_MS);
    this.#stopSteps++;
    await this.#stopServices();
    this.#stopSteps++;
    await context.store.close();
    this.#stopSteps++;
    for (const service of this.#services) await service.close?.();
    context.orders.clean();
    const { topics, mappings, groups, offsets, filters, requestModes, orders } = context;
    const tables = [topics, mappings, groups, offsets, filters, requestModes, orders];
    await Promise.all(tables.map((table) => table.persistLast()));
    await this.#client.close();
  }

  #startServices(): void {
    const { clock, config, filters, groups, mappings, offsets, orders, requestModes, topics } = this.context;
    for (const service of this.#services) service.start();
    this.#timers.push(
      clock.every(config.flushConsumerOffsetInterval, () => {
        // Those behind the offsets are saved when they change: here only what could not be saved then.
        void saveInTurn([offsets, topics, mappings, groups, requestModes]);
      }),
      clock.every(FILTER_PERIOD_MS, () => {
        for (const table of [filters, orders]) table.clean();
        void saveInTurn([filters, orders]);
      }),
    );
  }

  async #stopServices(): Promise<void> {
    for (const timer of this.#timers) timer.cancel();
    this.#spread.stop();
    this.#routes.stop();
    for (const service of this.#services.toReversed()) {
      await service.stop();
      this.#stopSteps++;
    }
  }

  /** Old clients dial `listenPort - 2` as well; a broker without that door serves all others. */
  async #listenVip(host: string, port: number): Promise<void> {
    if (port <= 0) return;
    try {
      await this.#server.listen(host, port);
    } catch (error) {
      this.context.logger.warn(`${errorText(error)}; only clients with vipChannelEnabled=true need that port`);
    }
  }
}

/**
 * Reads the primary tables once before the store is touched, so that a damaged file refuses the start with nothing changed.
 * @throws GantryError CONFIG_FILE.
 */
function checkTables(
  storeConfig: BrokerOptions['storeConfig'],
  config: BrokerConfig,
  fs: FileSystem,
  clock: Clock,
): TopicConfigManager {
  const environment = { fs, clock, logger: silentLogger, folder: `${storeConfig.storePathRootDir}/config` };
  const topics = new TopicConfigManager(environment, config, () => {});
  const groups = new SubscriptionGroupManager(environment, config);
  const offsets = new ConsumerOffsetManager(environment, config, storeConfig.enableLmq);
  const mappings = new TopicQueueMappingManager(environment, config.brokerName);
  const modes = new MessageRequestModeManager(environment);
  const orders = new QueueLevelConsumerManager(environment, NO_ORDER_TABLES);
  for (const table of [topics, mappings, groups, offsets, modes, orders]) table.check();
  if (config.timerWheelEnable) checkTimerFiles(fs, storeConfig.storePathRootDir, config.mappedFileSizeTimerLog);
  return topics;
}
