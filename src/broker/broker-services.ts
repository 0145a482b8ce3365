// The order in which a broker's tables and services begin and end. The store is opened before and closed by its owner in between:
//
//   store open -> loadTables -> startServices -> ... -> stopServices -> store close -> saveTables

import type { Timer } from '../common/index.ts';
import type { BrokerContext } from './broker-context.ts';

/** Ms until a table whose save failed is saved again. */
const RETRY_SAVE_MS = 10_000;

/**
 * Reads config/*.json, and lowers what lies beyond the end of the log.
 * @throws GantryError CONFIG_FILE for a file that is bad together with its backup
 */
export function loadTables(context: BrokerContext): void {
  context.topics.load();
  context.groups.load();
  context.offsets.load();
  context.schedule.load();
  context.offsets.clampTo(context.store);
}

/** Services at work. */
export interface RunningServices {
  /** Nothing is delivered or expired any more; requests may still be answered. */
  stop(): void;
}

/** Starts delayed delivery, the look for silent clients, statistics and the periodic saves. */
export function startServices(context: BrokerContext): RunningServices {
  const { clock, config, topics, groups, offsets, consumers, producers, schedule, stats } = context;
  stats.start();
  consumers.start();
  producers.start();
  schedule.start();
  const timers: Timer[] = [
    clock.every(config.flushConsumerOffsetInterval, () => offsets.persistInSlices()),
    clock.every(RETRY_SAVE_MS, () => {
      topics.persistIfChanged();
      groups.persistIfChanged();
    }),
  ];
  return {
    stop() {
      for (const timer of timers) timer.cancel();
      schedule.stop();
      consumers.stop();
      producers.stop();
      stats.stop();
    },
  };
}

/** Saves all that has changed, for the end: when services are stopped and the store is closed. */
export function saveTables(context: BrokerContext): void {
  context.topics.persistIfChanged();
  context.groups.persistIfChanged();
  context.offsets.persistIfChanged();
  context.schedule.close();
}
