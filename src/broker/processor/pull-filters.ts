// By which filter a pull chooses its messages: that of an expression that it brings along, or that of what its group subscribes to by
// heartbeats. Asked when a pull comes, and again when one that waited is woken. RocketMQ: PullMessageProcessor.

import { isTagType, MATCH_ALL, SUB_ALL } from '../../filter/index.ts';
import { ResponseCode } from '../../remoting/index.ts';
import type { TagFilter } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { KeptFilters } from '../filter/kept-filters.ts';
import { FORBIDDEN_READ } from '../subscription/subscription-group-manager.ts';
import { Forbidden, type PullRefusal } from './pull-checks.ts';

/** One object for all pulls, as `PullChecks`: where there is no refusal, `filter` is that of the pull until the next call. */
export class PullFilters {
  readonly #context: BrokerContext;
  readonly #kept = new KeptFilters();
  filter: TagFilter = MATCH_ALL;

  constructor(context: BrokerContext) {
    this.#context = context;
  }

  /** Characters of an expression that the last `refusalOfSent` had to make ready. */
  get compiledChars(): number {
    return this.#kept.compiledChars;
  }

  /** Of a pull that brings its expression. */
  refusalOfSent(
    topic: string,
    expression: string | undefined,
    expressionType: string | undefined,
  ): PullRefusal | undefined {
    const isTag = isTagType(expressionType);
    const text = expression ?? (isTag ? SUB_ALL : '');
    this.#kept.compiledChars = 0;
    if (!isTag && text !== '' && !this.#context.config.enablePropertyFilter) return propertyFilterOff(expressionType!);
    try {
      return this.#take(topic, this.#kept.of(topic, text, expressionType));
    } catch (error) {
      // RocketMQ: hands out everything for an expression that cannot be read.
      return {
        code: ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        remark: `parse the consumer's subscription failed: ${(error as Error).message}`,
      };
    }
  }

  /** Of a pull that goes by its group's subscription, whose version its client knows as `subVersion`. */
  refusalOfGroup(group: string, topic: string, subVersion: number, broadcastEnabled: boolean): PullRefusal | undefined {
    const { consumers, groups } = this.#context;
    const info = consumers.find(group);
    if (info === undefined) {
      return {
        code: ResponseCode.SUBSCRIPTION_NOT_EXIST,
        remark: `the consumer's group info not exist, group: ${group} has sent no heartbeat here`,
      };
    }
    if (!broadcastEnabled && info.isBroadcasting) {
      return {
        code: ResponseCode.NO_PERMISSION,
        remark: `the consumer group[${group}] can not consume by broadcast way`,
        forbiddenType: Forbidden.BROADCASTING,
      };
    }
    if (groups.isForbidden(group, topic, FORBIDDEN_READ)) {
      return {
        code: ResponseCode.NO_PERMISSION,
        remark: `the consumer group[${group}] is forbidden for topic[${topic}]`,
        forbiddenType: Forbidden.SUBSCRIPTION,
      };
    }
    const subscription = info.subscriptions.get(topic);
    if (subscription === undefined) {
      return {
        code: ResponseCode.SUBSCRIPTION_NOT_EXIST,
        remark: `the consumer's subscription not exist, group: ${group}, topic: ${topic}`,
      };
    }
    const { data, filter } = subscription;
    if (data.subVersion < subVersion) {
      return { code: ResponseCode.SUBSCRIPTION_NOT_LATEST, remark: "the consumer's subscription not latest" };
    }
    return isTagType(data.expressionType)
      ? this.#take(topic, filter)
      : this.#refusalOfExpression(group, topic, subVersion, data.expressionType);
  }

  #refusalOfExpression(
    group: string,
    topic: string,
    subVersion: number,
    expressionType: string,
  ): PullRefusal | undefined {
    const { config, filters } = this.#context;
    const data = filters.find(topic, group);
    if (data === undefined) {
      return {
        code: ResponseCode.FILTER_DATA_NOT_EXIST,
        remark: "The broker's consumer filter data is not exist!Your expression may be wrong!",
      };
    }
    if (data.clientVersion < subVersion) {
      return { code: ResponseCode.FILTER_DATA_NOT_LATEST, remark: "the consumer's consumer filter data not latest" };
    }
    if (!config.enablePropertyFilter) return propertyFilterOff(expressionType);
    return this.#take(topic, data.filter ?? MATCH_ALL);
  }

  #take(topic: string, filter: TagFilter): undefined {
    const { config, filters } = this.#context;
    this.filter = config.filterSupportRetry ? filters.retryFilterOf(topic, filter) : filter;
  }
}

function propertyFilterOff(expressionType: string): PullRefusal {
  return {
    code: ResponseCode.SYSTEM_ERROR,
    remark: `The broker does not support consumer to filter message by ${expressionType}`,
  };
}
