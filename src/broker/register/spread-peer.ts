// Another master that new topics spread to. It has at most one request under way, asks before it changes anything, and changes nothing
// that is there: a topic of the same name keeps its settings. One that does not answer holds up no other. A Java broker answers all
// three requests as it answers mqadmin.

import { decodeProperties, parseProperties } from '../../common/config/index.ts';
import { type Clock, errorText, type Logger, type SeldomWarning } from '../../common/index.ts';
import { type ExtFields, type RemotingResponse, RequestCode, ResponseCode } from '../../remoting/index.ts';
import { type Invoke, refused } from '../name-servers.ts';
import type { TopicConfig } from '../topic/topic-config.ts';
import { AUTO_CREATE_TOPIC_KEY_TOPIC } from '../topic/topic-names.ts';
import { MOST_WAITING, TwoTries } from './two-tries.ts';

export interface SpreadDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly invoke: Invoke;
}

export type TopicNow = (topic: string) => TopicConfig | undefined;

/** How long a request may take. */
const TIMEOUT_MS = 3_000;

export class SpreadPeer {
  /** `host:port` as the name server has it. */
  address = '';
  readonly #name: string;
  readonly #select: TopicNow;
  readonly #deps: SpreadDeps;
  readonly #warnings: SeldomWarning;
  readonly #waiting: TwoTries;
  #stopped = false;

  constructor(name: string, select: TopicNow, deps: SpreadDeps, warnings: SeldomWarning) {
    this.#name = name;
    this.#select = select;
    this.#deps = deps;
    this.#warnings = warnings;
    this.#waiting = new TwoTries(deps.clock, (topics) => this.#give(topics));
  }

  get isIdle(): boolean {
    return this.#waiting.isIdle;
  }

  add(topics: readonly TopicConfig[]): void {
    for (const topic of topics) {
      if (this.#waiting.add(topic)) continue;
      this.#warn(`${MOST_WAITING} of them wait already, and ${topic.topicName} came after them`);
      return;
    }
  }

  stop(): void {
    this.#stopped = true;
    this.#waiting.stop();
  }

  /** Makes those topics that are not there, one after the other; gives back those that failed. Never rejects. */
  async #give(topics: readonly TopicConfig[]): Promise<readonly TopicConfig[]> {
    const failed: TopicConfig[] = [];
    let next = 0;
    let made = 0;
    try {
      if (!(await this.#createsTopics())) {
        this.#deps.logger.debug(`new topics do not spread to ${this.#name}: sends create none there`);
        return [];
      }
      for (; next < topics.length; next++) {
        const topic = topics[next]!;
        if (!this.#isToSpread(topic) || (await this.#has(topic)) || !this.#isToSpread(topic)) continue;
        const response = await this.#create(topic);
        if (response.code === ResponseCode.SUCCESS) {
          made++;
          continue;
        }
        failed.push(topic);
        this.#warn(`${topic.topicName}: ${refused(response).message}`);
      }
    } catch (error) {
      failed.push(...topics.slice(next));
      this.#warn(errorText(error));
    }
    if (made > 0)
      this.#deps.logger.info(`${made === 1 ? 'a new topic' : `${made} new topics`} spread to ${this.#name}`);
    return failed;
  }

  /** One that was deleted or changed meanwhile is an administrator's, who says where it is to be. */
  #isToSpread(topic: TopicConfig): boolean {
    return !this.#stopped && this.#select(topic.topicName) === topic;
  }

  /** Whether a send would create a topic there, too. */
  async #createsTopics(): Promise<boolean> {
    const response = await this.#ask(RequestCode.GET_BROKER_CONFIG, {});
    if (response.code !== ResponseCode.SUCCESS) throw refused(response);
    const settings = parseProperties(decodeProperties(response.body).text, `the settings of ${this.#name}`);
    return settings.some(({ key, value }) => key === 'autoCreateTopicEnable' && value === 'true');
  }

  async #has(topic: TopicConfig): Promise<boolean> {
    const response = await this.#ask(RequestCode.GET_TOPIC_CONFIG, { topic: topic.topicName });
    if (response.code === ResponseCode.SUCCESS) return true;
    if (response.code === ResponseCode.TOPIC_NOT_EXIST) return false;
    throw refused(response);
  }

  #create(topic: TopicConfig): Promise<RemotingResponse> {
    return this.#ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {
      topic: topic.topicName,
      defaultTopic: AUTO_CREATE_TOPIC_KEY_TOPIC,
      readQueueNums: topic.readQueueNums,
      writeQueueNums: topic.writeQueueNums,
      perm: topic.perm,
      topicFilterType: topic.topicFilterType,
      topicSysFlag: topic.topicSysFlag,
      order: topic.order,
      attributes: '',
      force: false,
      // It may have come into being since it was asked for. A Java broker passes over a field that it does not know.
      gantryOnlyIfAbsent: true,
    });
  }

  #ask(code: number, ext: ExtFields): Promise<RemotingResponse> {
    return this.#deps.invoke(this.address, code, ext, null, TIMEOUT_MS);
  }

  #warn(text: string): void {
    if (this.#stopped) return;
    this.#warnings.warn(this.#name, `new topics do not spread to ${this.#name} at ${this.address}: ${text}`);
  }
}
