// LITE_SUBSCRIPTION_CTL (200071): what clients subscribe to, as a proxy tells it: changes as they come, and from time to time all of it.
// RocketMQ: LiteSubscriptionCtlProcessor.

import { type JsonObject, type Request, RequestCode, type Responder, ResponseCode } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { bodyObject, objects } from '../client/heartbeat-data.ts';
import { readInteger, readList, readObject, readText } from '../json-fields.ts';
import { answerLater, type HandlerRegistry } from '../processor/registry.ts';
import { lightQueueOf } from '../topic/topic-names.ts';
import { isWildcardGroup } from './lite-metadata.ts';
import { liteTopicFault } from './lite-names.ts';
import type { OffsetOption } from './lite-subscriptions.ts';

const OPTIONS: readonly OffsetOption['type'][] = ['POLICY', 'OFFSET', 'TAIL_N', 'TIMESTAMP'];
const ACTIONS = ['PARTIAL_ADD', 'PARTIAL_REMOVE', 'COMPLETE_ADD', 'COMPLETE_REMOVE'] as const;

/** RocketMQ: LiteSubscriptionDTO. */
interface Wish {
  readonly action: (typeof ACTIONS)[number] | undefined;
  readonly clientId: string;
  readonly group: string;
  readonly topic: string;
  readonly queues: ReadonlySet<string>;
  readonly from: OffsetOption | undefined;
}

export function registerLiteSubscriptionCtl(registry: HandlerRegistry, context: BrokerContext): void {
  registry.register(RequestCode.LITE_SUBSCRIPTION_CTL, (request) => handle(context, request));
}

function handle(context: BrokerContext, request: Request): void {
  if (request.bodyEnd === request.bodyStart) {
    request.respond(ResponseCode.ILLEGAL_OPERATION, 'Request body is null.');
    return;
  }
  const wishes = objects(bodyObject(request.bodyCopy()), 'subscriptionSet').map(readWish);
  if (wishes.length === 0) {
    request.respond(ResponseCode.ILLEGAL_OPERATION, 'LiteSubscriptionCtlRequestBody is empty.');
    return;
  }
  const { sharding } = context.lite;
  const topics = [...new Set(wishes.map(({ topic }) => topic))].filter((topic) => topic.trim() !== '');
  if (topics.every((topic) => sharding.isKnown(topic))) {
    follow(context, request, wishes);
    return;
  }
  answerLater(request, async (responder) => {
    for (const topic of topics) await sharding.know(topic);
    follow(context, responder, wishes);
  });
}

/** Follows one wish after the other; the first that is refused ends it, and those before it stay, as on RocketMQ. */
function follow(context: BrokerContext, responder: Responder, wishes: readonly Wish[]): void {
  for (const wish of wishes) {
    const { clientId, group, topic } = wish;
    if (clientId.trim() === '' || group.trim() === '' || topic.trim() === '') {
      context.logger.warn(
        `a lite subscription without client, group or topic is passed over: ${clientId} ${group} ${topic}`,
      );
      continue;
    }
    const refusal = followOne(context, responder, wish);
    if (refusal !== undefined) {
      responder.respond(refusal.code, refusal.remark);
      return;
    }
  }
  responder.respond(ResponseCode.SUCCESS);
}

function followOne(
  { groups, lite: { subscriptions } }: BrokerContext,
  { channel }: Responder,
  { action, clientId, group, topic, queues, from }: Wish,
): { code: number; remark: string } | undefined {
  switch (action) {
    case 'PARTIAL_ADD':
    case 'COMPLETE_ADD': {
      const config = groups.find(group);
      if (config?.consumeEnable !== true) return illegal('Consumer group is not allowed to consume.');
      subscriptions.heardFrom(clientId, channel);
      const whole = action === 'COMPLETE_ADD';
      if (whole && isWildcardGroup(config)) {
        subscriptions.replace(clientId, group, topic, queues);
        return undefined;
      }
      const quota = subscriptions.overQuota(clientId, group, topic, queues, whole);
      if (quota !== undefined) {
        if (whole) subscriptions.renew(clientId);
        const remark = `org.apache.rocketmq.broker.lite.LiteQuotaException: ${quota}`;
        return { code: ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED, remark };
      }
      if (isWildcardGroup(config)) return illegal('subscribe lite operation is not supported for this group');
      if (whole) subscriptions.replace(clientId, group, topic, queues);
      else subscriptions.add(clientId, group, topic, queues, from);
      return undefined;
    }
    case 'PARTIAL_REMOVE':
      subscriptions.remove(clientId, group, topic, queues);
      return undefined;
    case 'COMPLETE_REMOVE':
      subscriptions.removeAll(clientId);
      return undefined;
    default:
      // RocketMQ: a NullPointerException.
      return { code: ResponseCode.SYSTEM_ERROR, remark: 'the lite subscription has no action that is known' };
  }
}

function illegal(text: string): { code: number; remark: string } {
  return { code: ResponseCode.ILLEGAL_OPERATION, remark: `java.lang.IllegalStateException: ${text}` };
}

/** Lite topics that can have no queue are left out: nothing will ever come for them. */
function readWish(json: JsonObject): Wish {
  const topic = readText(json, 'topic') ?? '';
  const lites = (readList(json, 'liteTopicSet') ?? []).map(String).filter((lite) => lite !== '');
  return {
    action: readName(json, 'action', ACTIONS),
    clientId: readText(json, 'clientId') ?? '',
    group: readText(json, 'group') ?? '',
    topic,
    queues: new Set(
      lites.filter((lite) => liteTopicFault(topic, lite) === undefined).map((lite) => lightQueueOf(topic, lite)),
    ),
    from: readOption(readObject(json, 'offsetOption')),
  };
}

function readOption(json: JsonObject | undefined): OffsetOption | undefined {
  if (json === undefined) return undefined;
  const type = readName(json, 'type', OPTIONS);
  return type === undefined ? undefined : { type, value: readInteger(json, 'value') ?? 0 };
}

/** An enum by its name, or by its number. */
function readName<T extends string>(json: JsonObject, field: string, names: readonly T[]): T | undefined {
  const text = readText(json, field) ?? '';
  return /^\d$/.test(text) ? names[Number(text)] : names.find((name) => name === text);
}
