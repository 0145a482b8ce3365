// Starting and stopping servers: settings, then checks that change nothing, then the store lock, then the name server, then the
// broker. Whatever fails, everything that was opened is closed again and one line says why.

import { mkdirSync, rmdirSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { resolve } from 'node:path';
import type { Settings } from '../common/config/index.ts';
import { systemClock, systemRandom } from '../common/index.ts';
import { nodeFileSystem } from '../io/index.ts';
import type { NameServer } from '../namesrv/index.ts';
import { defaultStoreConfig, type MessageStoreConfig } from '../store/index.ts';
import {
  type AdvertisedAddress,
  chooseAdvertisedAddress,
  formatAddress,
  localAddresses,
  resolveHost,
} from './advertised-address.ts';
import { type BrokerFacts, banner } from './banner.ts';
import { ExitCode } from './exit.ts';
import { packageVersion } from './package-version.ts';
import { openLogger, type ProcessLogger } from './pino-logger.ts';
import { checkPort, checkStoreDirectory } from './preflight.ts';
import {
  type BrokerOptions,
  brokerSettings,
  configuredAddress,
  type Environment,
  hostBrokerName,
  namesrvAddresses,
  namesrvSettings,
  printSettings,
  type ServerOptions,
  storeDirectory,
} from './server-settings.ts';
import { untilSignal } from './signals.ts';
import { STOP_TICK_MS, type StopState, StopWatch } from './stop-watch.ts';
import { lockStore } from './store-lock.ts';

export interface StartOptions extends BrokerOptions {
  namesrvPort?: string;
  namesrvConfig?: string;
}

const LOOPBACK = '127.0.0.1';

/** gantry start. */
export async function start(options: StartOptions, environment: Environment): Promise<number> {
  const settings = brokerSettings(options, environment);
  if (printed(settings, options)) return ExitCode.OK;
  const local = isLocalOnly(settings, options);
  const host = local ? LOOPBACK : listenHost(settings);
  const plan = await planBroker(settings, host, options, settings.file === undefined ? 'broker-a' : hostBrokerName());
  const namesrv = namesrvSettings(
    {
      logLevel: options.logLevel,
      ...(options.namesrvConfig === undefined ? {} : { configFile: options.namesrvConfig }),
      ...(options.namesrvPort === undefined ? {} : { port: options.namesrvPort }),
      strict: options.strict ?? false,
    },
    '--namesrv-port',
  );
  const namesrvHost = namesrv.isGiven('bindAddress') ? listenHost(namesrv) : host;
  const kvConfigPath = namesrv.text('kvConfigPath') ?? `${plan.store}/gantry/kvConfig.json`;
  await checkListening(namesrv, namesrvHost, '--namesrv-port');
  return run(options, [settings, namesrv], async (running, logger) => {
    const undoStore = takeStore(plan.store, running);
    const nameServer = await openNameServer({ settings: namesrv, host: namesrvHost, kvConfigPath, logger });
    running.push(() => nameServer.stop());
    const own = nameServer.address;
    const others = namesrvAddresses(settings, environment).filter((address) => address !== own);
    const facts = await openBroker(plan, [own, ...others], running, logger);
    undoStore.keep();
    return { namesrv: own, broker: { ...facts, namesrvAddrs: others } };
  });
}

/** gantry broker. */
export async function startBroker(options: BrokerOptions, environment: Environment): Promise<number> {
  const settings = brokerSettings(options, environment);
  if (printed(settings, options)) return ExitCode.OK;
  const plan = await planBroker(settings, listenHost(settings), options, hostBrokerName());
  const namesrvAddrs = namesrvAddresses(settings, environment);
  if (namesrvAddrs.length === 0) {
    settings.warnings.push('no name server is named, so that no client finds this broker: use -n or namesrvAddr');
  }
  return run(options, [settings], async (running, logger) => {
    const undoStore = takeStore(plan.store, running);
    const facts = await openBroker(plan, namesrvAddrs, running, logger);
    undoStore.keep();
    return { namesrv: undefined, broker: facts };
  });
}

/** gantry namesrv. */
export async function startNamesrv(options: ServerOptions): Promise<number> {
  const settings = namesrvSettings(options);
  if (printed(settings, options)) return ExitCode.OK;
  const host = listenHost(settings);
  await checkListening(settings, host, '--port');
  const kvConfigPath = settings.text('kvConfigPath') ?? `${homedir()}/namesrv/kvConfig.json`;
  return run(options, [settings], async (running, logger) => {
    const nameServer = await openNameServer({ settings, host, kvConfigPath, logger });
    running.push(() => nameServer.stop());
    return { namesrv: nameServer.address, broker: undefined };
  });
}

function printed(settings: Settings, options: ServerOptions): boolean {
  if (options.printConfigItem !== true && options.printImportantConfig !== true) return false;
  printSettings(settings, options.printConfigItem === true ? 'all' : 'important');
  return true;
}

function listenHost(settings: Settings): string {
  return settings.text('bindAddress') ?? '0.0.0.0';
}

/** A first start, that names neither a file nor an address, is for this machine alone: there is no access control. */
function isLocalOnly(settings: Settings, options: StartOptions): boolean {
  return settings.file === undefined && options.host === undefined && !settings.isGiven('brokerIP1');
}

async function checkListening(settings: Settings, host: string, option: string): Promise<void> {
  const from = `listenPort, ${settings.origin('listenPort')}`;
  await checkPort({ host, port: settings.number('listenPort'), from, option });
}

/** Everything that is known of a broker before anything is opened. */
interface BrokerPlan {
  readonly settings: Settings;
  readonly host: string;
  readonly name: string;
  readonly store: string;
  readonly address: AdvertisedAddress;
}

async function planBroker(settings: Settings, host: string, options: BrokerOptions, name: string): Promise<BrokerPlan> {
  const store = storeDirectory(settings);
  const from = settings.isGiven('storePathRootDir')
    ? `storePathRootDir, ${settings.origin('storePathRootDir')}`
    : 'the default';
  checkStoreDirectory(store, options.store === undefined ? from : '--store');
  const address = await chooseAdvertisedAddress({
    listen: host,
    configured: configuredAddress(settings),
    local: localAddresses(),
    resolve: resolveHost,
  });
  if (address.warning !== undefined) settings.warnings.push(address.warning);
  await checkListening(settings, host, '--port');
  return { settings, host, name: settings.text('brokerName') ?? name, store, address };
}

/** What was opened. */
class Running {
  /** Steps that undo it, the last first. */
  readonly steps: Array<() => Promise<void> | void> = [];
  /** How far the stop of a broker is. */
  broker: (() => StopState) | undefined;
  #ended = 0;

  push(step: () => Promise<void> | void): void {
    this.steps.push(step);
  }

  /** Undoes every step, and fails with the first failure once all are done. */
  async undo(): Promise<void> {
    const failures: unknown[] = [];
    for (const step of this.steps.reverse()) {
      try {
        await step();
      } catch (error) {
        failures.push(error);
      }
      this.#ended++;
    }
    if (failures.length > 0) throw failures[0];
  }

  get state(): StopState {
    const { moved, filesLeft } = this.broker?.() ?? { moved: 0, filesLeft: 0 };
    return { moved: moved + this.#ended, filesLeft };
  }
}

/** Makes the directory and takes the lock. Until `keep`, giving up removes what was made. */
function takeStore(store: string, running: Running): { keep(): void } {
  const isNew = statSync(store, { throwIfNoEntry: false }) === undefined;
  mkdirSync(store, { recursive: true });
  let started = false;
  if (isNew) running.push(() => void (started || removeIfEmpty(store)));
  const lock = lockStore(store);
  running.push(() => lock.release(!started));
  return {
    keep: () => {
      started = true;
    },
  };
}

function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // Something lies in it: then it stays.
  }
}

