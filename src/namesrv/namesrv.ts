// A name server: listens, answers by its processor, and looks for brokers that went silent.

import { readNamesrvSettings, type Settings } from '../common/config/index.ts';
import { type Clock, errorText, type Logger, type Timer } from '../common/index.ts';
import type { FileSystem } from '../io/index.ts';
import { addressText, type ExtFields, RemotingClient, RemotingServer, RequestCode } from '../remoting/index.ts';
import { KvConfig } from './kv-config.ts';
import { type NamesrvConfig, NamesrvSettings } from './namesrv-config.ts';
import { NamesrvProcessor } from './processor.ts';
import { RouteInfo } from './route-info.ts';

export interface NameServerDeps {
  readonly fs: FileSystem;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface NameServerOptions {
  /** Address to listen on; 0.0.0.0 and :: are all of the machine. */
  readonly host: string;
  /** 0 takes a free port. */
  readonly port: number;
  /** File of the KV configuration, if the settings name none; RocketMQ has `~/namesrv/kvConfig.json`. */
  readonly kvConfigPath: string;
  /** What a namesrv.conf says (`readNamesrvSettings`). Default: RocketMQ's defaults. */
  readonly settings?: Settings;
  /** Values in place of `settings`, for a name server without a file. */
  readonly config?: Partial<NamesrvConfig>;
  readonly deps: NameServerDeps;
}

const FIRST_SCAN_MS = 5_000;
const STOP_GRACE_MS = 1_000;

/**
 * A running name server.
 *
 * ```ts
 * const nameServer = await NameServer.start({ host: '127.0.0.1', port: 9876, kvConfigPath, deps: { fs, clock, logger } });
 * await nameServer.stop();
 * ```
 */
export class NameServer {
  /** `host:port` to connect to from this machine. */
  readonly address: string;
  readonly port: number;
  readonly #server: RemotingServer;
  readonly #processor: NamesrvProcessor;
  readonly #notifier: MinBrokerNotifier;
  readonly #timers: Timer[] = [];
  #stopped: Promise<void> | undefined;

  /** Starts a name server. @throws GantryError PORT_TAKEN or ADDRESS; CONFIG_FILE if the KV configuration cannot be read. */
  static async start(options: NameServerOptions): Promise<NameServer> {
    const { fs, clock, logger } = options.deps;
    const settings = new NamesrvSettings(settingsOf(options), fs, logger);
    const kvConfigPath = settings.path('kvConfigPath') ?? options.kvConfigPath;
    const kvConfig = KvConfig.open(kvConfigPath, { fs, logger });
    const notifier = new MinBrokerNotifier(clock, logger);
    const processor = new NamesrvProcessor({
      routes: new RouteInfo(settings.config),
      kvConfig,
      settings,
      clock,
      logger,
      notifyBroker: (address, ext) => notifier.notify(address, ext),
    });
    const server = new RemotingServer({ clock, logger });
    server.setDefault((request) => processor.handle(request));
    const port = await server.listen(options.host, options.port);
    settings.show({ bindAddress: options.host, listenPort: String(port), kvConfigPath });
    return new NameServer(options.host, port, server, processor, notifier, clock, settings.config);
  }

  private constructor(
    host: string,
    port: number,
    server: RemotingServer,
    processor: NamesrvProcessor,
    notifier: MinBrokerNotifier,
    clock: Clock,
    config: NamesrvConfig,
  ) {
    this.port = port;
    this.address = addressText(reachable(host), port);
    this.#server = server;
    this.#processor = processor;
    this.#notifier = notifier;
    const scan = (): void => processor.scanNotActiveBrokers();
    this.#timers.push(
      clock.after(FIRST_SCAN_MS, () => {
        scan();
        this.#timers.push(clock.every(config.scanNotActiveBrokerInterval, scan));
      }),
    );
  }

  /** Stops listening, answers what is under way and closes all connections. Nothing is left to be saved. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    for (const timer of this.#timers) timer.cancel();
    this.#processor.stop();
    await Promise.all([this.#server.close(STOP_GRACE_MS), this.#notifier.close()]);
  }
}

/** Tells brokers that the smallest id of their group has changed, over connections of its own, as RocketMQ does. */
class MinBrokerNotifier {
  readonly #clock: Clock;
  readonly #logger: Logger;
  #client: RemotingClient | undefined;

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  notify(address: string, ext: ExtFields): void {
    this.#client ??= new RemotingClient({ clock: this.#clock, logger: this.#logger, connectTimeoutMs: 300 });
    this.#client.invokeOneway(address, RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, ext, null).catch((error) => {
      this.#logger.warn(`cannot tell ${address} of the new smallest broker id: ${errorText(error)}`);
    });
  }

  async close(): Promise<void> {
    await this.#client?.close();
  }
}

function settingsOf(options: NameServerOptions): Settings {
  if (options.settings !== undefined) return options.settings;
  const overrides = Object.entries(options.config ?? {}).map(([key, value]) => ({
    key,
    value: String(value),
    from: 'the caller',
  }));
  return readNamesrvSettings({ overrides });
}

/** An address of this machine that stands for all of its addresses. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}
