// The system under test, whichever it is: a name server and a broker on a store directory. Every scenario runs against this
// interface, so that it can be proved on RocketMQ itself (--system java) before it judges Gantry.

import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** Who wrote the server. */
export type SystemKind = 'java' | 'gantry';

/** A name server that runs. */
export interface RunningNamesrv {
  readonly kind: SystemKind;
  readonly addr: string;
  stop(): Promise<void>;
}

/** A broker that runs and is known to its name server. */
export interface RunningBroker {
  readonly kind: SystemKind;
  readonly namesrvAddr: string;
  readonly brokerAddr: string;
  readonly brokerName: string;
  readonly clusterName: string;
  readonly storeDir: string;
  readonly confFile: string;
  readonly pid: number;
  /** Stops as an operator does, and waits for the end. @throws if the exit code is not that of a clean stop. */
  stop(): Promise<void>;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** The last lines that the process logged. */
  tail(): string;
}

/** What a broker is started with. */
export interface BrokerOptions {
  storeDir: string;
  /** Registers there; without it the system brings up a name server of its own kind. */
  namesrvAddr?: string;
  brokerName?: string;
  /** Listens there, as a broker does that is started again; otherwise on a port of its own. */
  port?: number;
  /** Only addresses and directories are set, everything else is the system's own default (benchmarks). */
  plain?: boolean;
  /** Called as soon as the process runs, long before it is ready. */
  spawned?: (brokerAddr: string) => void;
  /** Files so small that a test fills many of them. */
  smallFiles?: boolean;
  /** More lines of broker.conf. */
  conf?: Record<string, string | number | boolean>;
}

/** How to start the servers of one kind. */
export interface System {
  readonly kind: SystemKind;
  startNamesrv(): Promise<RunningNamesrv>;
  startBroker(options: BrokerOptions): Promise<RunningBroker>;
}

export const CLUSTER_NAME = 'InteropCluster';

/** Bytes of a CommitLog file when `smallFiles` is set. */
export const SMALL_COMMIT_LOG_FILE = 65_536;

/** Writes a broker.conf that both systems read. */
export function writeBrokerConf(
  file: string,
  options: BrokerOptions & { brokerName: string; port: number; namesrvAddr: string },
): void {
  const conf: Record<string, string | number | boolean> = {
    brokerClusterName: CLUSTER_NAME,
    brokerName: options.brokerName,
    brokerId: 0,
    brokerIP1: '127.0.0.1',
    bindAddress: '127.0.0.1',
    listenPort: options.port,
    namesrvAddr: options.namesrvAddr,
    storePathRootDir: options.storeDir,
    storePathCommitLog: `${options.storeDir}/commitlog`,
    ...(options.plain ? {} : convenient),
    ...(options.smallFiles ? smallFiles : {}),
    ...options.conf,
  };
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(
    file,
    Object.entries(conf)
      .map(([key, value]) => `${key}=${value}\n`)
      .join(''),
  );
}

const convenient = {
  mappedFileSizeCommitLog: 16 * 1024 * 1024,
  defaultTopicQueueNums: 4,
  flushConsumerOffsetInterval: 1000,
  // Retries wait for level 3 and up: short, so that a scenario does not take minutes.
  messageDelayLevel: '1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s',
  reviveQueueNum: 1,
  diskMaxUsedSpaceRatio: 95,
  fileReservedTime: 87_600,
};

const smallFiles = {
  mappedFileSizeCommitLog: SMALL_COMMIT_LOG_FILE,
  mappedFileSizeConsumeQueue: 2000,
  maxHashSlotNum: 100,
  maxIndexNum: 400,
};
