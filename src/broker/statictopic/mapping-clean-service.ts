// Forgets places of static topics that nobody needs any more, in the hour in which old files go (deleteWhen): a logic queue's oldest place
// whose messages are all removed, and the places of logic queues that have moved on twice since they left this broker. Both are asked of
// the brokers concerned; without an answer nothing is forgotten. RocketMQ: TopicQueueMappingCleanService.

import { type Clock, errorText, type Logger, type Timer } from '../../common/index.ts';
import {
  type JsonObject,
  type JsonValue,
  parseJson,
  type RemotingResponse,
  RequestCode,
  ResponseCode,
} from '../../remoting/index.ts';
import { isTimeToDelete } from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { readInteger, readIntegerMap, readObject, readText } from '../json-fields.ts';
import { type BrokerPeers, unexpected } from './broker-peers.ts';
import {
  isLeader,
  type LogicQueueMappingItem,
  readDetail,
  type TopicQueueMappingDetail,
} from './topic-queue-mapping.ts';
import type { TopicQueueMappingManager } from './topic-queue-mapping-manager.ts';

const PERIOD_MS = 5 * 60_000;

export interface MappingCleanDeps {
  readonly config: BrokerConfig;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly mappings: TopicQueueMappingManager;
  readonly peers: BrokerPeers;
  /** Holds the hours, which may change. */
  readonly deleteWhen: { readonly deleteWhen: string };
}

type Places = Map<number, readonly LogicQueueMappingItem[] | undefined>;

export class MappingCleanService {
  readonly #deps: MappingCleanDeps;
  #timer: Timer | undefined;
  #running: Promise<void> | undefined;

  constructor(deps: MappingCleanDeps) {
    this.#deps = deps;
  }

  start(): void {
    const { clock, mappings, deleteWhen } = this.#deps;
    this.#timer = clock.every(PERIOD_MS, () => {
      if (mappings.size === 0 || !isTimeToDelete(deleteWhen.deleteWhen, clock.now())) return;
      this.#running ??= this.clean().finally(() => {
        this.#running = undefined;
      });
    });
  }

  async stop(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = undefined;
    await this.#running;
  }

  /** One round over all static topics, whatever the hour. Never rejects. */
  async clean(): Promise<void> {
    const { config, logger, mappings } = this.#deps;
    for (const detail of [...mappings.all()]) {
      if (detail.bname !== config.brokerName) continue;
      try {
        const places = await this.#emptyPlaces(detail);
        for (const id of await this.#movedOn(detail)) places.set(id, undefined);
        // What an administrator has changed meanwhile is left alone.
        if (places.size === 0 || mappings.find(detail.topic) !== detail) continue;
        logger.info(`places of the static topic ${detail.topic} are forgotten`, {
          queues: [...places.keys()].join(','),
        });
        mappings.clean(detail.topic, places);
      } catch (error) {
        logger.warn(`the places of the static topic ${detail.topic} cannot be cleaned: ${errorText(error)}`);
      }
    }
  }

  /** Logic queues led here whose oldest place has no message any more, with the places that are left. RocketMQ: cleanItemExpired. */
  async #emptyPlaces(detail: TopicQueueMappingDetail): Promise<Places> {
    const places: Places = new Map();
    const tables = new Map<string, readonly QueueStats[]>();
    for (const [id, items] of detail.hostedQueues) {
      if (items.length <= 1 || !isLeader(items, detail)) continue;
      const { bname, queueId } = items[0]!;
      if (!tables.has(bname)) tables.set(bname, await this.#statsOf(bname, detail.topic));
      const stats = tables.get(bname)!.find((queue) => queue.brokerName === bname && queue.queueId === queueId);
      if (stats === undefined) continue;
      if (stats.maxOffset === stats.minOffset || stats.maxOffset === 0) places.set(id, items.slice(1));
    }
    return places;
  }

  async #statsOf(bname: string, topic: string): Promise<QueueStats[]> {
    return readStats(parseJson((await this.#ask(bname, RequestCode.GET_TOPIC_STATS_INFO, topic, false)).body));
  }

  /** Logic queues whose leader is neither here nor where it went from here. RocketMQ: cleanItemListMoreThanSecondGen. */
  async #movedOn(detail: TopicQueueMappingDetail): Promise<number[]> {
    const gone = [...detail.hostedQueues].filter(([, items]) => items.length > 0 && !isLeader(items, detail));
    if (gone.length === 0) return [];
    const { config, peers } = this.#deps;
    const route = await peers.route(detail.topic, config.forwardTimeout);
    const details = new Map<string, TopicQueueMappingDetail>();
    const movedOn: number[] = [];
    for (const [id, items] of gone) {
      const leader = leaderInRoute(route, id);
      if (leader === undefined || leader === items.at(-1)!.bname) continue;
      if (!details.has(leader)) details.set(leader, await this.#detailOf(leader, detail.topic));
      const there = details.get(leader)!;
      const known = there.hostedQueues.get(id) ?? [];
      const same = there.bname === leader && there.totalQueues === detail.totalQueues && there.epoch === detail.epoch;
      if (same && known.at(-1)?.bname === leader) movedOn.push(id);
    }
    return movedOn;
  }

  async #detailOf(bname: string, topic: string): Promise<TopicQueueMappingDetail> {
    const response = await this.#ask(bname, RequestCode.GET_TOPIC_CONFIG, topic, true);
    return readDetail(readObject(parseJson(response.body) as JsonObject, 'mappingDetail') ?? {});
  }

  async #ask(bname: string, code: number, topic: string, lo: boolean): Promise<RemotingResponse> {
    const { config, peers } = this.#deps;
    const response = await peers.invoke(bname, code, { topic, bname, lo }, null, config.forwardTimeout);
    if (response.code !== ResponseCode.SUCCESS) throw unexpected(response);
    return response;
  }
}

interface QueueStats {
  readonly brokerName: string;
  readonly queueId: number;
  readonly minOffset: number;
  readonly maxOffset: number;
}

/** The queues of a TopicStatsTable, whose keys are objects. */
function readStats(json: JsonValue): QueueStats[] {
  const table = (json as JsonObject | null)?.['offsetTable'];
  if (!(table instanceof Map)) return [];
  return [...table].map(([key, value]) => {
    const queue = key as JsonObject;
    const offsets = value as JsonObject;
    return {
      brokerName: readText(queue, 'brokerName') ?? '',
      queueId: readInteger(queue, 'queueId') ?? -1,
      minOffset: readInteger(offsets, 'minOffset') ?? 0,
      maxOffset: readInteger(offsets, 'maxOffset') ?? -1,
    };
  });
}

/** The broker that a route names for a logic queue, by the newest mapping. RocketMQ: topicRouteData2EndpointsForStaticTopic. */
function leaderInRoute(route: JsonObject, id: number): string | undefined {
  let leader: string | undefined;
  let newest = -1;
  const mappings = readObject(route, 'topicQueueMappingByBroker') ?? {};
  for (const name of Object.keys(mappings)) {
    const info = readObject(mappings, name) ?? {};
    const epoch = readInteger(info, 'epoch') ?? 0;
    if (epoch < newest || !readIntegerMap(info, 'currIdMap').has(id)) continue;
    newest = epoch;
    leader = readText(info, 'bname');
  }
  return leader;
}
