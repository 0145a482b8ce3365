// The static topics of this broker (config/topicQueueMapping.json): which logic queues are or were its own, and where they lie.
// Primary data: every change is saved before it is answered. RocketMQ: TopicQueueMappingManager.

import { GantryError } from '../../common/index.ts';
import type { JsonObject } from '../../remoting/index.ts';
import { type ConfigEnvironment, ConfigManager } from '../config-manager.ts';
import { DataVersion } from '../data-version.ts';
import { readDataVersion, readObject } from '../json-fields.ts';
import { prettyEntry, prettyPieces } from '../pretty-json.ts';
import {
  changeFault,
  detailFields,
  itemsFault,
  type LogicQueueMappingItem,
  readDetail,
  type TopicQueueMappingDetail,
} from './topic-queue-mapping.ts';

export class TopicQueueMappingManager extends ConfigManager {
  readonly dataVersion: DataVersion;
  readonly #brokerName: string;
  readonly #changed: () => void;
  #table = new Map<string, TopicQueueMappingDetail>();

  /** `changed` is told after every change: who has looked a topic up looks again. */
  constructor(environment: ConfigEnvironment, brokerName: string, changed: () => void = () => {}) {
    super(environment, 'topicQueueMapping.json');
    this.#brokerName = brokerName;
    this.#changed = changed;
    this.dataVersion = new DataVersion(environment.clock.now());
  }

  get size(): number {
    return this.#table.size;
  }

  find(topic: string): TopicQueueMappingDetail | undefined {
    return this.#table.get(topic);
  }

  all(): IterableIterator<TopicQueueMappingDetail> {
    return this.#table.values();
  }

  /**
   * What `update` would put into the table.
   * @param force takes it as it is, whatever was there; places of logic queues that it does not name stay
   * @throws GantryError CONFIG_VALUE (responseCode 1) for a mapping that may not take over from the one that is there
   */
  checked(detail: TopicQueueMappingDetail, force: boolean): TopicQueueMappingDetail {
    if (detail.bname !== this.#brokerName) {
      throw refuse(`The broker name is not equal ${this.#brokerName} != ${detail.bname} `);
    }
    for (const items of detail.hostedQueues.values()) refuseFault(itemsFault(items));
    const old = this.#table.get(detail.topic);
    if (old === undefined) return detail;
    const hostedQueues = new Map(detail.hostedQueues);
    if (!force) {
      if (detail.epoch < old.epoch) {
        throw refuse(`Can't accept data with small epoch ${detail.epoch} < ${old.epoch}`);
      }
      if (detail.scope !== old.scope) {
        throw refuse(`Can't accept data with unmatched scope ${detail.scope} != ${old.scope}`);
      }
    }
    for (const [id, items] of old.hostedQueues) {
      const wanted = detail.hostedQueues.get(id);
      if (wanted === undefined) {
        if (!force && detail.epoch === old.epoch) throw refuse('Cannot accept equal epoch with null data');
        hostedQueues.set(id, items);
      } else if (!force) {
        refuseFault(changeFault(items, wanted, detail.epoch === old.epoch));
      }
    }
    return { ...detail, hostedQueues };
  }

  /** Takes a mapping that was `checked`; saved on return. @throws GantryError IO or DISK_FULL if saving fails. */
  update(detail: TopicQueueMappingDetail): void {
    this.environment.logger.info(`the queues of the static topic ${detail.topic} are mapped`, {
      epoch: detail.epoch,
      totalQueues: detail.totalQueues,
    });
    this.#table.set(detail.topic, detail);
    this.#moveOn();
    this.persist();
  }

  /** Other places for some logic queues of a topic, none for those to be forgotten; saved soon. */
  clean(topic: string, places: ReadonlyMap<number, readonly LogicQueueMappingItem[] | undefined>): void {
    const detail = this.#table.get(topic);
    if (detail === undefined) return;
    const hostedQueues = new Map(detail.hostedQueues);
    for (const [id, items] of places) {
      if (items === undefined) hostedQueues.delete(id);
      else hostedQueues.set(id, items);
    }
    this.#table.set(topic, { ...detail, hostedQueues });
    this.#moveOn();
    this.persistInSlices();
  }

  /** Forgets a topic; saved on return. False if it was no static one. @throws GantryError IO or DISK_FULL if saving fails. */
  delete(topic: string): boolean {
    if (!this.#table.delete(topic)) return false;
    this.environment.logger.info(`the topic ${topic} is no static one any more`);
    this.#moveOn();
    this.persist();
    return true;
  }

  #moveOn(): void {
    this.dataVersion.next(this.environment.clock.now());
    this.markChanged();
    this.#changed();
  }

  protected override *encode(): Iterable<string> {
    yield `{\n\t${prettyEntry('dataVersion', this.dataVersion.fields(), 1)},\n\t"topicQueueMappingInfoMap":{`;
    yield* prettyPieces(this.#table, detailFields);
    yield '\n}';
  }

  protected override decode(json: JsonObject): void {
    const table = new Map<string, TopicQueueMappingDetail>();
    const map = readObject(json, 'topicQueueMappingInfoMap') ?? {};
    for (const topic of Object.keys(map)) {
      const fields = readObject(map, topic);
      if (fields === undefined) continue;
      const detail = { ...readDetail(fields), topic };
      for (const items of detail.hostedQueues.values()) refuseFault(itemsFault(items));
      if (detail.bname !== this.#brokerName) {
        this.environment.logger.warn(
          `${this.path}: the queues of ${topic} are those of the broker ${detail.bname}, and this one is ${this.#brokerName}`,
        );
      }
      table.set(topic, detail);
    }
    const version = readDataVersion(json);
    this.#table = table;
    if (version !== undefined) this.dataVersion.assign(version);
    this.#changed();
  }
}

function refuse(text: string): GantryError {
  return new GantryError('CONFIG_VALUE', text, { responseCode: 1 });
}

function refuseFault(fault: string | undefined): void {
  if (fault !== undefined) throw refuse(fault);
}
