// Whether a group pulls or pops a topic (config/messageRequestMode.json), as an administrator has set it. RocketMQ:
// MessageRequestModeManager.

import type { JsonObject } from '../../remoting/index.ts';
import { type ConfigEnvironment, ConfigManager } from '../config-manager.ts';
import { readInt32, readObject, readText } from '../json-fields.ts';
import { prettyJson } from '../pretty-json.ts';

export type MessageRequestMode = 'PULL' | 'POP';

/** RocketMQ: SetMessageRequestModeRequestBody. */
export type RequestModeSetting = {
  readonly topic: string;
  readonly consumerGroup: string;
  readonly mode: MessageRequestMode;
  /** With POP: how many clients behind it a client shares queues with; 0 or less: all do. */
  readonly popShareQueueNum: number;
};

export class MessageRequestModeManager extends ConfigManager {
  /** Topic, group. */
  readonly #modes = new Map<string, Map<string, RequestModeSetting>>();

  constructor(environment: ConfigEnvironment) {
    super(environment, 'messageRequestMode.json');
  }

  find(topic: string, group: string): RequestModeSetting | undefined {
    return this.#modes.get(topic)?.get(group);
  }

  /** Sets it; it is durable on return. @throws GantryError IO or DISK_FULL; the change is then kept for the next save. */
  set(setting: RequestModeSetting): void {
    this.#put(setting.topic, setting.consumerGroup, setting);
    this.markChanged();
    this.persist();
  }

  /** The table as a slave asks for it. RocketMQ: encode(false). */
  toJson(): JsonObject {
    const groups = [...this.#modes].map(([topic, modes]) => [topic, Object.fromEntries(modes)] as const);
    return { messageRequestModeMap: Object.fromEntries(groups) };
  }

  protected override *encode(): Iterable<string> {
    yield prettyJson({ messageRequestModeMap: this.#modes });
  }

  protected override decode(json: JsonObject): void {
    const table = readObject(json, 'messageRequestModeMap') ?? {};
    const loaded: Array<[string, string, RequestModeSetting]> = [];
    for (const topic of Object.keys(table)) {
      const groups = readObject(table, topic) ?? {};
      for (const group of Object.keys(groups)) {
        const setting = readObject(groups, group);
        if (setting !== undefined) loaded.push([topic, group, readRequestMode(setting)]);
      }
    }
    for (const [topic, group, setting] of loaded) this.#put(topic, group, setting);
  }

  #put(topic: string, group: string, setting: RequestModeSetting): void {
    let groups = this.#modes.get(topic);
    if (groups === undefined) {
      groups = new Map();
      this.#modes.set(topic, groups);
    }
    groups.set(group, setting);
  }
}

/** @throws GantryError CONFIG_FILE on a field of another kind. RocketMQ: takes a mode that it does not know for none; here that is PULL. */
export function readRequestMode(json: JsonObject): RequestModeSetting {
  return {
    consumerGroup: readText(json, 'consumerGroup') ?? '',
    mode: readText(json, 'mode') === 'POP' ? 'POP' : 'PULL',
    popShareQueueNum: readInt32(json, 'popShareQueueNum') ?? 0,
    topic: readText(json, 'topic') ?? '',
  };
}
