// NOTIFICATION (200054): whether there is something to pop, asked by proxies, which wait for it and pop afterwards; and POLLING_INFO
// (200055): how many pops wait for a queue. RocketMQ: NotificationProcessor, PollingInfoProcessor.
//
//   checks ─► look at the queues, one after the other ─► something: hasMsg
//                │ bytes must come from disk first        └ nothing ─► held until an arrival or its time ─► looks again
//                └ the same queue again when they are there

import type { GantryError } from '../../common/index.ts';
import { MATCH_ALL } from '../../filter/index.ts';
import { popRetryTopicV1, popRetryTopicV2 } from '../../message/index.ts';
import {
  type Channel,
  type ExtFields,
  FrameWriter,
  type Request,
  RequestCode,
  ResponseCode,
} from '../../remoting/index.ts';
import { GetResult, type TagFilter } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import type { PopWaits } from '../longpolling/pop-waits.ts';
import { PopFilters } from '../pop/pop-filters.ts';
import { Polling, type WaitingPop } from '../pop/pop-parts.ts';
import { isReadable } from '../topic/topic-config.ts';
import { illegalQueue, type PopRefusal } from './pop-checks.ts';
import { type HandlerRegistry, NO_REMARK_SET } from './registry.ts';

export class NotificationProcessor {
  readonly #context: BrokerContext;
  readonly #waits: PopWaits;
  readonly #filters: PopFilters;
  readonly #result = new GetResult();

  constructor(context: BrokerContext, waits: PopWaits) {
    this.#context = context;
    this.#waits = waits;
    this.#filters = new PopFilters(context.clock);
  }

  register(registry: HandlerRegistry): void {
    registry.register(RequestCode.NOTIFICATION, (request) => this.#notification(request));
    registry.register(RequestCode.POLLING_INFO, (request) => this.#pollingInfo(request));
  }

  #notification(request: Request): void {
    const { header } = request;
    const { clock, config } = this.#context;
    const group = header.required('consumerGroup');
    const topic = header.required('topic');
    const queueId = Math.max(-1, header.int('queueId'));
    const pollTimeMs = header.long('pollTime');
    const bornTime = header.long('bornTime') || clock.now();
    const refusal = this.#refusalOf(topic, group, queueId, request.channel);
    if (refusal !== undefined) {
      request.respond(refusal.code, refusal.remark, {});
      return;
    }
    const type = header.get('expType') ?? '';
    const expression = header.get('exp') ?? '';
    const isFiltered = config.useMessageFilterForNotification && type !== '';
    const filter = isFiltered ? this.#filters.of(topic, expression, type, request.channel) : MATCH_ALL;
    if (filter === undefined) {
      request.respond(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed", {});
      return;
    }
    const isOrder = header.bool('order', false);
    const wants = { topic, group, queueId, filter, isOrder, attemptId: header.get('attemptId'), bornTime, pollTimeMs };
    const notification = new Notification(this, request, wants);
    request.takeOver();
    this.look(notification);
  }

  #pollingInfo(request: Request): void {
    const topic = request.header.required('topic');
    const group = request.header.required('consumerGroup');
    const queueId = request.header.int('queueId');
    const refusal = this.#refusalOf(topic, group, queueId, request.channel);
    if (refusal !== undefined) {
      request.respond(refusal.code, refusal.remark, {});
      return;
    }
    const pollingNum = this.#waits.pops.sizeOf(topic, group, queueId);
    request.respond(ResponseCode.SUCCESS, NO_REMARK_SET, { pollingNum });
  }

  #refusalOf(topic: string, group: string, queueId: number, channel: Channel): PopRefusal | undefined {
    const { config, groups, topics } = this.#context;
    const { NO_PERMISSION, SUBSCRIPTION_GROUP_NOT_EXIST, TOPIC_NOT_EXIST, INVALID_PARAMETER } = ResponseCode;
    if (!isReadable(config.brokerPermission)) {
      return { code: NO_PERMISSION, remark: `the broker[${config.brokerIP1}] peeking message is forbidden` };
    }
    const topicConfig = topics.select(topic);
    if (topicConfig === undefined) {
      return { code: TOPIC_NOT_EXIST, remark: `topic[${topic}] not exist, apply first please!` };
    }
    if (!isReadable(topicConfig.perm)) {
      return { code: NO_PERMISSION, remark: `the topic[${topic}] peeking message is forbidden` };
    }
    if (queueId >= topicConfig.readQueueNums) {
      return { code: INVALID_PARAMETER, remark: illegalQueue(queueId, topicConfig, channel.remoteAddress) };
    }
    const groupConfig = groups.findOrCreate(group);
    if (groupConfig === undefined) {
      return { code: SUBSCRIPTION_GROUP_NOT_EXIST, remark: `subscription group [${group}] does not exist` };
    }
    if (!groupConfig.consumeEnable) {
      return { code: NO_PERMISSION, remark: `subscription group no permission, ${group}` };
    }
    return undefined;
  }

  /** Runs a notification that waited: what has been forbidden meanwhile is forbidden for it, too. */
  resume(notification: Notification): void {
    const { topic, group, queueId, channel } = notification;
    const refusal = this.#refusalOf(topic, group, queueId, channel);
    if (refusal !== undefined) notification.answer(refusal.code, refusal.remark);
    else this.look(notification);
  }

  /** Looks at the queues; answers, or holds the notification. */
  look(notification: Notification): void {
    notification.places = this.#places(notification);
    notification.at = 0;
    notification.hasWaited = false;
    this.#lookOn(notification);
  }

