// Gantry's name server and broker as a person starts them: the built command line, a configuration file, signals.

import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Child } from './child.ts';
import { untilReady } from './java-system.ts';
import type { Ports } from './ports.ts';
import { brokersOf } from './probe.ts';
import {
  type BrokerOptions,
  CLUSTER_NAME,
  type RunningBroker,
  type RunningNamesrv,
  type System,
  writeBrokerConf,
} from './system.ts';
import { InteropError } from './wait.ts';

/** The command line of this build. */
export const GANTRY_ENTRY: string = join(import.meta.dirname, '../../src/bin/gantry.js');

/** Starts Gantry servers below `dir`. */
export class GantrySystem implements System {
  readonly kind = 'gantry';
  readonly #ports: Ports;
  readonly #dir: string;
  readonly #entry: string;
  #started = 0;

  constructor(ports: Ports, dir: string, entry: string = GANTRY_ENTRY) {
    this.#ports = ports;
    this.#dir = dir;
    this.#entry = entry;
  }

  async startNamesrv(): Promise<RunningNamesrv> {
    const port = await this.#ports.take();
    const dir = this.#newDir('gantry-namesrv');
    const conf = join(dir, 'namesrv.conf');
    writeFileSync(conf, `listenPort=${port}\nbindAddress=127.0.0.1\nkvConfigPath=${dir}/kvConfig.json\n`);
    const child = this.#gantry('Gantry name server', dir, ['namesrv', '-c', conf]);
    const addr = `127.0.0.1:${port}`;
    await untilReady(child, 'answers', async () => (await brokersOf(addr)) !== undefined);
    return { kind: 'gantry', addr, stop: async () => stopped(child) };
  }

  async startBroker(options: BrokerOptions): Promise<RunningBroker> {
    const alone = options.namesrvAddr === undefined;
    const port = options.port ?? (await this.#ports.take());
    const namesrvAddr = options.namesrvAddr ?? `127.0.0.1:${await this.#ports.take()}`;
    const dir = this.#newDir('gantry-broker');
    const brokerName = options.brokerName ?? 'interop-broker';
    const confFile = join(dir, 'broker.conf');
    writeBrokerConf(confFile, { ...options, brokerName, port, namesrvAddr });
    const words = alone
      ? ['start', '-c', confFile, '--namesrv-port', namesrvAddr.slice(namesrvAddr.lastIndexOf(':') + 1)]
      : ['broker', '-c', confFile];
    const child = this.#gantry('Gantry broker', dir, words);
    const brokerAddr = `127.0.0.1:${port}`;
    options.spawned?.(brokerAddr);
    await untilReady(child, 'is registered', async () => (await brokersOf(namesrvAddr)).get(brokerName) === brokerAddr);
    return {
      kind: 'gantry',
      namesrvAddr,
      brokerAddr,
      brokerName,
      clusterName: CLUSTER_NAME,
      storeDir: options.storeDir,
      confFile,
      pid: child.pid,
      stop: async () => {
        await stopped(child);
        if (existsSync(join(options.storeDir, 'abort'))) throw new InteropError('Gantry left the abort file behind');
      },
      kill: async () => await child.kill(),
      tail: () => child.tail(),
    };
  }

  #newDir(name: string): string {
    const dir = join(this.#dir, `${name}-${++this.#started}`);
    mkdirSync(dir, { recursive: true });
    return dir;
  }

  #gantry(name: string, dir: string, words: readonly string[]): Child {
    if (!existsSync(this.#entry)) throw new InteropError(`${this.#entry} is missing: npm run build`);
    return Child.server(name, process.execPath, [this.#entry, ...words], {
      cwd: dir,
      env: { ...process.env, HOME: dir, TZ: 'UTC' },
      logFile: join(dir, 'process.log'),
    });
  }
}

async function stopped(child: Child): Promise<void> {
  const exit = await child.signal('SIGTERM');
  if (exit.code !== 0) throw new InteropError(`Gantry ended with ${exit.code ?? exit.signal}\n${child.tail()}`);
}
