// The queues of topics in the whole cluster, as name servers know them: asked for when a client first asks for its share of a topic, and
// then every `loadBalancePollNameServerInterval` while clients ask. RocketMQ: TopicRouteInfoManager.

import { type Clock, errorText, type Logger, SeldomWarning, type Timer } from '../../common/index.ts';
import type { JsonObject } from '../../remoting/index.ts';
import type { MessageQueue } from '../client/rebalance-lock-manager.ts';
import { readInteger, readList, readText } from '../json-fields.ts';
import { MOST_QUEUES, type NameServers, topicRoute } from '../name-servers.ts';
import { isReadable } from '../topic/topic-config.ts';
import { RETRY_GROUP_TOPIC_PREFIX } from '../topic/topic-names.ts';

/** Topics that nobody has asked for in so many rounds are asked about no more. */
const UNUSED_ROUNDS = 4;

export interface TopicRoutesDeps extends NameServers {
  readonly clock: Clock;
  readonly logger: Logger;
}

interface KnownTopic {
  queues: readonly MessageQueue[];
  unusedRounds: number;
}

export class TopicRoutes {
  readonly #deps: TopicRoutesDeps;
  readonly #intervalMs: number;
  readonly #warnings: SeldomWarning;
  readonly #known = new Map<string, KnownTopic>();
  /** Questions under way. */
  readonly #asking = new Map<string, Promise<readonly MessageQueue[] | undefined>>();
  #timer: Timer | undefined;
  #stopped = false;

  /** @param intervalMs loadBalancePollNameServerInterval */
  constructor(deps: TopicRoutesDeps, intervalMs: number) {
    this.#deps = deps;
    this.#intervalMs = intervalMs;
    this.#warnings = new SeldomWarning(deps.clock, deps.logger);
  }

  /** The readable queues of a topic if they are known already. */
  find(topic: string): readonly MessageQueue[] | undefined {
    const known = this.#known.get(topic);
    if (known === undefined || known.queues.length === 0) return undefined;
    known.unusedRounds = 0;
    return known.queues;
  }

  /** As `find`, or as a name server says now; undefined if there is no route. Never rejects. */
  async queuesOf(topic: string): Promise<readonly MessageQueue[] | undefined> {
    return this.find(topic) ?? (await this.#ask(topic)) ?? this.#known.get(topic)?.queues;
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  #ask(topic: string): Promise<readonly MessageQueue[] | undefined> {
    let answer = this.#asking.get(topic);
    if (answer === undefined) {
      answer = this.#fetch(topic).finally(() => this.#asking.delete(topic));
      this.#asking.set(topic, answer);
    }
    return answer;
  }

  async #fetch(topic: string): Promise<readonly MessageQueue[] | undefined> {
    try {
      const route = await topicRoute(this.#deps, topic);
      if (route === undefined) {
        // RocketMQ: what it knew of a retry topic stays.
        if (!topic.startsWith(RETRY_GROUP_TOPIC_PREFIX)) this.#known.delete(topic);
        return undefined;
      }
      const queues = readableQueues(topic, route);
      const known = this.#known.get(topic);
      if (known === undefined) this.#known.set(topic, { queues, unusedRounds: 0 });
      else known.queues = queues;
      this.#begin();
      return queues;
    } catch (error) {
      if (!this.#stopped) this.#warnings.warn('route', `the queues of ${topic} are not found: ${errorText(error)}`);
      return undefined;
    }
  }

  #begin(): void {
    if (this.#timer !== undefined || this.#stopped) return;
    this.#timer = this.#deps.clock.after(this.#intervalMs, () => void this.#round());
  }

  /** Asks anew about every topic that clients still ask for, one after the other. */
  async #round(): Promise<void> {
    for (const [topic, known] of [...this.#known]) {
      if (this.#stopped) return;
      if (++known.unusedRounds > UNUSED_ROUNDS) this.#known.delete(topic);
      else await this.#ask(topic);
    }
    this.#timer = undefined;
    if (this.#known.size > 0) this.#begin();
  }
}

/** RocketMQ: topicRouteData2TopicSubscribeInfo, without static mappings. @throws GantryError CONFIG_FILE if it is no route. */
function readableQueues(topic: string, route: JsonObject): MessageQueue[] {
  const queues: MessageQueue[] = [];
  for (const queue of (readList(route, 'queueDatas') ?? []) as readonly JsonObject[]) {
    if (!isReadable(readInteger(queue, 'perm') ?? 0)) continue;
    const brokerName = readText(queue, 'brokerName') ?? '';
    const count = Math.min(MOST_QUEUES, readInteger(queue, 'readQueueNums') ?? 0);
    for (let queueId = 0; queueId < count; queueId++) queues.push({ brokerName, queueId, topic });
  }
  return queues;
}
