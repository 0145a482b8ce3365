// RocketMQ's own name server and broker, started from the artifacts of Maven Central with an empty configuration directory
// and a home of their own, on loopback, with heaps small enough for a test machine.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Child } from './child.ts';
import type { Ports } from './ports.ts';
import { brokersOf, call } from './probe.ts';
import {
  type BrokerOptions,
  CLUSTER_NAME,
  type RunningBroker,
  type RunningNamesrv,
  type System,
  writeBrokerConf,
} from './system.ts';
import type { JavaTools } from './toolchain.ts';
import { InteropError, until } from './wait.ts';

/** Packages that RocketMQ opens by reflection, as its own start scripts do. */
export const JAVA_OPENS: readonly string[] = [
  '--add-opens=java.base/java.nio=ALL-UNNAMED',
  '--add-opens=java.base/sun.nio.ch=ALL-UNNAMED',
  '--add-opens=java.base/java.lang=ALL-UNNAMED',
  '--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED',
  '--add-exports=java.base/sun.nio.ch=ALL-UNNAMED',
];

const SMALL_BROKER_HEAP = [
  '-Xms512m',
  '-Xmx512m',
  '-XX:MaxDirectMemorySize=512m',
  '-XX:+UseSerialGC',
  '-XX:TieredStopAtLevel=1',
];
const SMALL_NAMESRV_HEAP = ['-Xms64m', '-Xmx128m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'];

const UPDATE_BROKER_CONFIG = 25;

/** Starts Java servers below `dir`. */
export class JavaSystem implements System {
  readonly kind = 'java';
  readonly #tools: JavaTools;
  readonly #ports: Ports;
  readonly #dir: string;
  readonly #brokerOptions: readonly string[];
  #started = 0;

  /** `brokerOptions` are the broker's JVM options: small heaps unless given. */
  constructor(tools: JavaTools, ports: Ports, dir: string, brokerOptions: readonly string[] = SMALL_BROKER_HEAP) {
    this.#tools = tools;
    this.#ports = ports;
    this.#dir = dir;
    this.#brokerOptions = brokerOptions;
  }

  async startNamesrv(): Promise<RunningNamesrv> {
    const port = await this.#ports.take();
    const dir = this.#newDir('java-namesrv');
    const conf = join(dir, 'namesrv.conf');
    writeFileSync(conf, `listenPort=${port}\nbindAddress=127.0.0.1\nkvConfigPath=${dir}/kvConfig.json\n`);
    const child = this.#java('Java name server', dir, SMALL_NAMESRV_HEAP, [
      'org.apache.rocketmq.namesrv.NamesrvStartup',
      '-c',
      conf,
    ]);
    const addr = `127.0.0.1:${port}`;
    await untilReady(child, 'answers', async () => (await brokersOf(addr)) !== undefined);
    return { kind: 'java', addr, stop: async () => await child.kill() };
  }

  async startBroker(options: BrokerOptions): Promise<RunningBroker> {
    const namesrv = options.namesrvAddr === undefined ? await this.startNamesrv() : undefined;
    const namesrvAddr = options.namesrvAddr ?? namesrv!.addr;
    const port = options.port ?? (await this.#ports.take());
    const dir = this.#newDir('java-broker');
    const brokerName = options.brokerName ?? 'interop-broker';
    const confFile = join(dir, 'broker.conf');
    writeBrokerConf(confFile, {
      ...options,
      brokerName,
      port,
      namesrvAddr,
      conf: { haListenPort: port + 1, ...options.conf },
    });
    const brokerAddr = `127.0.0.1:${port}`;
    const child = this.#java('Java broker', dir, this.#brokerOptions, [
      'org.apache.rocketmq.broker.BrokerStartup',
      '-c',
      confFile,
    ]);
    options.spawned?.(brokerAddr);
    await untilReady(child, 'is registered', async () => {
      if ((await brokersOf(namesrvAddr)).get(brokerName) === brokerAddr) return true;
      // A Java broker's registration at its start finds no name server that it has tried yet, and the next one comes after
      // 10 s. Setting its permission to what it is makes it register at once.
      await call(brokerAddr, UPDATE_BROKER_CONFIG, {}, Buffer.from('brokerPermission=6\n'));
      return false;
    });
    return {
      kind: 'java',
      namesrvAddr,
      brokerAddr,
      brokerName,
      clusterName: CLUSTER_NAME,
      storeDir: options.storeDir,
      confFile,
      pid: child.pid,
      stop: async () => {
        const exit = await child.signal('SIGTERM');
        await namesrv?.stop();
        // A JVM that was asked to stop by SIGTERM ends with 143 after its hooks.
        if (exit.code !== 143 && exit.code !== 0) {
          throw new InteropError(`the Java broker ended with ${exit.code ?? exit.signal}\n${child.tail()}`);
        }
      },
      kill: async () => {
        await child.kill();
        await namesrv?.stop();
      },
      tail: () => child.tail(),
    };
  }

  #newDir(name: string): string {
    const dir = join(this.#dir, `${name}-${++this.#started}`);
    mkdirSync(join(dir, 'conf'), { recursive: true });
    return dir;
  }

  #java(name: string, dir: string, options: readonly string[], words: readonly string[]): Child {
    return Child.server(
      name,
      this.#tools.java,
      [
        ...JAVA_OPENS,
        ...options,
        `-Duser.home=${dir}`,
        `-Drocketmq.home.dir=${dir}`,
        '-Djava.net.preferIPv4Stack=true',
        '-cp',
        this.#tools.classPath,
        ...words,
      ],
      { cwd: dir, env: { ...process.env, ROCKETMQ_HOME: dir, TZ: 'UTC' }, logFile: join(dir, 'process.log') },
    );
  }
}

/** Waits for a condition that a server fulfils when it is ready; connection errors on the way there are not failures. */
export async function untilReady(child: Child, what: string, condition: () => Promise<boolean>): Promise<void> {
  try {
    await until(`server ${what}`, async () => {
      if (child.hasExited) throw new InteropError('the server ended during its start');
      return await condition().catch(() => false);
    });
  } catch (error) {
    await child.kill();
    throw new InteropError(`${String(error)}\n${child.tail()}`);
  }
}
