// Starting and stopping servers: settings, then checks that change nothing, then the store lock, then the name server, then the
// broker. Whatever fails, everything that was opened is closed again and one line says why.

import { mkdirSync, rmdirSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Settings } from '../common/config/index.ts';
import { GantryError, systemClock, systemRandom } from '../common/index.ts';
import { nodeFileSystem } from '../io/index.ts';
import { defaultStoreConfig, type MessageStoreConfig } from '../store/index.ts';
import {
  type AdvertisedAddress,
  chooseAdvertisedAddress,
  formatAddress,
  isWildcard,
  localAddresses,
  resolveHost,
} from './advertised-address.ts';
import { type BrokerFacts, banner } from './banner.ts';
import { ExitCode, failureLine } from './exit.ts';
import { packageVersion } from './package-version.ts';
import { openLogger, type ProcessLogger } from './pino-logger.ts';
import { checkPort, checkStoreDirectory } from './preflight.ts';
import {
  advertisedPort,
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
import { lockStore } from './store-lock.ts';

export interface StartOptions extends BrokerOptions {
  namesrvPort?: string;
  namesrvConfig?: string;
}

/** A stop that takes longer is given up; the next start recovers. */
const STOP_LIMIT_MS = 4500;