  #lookOn(notification: Notification): void {
    const { places } = notification;
    if (!notification.isWanted) {
      notification.forget();
      return;
    }
    for (; notification.at < places.length; notification.at++) {
      const outcome = this.#hasMessage(notification, places[notification.at]!);
      if (outcome === undefined) {
        notification.hasWaited = true;
        return;
      }
      if (!outcome) continue;
      notification.answer(ResponseCode.SUCCESS, NO_REMARK_SET, { hasMsg: true, pollingFull: false });
      return;
    }
    // While the disk was waited for, something may have come into a queue that had been looked at.
    if (notification.hasWaited && places.some((place) => this.#endOf(place) > place.seenEnd)) {
      this.look(notification);
      return;
    }
    const held = this.#waits.notifications.polling(notification, notification.pollTimeMs);
    if (held === Polling.HELD) return;
    const pollingFull = held === Polling.FULL;
    notification.answer(ResponseCode.SUCCESS, NO_REMARK_SET, { hasMsg: false, pollingFull });
  }

  #endOf({ topic, queueId }: Place): number {
    return this.#context.store.maxOffsetInQueue(topic, queueId);
  }

  /** The queues to look at: those of the topic, then those of the group's retry topics, which need not match the filter. */
  #places(wants: Notification): Place[] {
    const { config, random, topics } = this.#context;
    const { topic, group, queueId } = wants;
    const places: Place[] = [];
    const start = random.int(100);
    const addAll = (name: string, filter: TagFilter): void => {
      const count = topics.select(name)?.readQueueNums ?? 0;
      for (let i = 0; i < count; i++) places.push(placeOf(name, (start + i) % count, filter));
    };
    if (queueId < 0) addAll(topic, wants.filter);
    else places.push(placeOf(topic, queueId, wants.filter));
    addAll(config.enableRetryTopicV2 ? popRetryTopicV2(topic, group) : popRetryTopicV1(topic, group), MATCH_ALL);
    if (config.enableRetryTopicV2 && config.retrieveMessageFromPopRetryTopicV1)
      addAll(popRetryTopicV1(topic, group), MATCH_ALL);
    return places;
  }

  /**
   * Whether a queue has something to pop. Undefined: bytes are fetched from disk, and then the look goes on. RocketMQ: hasMsgFromQueue,
   * which tries tags alone.
   */
  #hasMessage(notification: Notification, place: Place): boolean | undefined {
    const { topic, queueId, filter } = place;
    const { config, orders, pop, store } = this.#context;
    const { group, isOrder, attemptId } = notification;
    place.seenEnd = this.#endOf(place);
    if (isOrder && orders.isBlocked(attemptId, notification.topic, group, queueId, 0)) return false;
    const next = pop.nextOffset(topic, group, queueId);
    const offset = next < 0 ? store.minOffsetInQueue(topic, queueId) : next;
    const rest = place.seenEnd - offset;
    if (rest <= 0) return false;
    const matchesAll = filter.all && filter.record === undefined;
    if (matchesAll || rest >= config.maxMessageFilterNumForNotification) return true;
    const again = (error?: GantryError): void => {
      if (error === undefined) this.#lookOn(notification);
      else notification.answer(ResponseCode.SYSTEM_ERROR, `the store cannot be read: ${error.message}`);
    };
    const wants = { topic, queueId, offset, maxMessages: 1, maxBytes: 1, filter };
    return store.select(wants, this.#result, again) ? this.#result.count > 0 : undefined;
  }
}

interface Place {
  readonly topic: string;
  readonly queueId: number;
  readonly filter: TagFilter;
  /** Where the queue ended when it was looked at. */
  seenEnd: number;
}

function placeOf(topic: string, queueId: number, filter: TagFilter): Place {
  return { topic, queueId, filter, seenEnd: 0 };
}

interface Wants {
  readonly topic: string;
  readonly group: string;
  readonly queueId: number;
  readonly filter: TagFilter;
  readonly isOrder: boolean;
  readonly attemptId: string | undefined;
  readonly bornTime: number;
  readonly pollTimeMs: number;
}

/** A notification under way. */
class Notification implements WaitingPop {
  readonly topic: string;
  readonly group: string;
  readonly queueId: number;
  readonly filter: TagFilter;
  readonly isOrder: boolean;
  readonly attemptId: string | undefined;
  readonly deadline: number;
  readonly pollTimeMs: number;
  /** What is looked at, and how far that has come. */
  places: readonly Place[] = [];
  at = 0;
  hasWaited = false;
  readonly channel: Channel;
  readonly #processor: NotificationProcessor;
  readonly #opaque: number;
  readonly #oneway: boolean;

  constructor(processor: NotificationProcessor, request: Request, wants: Wants) {
    this.#processor = processor;
    this.channel = request.channel;
    this.#opaque = request.opaque;
    this.#oneway = request.oneway;
    this.topic = wants.topic;
    this.group = wants.group;
    this.queueId = wants.queueId;
    this.filter = wants.filter;
    this.isOrder = wants.isOrder;
    this.attemptId = wants.attemptId;
    this.deadline = wants.bornTime + wants.pollTimeMs;
    this.pollTimeMs = wants.pollTimeMs;
  }

  get isWanted(): boolean {
    return this.channel.isOpen;
  }

  resume(): void {
    this.#processor.resume(this);
  }

  forget(): void {
    this.channel.drop(1);
  }

  answer(code: number, remark: string, fields: ExtFields = {}): void {
    if (this.#oneway) {
      this.channel.drop(1);
      return;
    }
    const writer = new FrameWriter();
    writer.response(code, this.#opaque, remark, fields);
    this.channel.send(writer.take().bytes, 1);
  }
}
