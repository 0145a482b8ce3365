// Heartbeats, farewells, and the check of a subscription before a consumer starts. RocketMQ: ClientManageProcessor.

import { errorText } from '../../common/index.ts';
import { isTagType } from '../../filter/index.ts';
import { type Request, RequestCode, type Responder, ResponseCode } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import type { ClientChannelInfo } from '../client/consumer-group-info.ts';
import { bodyObject, type ConsumerData, type HeartbeatData, readHeartbeat } from '../client/heartbeat-data.ts';
import { compileExpression } from '../filter/expression-filter.ts';
import { heavyExpressions, prepareInTurns, restAfter } from '../filter/heavy-expressions.ts';
import { readObject, readText } from '../json-fields.ts';
import { buildTopicSysFlag, Perm } from '../topic/topic-config.ts';
import { retryTopic } from '../topic/topic-names.ts';
import { answerLater, type HandlerRegistry } from './registry.ts';

export function registerClientManage(registry: HandlerRegistry, context: BrokerContext): void {
  const processor = new ClientManageProcessor(context);
  registry.register(RequestCode.HEART_BEAT, (request) => processor.heartbeat(request));
  registry.register(RequestCode.UNREGISTER_CLIENT, (request) => processor.unregister(request));
  registry.register(RequestCode.CHECK_CLIENT_CONFIG, (request) => processor.checkClientConfig(request));
}

class ClientManageProcessor {
  readonly #context: BrokerContext;
  /** Group, fingerprint of the last heartbeat of the second version. */
  readonly #fingerprints = new Map<string, number>();

  constructor(context: BrokerContext) {
    this.#context = context;
  }

  heartbeat(request: Request): void {
    const { clock, filters } = this.#context;
    const { channel } = request;
    const heartbeat = readHeartbeat(request.bodyCopy());
    const client: ClientChannelInfo = {
      channel,
      clientId: heartbeat.clientId,
      language: request.header.language,
      version: request.header.version,
      lastUpdateMs: clock.now(),
    };
    const heavy = heavyExpressions(filters, heartbeat.consumers);
    if (heavy.length === 0) {
      this.#take(request, heartbeat, client);
      return;
    }
    // What its client sends behind it goes by what it registers.
    channel.holdInput();
    answerLater(request, async (responder) => {
      try {
        const prepared = await prepareInTurns(clock, heavy);
        if (channel.isOpen) filters.withPrepared(prepared, () => this.#take(responder, heartbeat, client));
      } finally {
        channel.resumeInput();
      }
    });
  }

  #take(request: Responder, heartbeat: HeartbeatData, client: ClientChannelInfo): void {
    const fingerprint = heartbeat.heartbeatFingerprint;
    let changed = false;
    for (const consumer of heartbeat.consumers) {
      if (this.#context.config.rejectPullConsumerEnable && consumer.behaviour.consumeType === 'CONSUME_ACTIVELY') {
        continue;
      }
      const before = this.#fingerprints.get(consumer.groupName);
      if (before !== undefined && before !== fingerprint) changed = true;
      const isGroup = this.#registerConsumer(consumer, { ...client }, fingerprint !== 0 && heartbeat.withoutSub);
      // Of names that are no group's nothing is kept.
      if (isGroup) this.#fingerprints.set(consumer.groupName, fingerprint);
    }
    this.#registerProducers(heartbeat.producerGroups, client);
    request.respond(ResponseCode.SUCCESS, null, {
      IS_SUPPORT_HEART_BEAT_V2: true,
      IS_SUB_CHANGE: fingerprint === 0 ? true : changed,
    });
  }

  #registerProducers(groups: readonly string[], client: ClientChannelInfo): void {
    const { clock, config, producers, traffic } = this.#context;
    if (groups.length === 0) return;
    const began = clock.monotonic();
    // Nobody will be asked about transactions then.
    const isKept = config.enableRegisterProducer || !config.rejectTransactionMessage;
    for (const group of groups) {
      if (isKept || producers.has(group, client.channel)) producers.register(group, { ...client });
    }
    traffic.producerRegistrations.add(config.brokerClusterName, Math.trunc(clock.monotonic() - began));
  }

  /** False if there is no such group and none may be made. */
  #registerConsumer(consumer: ConsumerData, client: ClientChannelInfo, keepSubscriptions: boolean): boolean {
    const { clock, config, topics, groups, consumers, traffic } = this.#context;
    const group = groups.findOrCreate(consumer.groupName);
    if (group === undefined) return false;
    const ordered = consumer.subscriptions.some((subscription) => topics.isOrderTopic(subscription.topic));
    topics.createInSendBack(
      retryTopic(consumer.groupName),
      group.retryQueueNums,
      Perm.READ | Perm.WRITE,
      ordered,
      consumer.unitMode ? buildTopicSysFlag(false, true) : 0,
    );
    const began = clock.monotonic();
    consumers.register(
      consumer.groupName,
      client,
      consumer.behaviour,
      keepSubscriptions ? undefined : consumer.subscriptions,
      group.notifyConsumerIdsChangedEnable,
    );
    traffic.consumerRegistrations.add(config.brokerClusterName, Math.trunc(clock.monotonic() - began));
    return true;
  }

  unregister(request: Request): void {
    const { producers, consumers, groups } = this.#context;
    const producerGroup = request.header.get('producerGroup');
    if (producerGroup !== undefined) producers.unregister(producerGroup, request.channel);
    const consumerGroup = request.header.get('consumerGroup');
    if (consumerGroup !== undefined) {
      const notify = groups.find(consumerGroup)?.notifyConsumerIdsChangedEnable ?? true;
      consumers.unregister(consumerGroup, request.channel, notify);
    }
    request.respond(ResponseCode.SUCCESS);
  }

  checkClientConfig(request: Request): void {
    const subscription = readObject(bodyObject(request.bodyCopy()), 'subscriptionData');
    const type = subscription === undefined ? undefined : readText(subscription, 'expressionType');
    if (subscription === undefined || isTagType(type)) {
      request.respond(ResponseCode.SUCCESS);
      return;
    }
    if (!this.#context.config.enablePropertyFilter) {
      request.respond(ResponseCode.SYSTEM_ERROR, `The broker does not support consumer to filter message by ${type}`);
      return;
    }
    const expression = readText(subscription, 'subString') ?? '';
    try {
      compileExpression(type!, expression);
      request.respond(ResponseCode.SUCCESS);
    } catch (error) {
      request.respond(ResponseCode.SUBSCRIPTION_PARSE_FAILED, errorText(error));
    }
    restAfter(request.channel, this.#context.clock, expression.length);
  }
}