async function openBroker(
  plan: BrokerPlan,
  namesrvAddrs: readonly string[],
  running: Running,
  logger: ProcessLogger,
): Promise<BrokerFacts> {
  const { settings, host, name, store, address } = plan;
  const { Broker, defaultBrokerConfig } = await import('../broker/index.ts');
  const commitLog = settings.text('storePathCommitLog');
  const options = {
    config: { ...settings.fill(defaultBrokerConfig()), brokerName: name, brokerId: 0, brokerIP1: address.ip },
    storeConfig: {
      ...settings.fill<MessageStoreConfig>(defaultStoreConfig(store)),
      storePathRootDir: store,
      storePathCommitLog: commitLog === undefined ? null : resolve(commitLog),
    },
    settings,
    namesrvAddrs: namesrvAddrs.join(';'),
    host,
    ...advertisedPortOption(settings),
    deps: { fs: nodeFileSystem, clock: systemClock, random: systemRandom, logger },
  };
  const broker = await Broker.start(options);
  running.push(() => broker.stop());
  running.broker = () => broker.stopState;
  return {
    name,
    cluster: String(settings.value('brokerClusterName')),
    listening: formatAddress(host, broker.port),
    advertised: broker.address,
    address,
    store,
    flush: String(settings.value('flushDiskType')),
    namesrvAddrs,
  };
}

function advertisedPortOption(settings: Settings): { advertisedPort?: number } {
  const port = settings.number('gantryAdvertisedPort');
  return port === 0 ? {} : { advertisedPort: port };
}

async function openNameServer(options: {
  settings: Settings;
  host: string;
  kvConfigPath: string;
  logger: ProcessLogger;
}): Promise<NameServer> {
  const namesrv = await import('../namesrv/index.ts');
  const { settings, host, kvConfigPath, logger } = options;
  return namesrv.NameServer.start({
    settings,
    host,
    port: settings.number('listenPort'),
    kvConfigPath,
    deps: { fs: nodeFileSystem, clock: systemClock, logger },
  });
}

type Opened = { namesrv: string | undefined; broker: BrokerFacts | undefined };

/** Opens servers, prints the banner, waits for a signal, and stops in order. */
async function run(
  options: ServerOptions,
  settings: readonly Settings[],
  open: (running: Running, logger: ProcessLogger) => Promise<Opened>,
): Promise<number> {
  const logger = await openLogger({ json: options.logJson ?? false, level: options.logLevel });
  process.on('exit', () => logger.flush());
  // A signal that comes while a long recovery runs is not lost.
  const signal = untilSignal();
  const running = new Running();
  try {
    for (const warning of settings.flatMap((part) => part.warnings)) logger.warn(warning);
    const opened = await open(running, logger);
    const facts = { version: packageVersion(), seconds: performance.now() / 1000, ...opened };
    logger.release();
    if (options.logJson === true) logger.info('ready', facts);
    else process.stdout.write(banner(facts));
  } catch (error) {
    await running.undo();
    logger.drop();
    throw error;
  }
  logger.info(`${await signal}: stopping`);
  const watch = new StopWatch(() => running.state, logger);
  const timer = setInterval(() => {
    if (!watch.tick()) process.exit(ExitCode.FAILED);
  }, STOP_TICK_MS);
  await running.undo();
  clearInterval(timer);
  logger.info('stopped');
  return ExitCode.OK;
}
