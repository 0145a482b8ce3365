// A broker with a name server inside the process of a test: on free ports of the loopback, with a disk in memory unless a folder is
// given, with the clock that the test hands in. Any RocketMQ client of any language can talk to it; nothing outlives `stop`.
//
// Files are small here (16 MiB of CommitLog each), so that memory is taken as it is filled; `storeConfig` sets them otherwise.

import { Broker, type BrokerConfig } from '../broker/index.ts';
import { type Clock, type Logger, type Random, SeededRandom, silentLogger, systemClock } from '../common/index.ts';
import { type FileSystem, MemoryFileSystem, makeDirectoryDurably, nodeFileSystem } from '../io/index.ts';
import { NameServer, type NamesrvConfig } from '../namesrv/index.ts';
import type { MessageStoreConfig } from '../store/index.ts';

export interface StartBrokerOptions {
  /** Port of the broker. Default 0, a free one. */
  port?: number;
  /** Port of the name server. Default 0, a free one. */
  namesrvPort?: number;
  /** Name server to join, `host:port`; then none is started here. For tests with several brokers. */
  namesrvAddress?: string;
  /** Folder for all files; made if it is not there and left as it is at the end. Default: a disk in memory. */
  dir?: string;
  /**
   * The disk, with the faults that the test asks of it (`fail`, `hold`, `fillAfter`), or the one that a crash left. Default: a fresh one.
   * Not together with `dir`.
   */
  disk?: MemoryFileSystem;
  /** Default: the real one. With a FakeClock time stands still until the test moves it. */
  clock?: Clock;
  /** Default: seeded, so that two runs do the same. */
  random?: Random;
  /** Default: silent. */
  logger?: Logger;
  /** Settings of the broker, by RocketMQ's names. */
  config?: Partial<Omit<BrokerConfig, 'listenPort' | 'brokerIP1'>>;
  /** Settings of the store, by RocketMQ's names. */
  storeConfig?: Partial<Omit<MessageStoreConfig, 'storePathRootDir'>>;
  /** Settings of the name server, by RocketMQ's names. */
  namesrvConfig?: Partial<NamesrvConfig>;
}

/** `kill`: the process ends at once, the disk keeps what was written. `power cut`: of what was not synced the seed decides. */
export type CrashKind = 'kill' | 'power cut';

const HOST = '127.0.0.1';
const MEMORY_DIR = '/gantry';
const SMALL_FILES = {
  mappedFileSizeCommitLog: 16 * 1024 * 1024,
  mappedFileSizeConsumeQueue: 20 * 3_000,
  maxHashSlotNum: 50_000,
  maxIndexNum: 200_000,
} as const;

/** A broker at work, and the name server that it has brought along. */
export class TestBroker {
  /** `host:port` of the name server: what a client is given. */
  readonly namesrvAddress: string;
  /** `host:port` of the broker. */
  readonly address: string;
  readonly broker: Broker;
  /** undefined if the broker joined another one. */
  readonly nameServer: NameServer | undefined;
  /** undefined if there is a folder instead. */
  readonly disk: MemoryFileSystem | undefined;
  readonly #random: Random;
  #stopped: Promise<void> | undefined;

  constructor(
    broker: Broker,
    nameServer: NameServer | undefined,
    namesrvAddress: string,
    disk: MemoryFileSystem | undefined,
    random: Random,
  ) {
    this.broker = broker;
    this.address = broker.address;
    this.nameServer = nameServer;
    this.namesrvAddress = namesrvAddress;
    this.disk = disk;
    this.#random = random;
  }

  /** Stops both as an operator would: leaves the name server, answers, flushes, saves. May be called twice. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  /**
   * Ends both as a kill or a power cut would; only for a disk in memory. The disk that is given back holds what survived:
   * `startBroker({ disk })` goes on from there.
   */
  async crash(kind: CrashKind, seed?: number): Promise<MemoryFileSystem> {
    if (this.disk === undefined) throw new TypeError('crash needs a disk in memory: start without dir');
    const random = seed === undefined ? this.#random : new SeededRandom(seed);
    if (kind === 'kill') this.disk.kill(random);
    else this.disk.powerCut(random);
    // From here on every handle is dead: what is left of the process can do nothing to the disk.
    const survivor = this.disk.clone();
    await this.stop().catch(() => {});
    return survivor;
  }

  async #stop(): Promise<void> {
    try {
      await this.broker.stop();
    } finally {
      await this.nameServer?.stop();
    }
  }
}

/**
 * Starts a broker and a name server; on return any client can send.
 *
 * ```ts
 * const server = await startBroker();
 * // a producer with namesrvAddr = server.namesrvAddress ...
 * await server.stop();
 * ```
 * @throws GantryError whatever kept them from starting; nothing keeps running then.
 */
export async function startBroker(options: StartBrokerOptions = {}): Promise<TestBroker> {
  if (options.dir !== undefined && options.disk !== undefined) throw new TypeError('give dir or disk, not both');
  const clock = options.clock ?? systemClock;
  const logger = options.logger ?? silentLogger;
  const random = options.random ?? new SeededRandom(1);
  const disk = options.dir === undefined ? (options.disk ?? new MemoryFileSystem({ clock, random })) : undefined;
  const fs: FileSystem = disk ?? nodeFileSystem;
  const dir = options.dir ?? MEMORY_DIR;
  makeDirectoryDurably(fs, dir);

  let nameServer: NameServer | undefined;
  if (options.namesrvAddress === undefined) {
    nameServer = await NameServer.start({
      host: HOST,
      port: options.namesrvPort ?? 0,
      kvConfigPath: `${dir}/namesrv/kvConfig.json`,
      ...(options.namesrvConfig === undefined ? {} : { config: options.namesrvConfig }),
      deps: { fs, clock, logger },
    });
  }
  const namesrvAddress = options.namesrvAddress ?? nameServer!.address;
  try {
    const broker = await Broker.start({
      config: { ...options.config, brokerIP1: HOST, listenPort: options.port ?? 0 },
      storeConfig: { ...SMALL_FILES, ...options.storeConfig, storePathRootDir: `${dir}/store` },
      namesrvAddrs: namesrvAddress,
      host: HOST,
      vipPort: false,
      deps: { fs, clock, random, logger },
    });
    return new TestBroker(broker, nameServer, namesrvAddress, disk, random);
  } catch (error) {
    await nameServer?.stop();
    throw error;
  }
}
