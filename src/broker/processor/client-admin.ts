// Who is connected, and questions that the broker passes on to a client. RocketMQ: AdminBrokerProcessor.

import { errorText, GantryError } from '../../common/index.ts';
import { decodeOffsetMessageId } from '../../message/index.ts';
import {
  type ExtFields,
  PeerVersion,
  type Request,
  RequestCode,
  type Responder,
  ResponseCode,
  toJsonBytes,
} from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import type { ClientChannelInfo } from '../client/consumer-group-info.ts';
import { answerLater, type HandlerRegistry } from './registry.ts';

/** Ms that a client has to answer what is passed on to it. */
const CLIENT_ANSWER_MS = 10_000;

export function registerClientAdmin(registry: HandlerRegistry, context: BrokerContext): void {
  registry.register(RequestCode.GET_CONSUMER_CONNECTION_LIST, (request) => getConsumerConnections(context, request));
  registry.register(RequestCode.GET_PRODUCER_CONNECTION_LIST, (request) => getProducerConnections(context, request));
  registry.register(RequestCode.GET_ALL_PRODUCER_INFO, (request) => getAllProducers(context, request));
  registry.register(RequestCode.GET_CONSUMER_RUNNING_INFO, (request) => getRunningInfo(context, request));
  registry.register(RequestCode.CONSUME_MESSAGE_DIRECTLY, (request) => consumeDirectly(context, request));
  registry.register(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, (request) => {
    const group = request.header.required('group');
    const topic = request.header.required('topic');
    const subscriptionData = context.consumers.subscription(group, topic)?.data;
    request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes({ group, topic, subscriptionData }));
  });
}

function connection(client: ClientChannelInfo): object {
  return {
    clientAddr: client.channel.remoteAddress,
    clientId: client.clientId,
    language: client.language,
    version: client.version,
  };
}

function getConsumerConnections(context: BrokerContext, request: Request): void {
  const name = request.header.required('consumerGroup');
  const group = context.consumers.find(name);
  if (group === undefined) {
    request.respond(ResponseCode.CONSUMER_NOT_ONLINE, `the consumer group[${name}] not online`);
    return;
  }
  const body = {
    connectionSet: [...group.channels.values()].map(connection),
    consumeFromWhere: group.behaviour.consumeFromWhere,
    consumeType: group.behaviour.consumeType,
    messageModel: group.behaviour.messageModel,
    subscriptionTable: new Map([...group.subscriptions].map(([topic, live]) => [topic, live.data])),
  };
  request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes(body));
}

function getProducerConnections(context: BrokerContext, request: Request): void {
  const name = request.header.required('producerGroup');
  const channels = context.producers.find(name);
  if (channels === undefined) {
    request.respond(ResponseCode.SYSTEM_ERROR, `the producer group[${name}] not exist`);
    return;
  }
  const connectionSet = [...channels.values()].map(connection);
  request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes({ connectionSet }));
}

function getAllProducers(context: BrokerContext, request: Request): void {
  const data = new Map<string, object[]>();
  for (const [group, channels] of context.producers.groups()) {
    data.set(
      group,
      [...channels.values()].map((client) => ({
        clientId: client.clientId,
        language: client.language,
        lastUpdateTimestamp: client.lastUpdateMs,
        // RocketMQ: Java's text of a socket address begins with a slash.
        remoteIP: `/${client.channel.remoteAddress}`,
        version: client.version,
      })),
    );
  }
  request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes({ data }));
}

/** A question for one client of a group. */
interface Question {
  readonly code: number;
  readonly ext: ExtFields;
  readonly body: Uint8Array | null;
  readonly group: string;
}

/** The client that a request names; undefined after an answer that says why it cannot be asked. */
function clientOf(context: BrokerContext, request: Request, group: string): ClientChannelInfo | undefined {
  const clientId = request.header.get('clientId') ?? 'null';
  const client = context.consumers.find(group)?.findClient(clientId);
  if (client === undefined) {
    request.respond(ResponseCode.SYSTEM_ERROR, `The Consumer <${group}> <${clientId}> not online`);
    return undefined;
  }
  if (client.version < PeerVersion.V3_1_8_SNAPSHOT) {
    request.respond(
      ResponseCode.SYSTEM_ERROR,
      `The Consumer <${clientId}> Version <${client.version}> too low to finish, please upgrade it to V3_1_8_SNAPSHOT`,
    );
    return undefined;
  }
  return client;
}

/** Asks a client and hands its answer back, unread. */
async function passOn(client: ClientChannelInfo, question: Question, responder: Responder): Promise<void> {
  const { code, ext, body, group } = question;
  try {
    const answer = await client.channel.invoke(code, ext, body, CLIENT_ANSWER_MS);
    responder.respond(answer.code, answer.remark, answer.ext, answer.body);
  } catch (error) {
    const who = `consumer <${group}> <${client.clientId}>`;
    if (error instanceof GantryError && error.code === 'REMOTING_TIMEOUT') {
      responder.respond(ResponseCode.CONSUME_MSG_TIMEOUT, `${who} Timeout: ${errorText(error)}`);
    } else {
      responder.respond(ResponseCode.SYSTEM_ERROR, `invoke ${who} Exception: ${errorText(error)}`);
    }
  }
}

function getRunningInfo(context: BrokerContext, request: Request): void {
  const group = request.header.required('consumerGroup');
  const client = clientOf(context, request, group);
  if (client === undefined) return;
  const question: Question = { code: request.code, ext: request.header.toObject(), body: null, group };
  answerLater(request, (responder) => passOn(client, question, responder));
}

/** A message by either kind of id. RocketMQ: takes a broker's offset id alone, and a producer's id for one. */
async function messageWithId(context: BrokerContext, topic: string, msgId: string): Promise<Uint8Array | undefined> {
  const { store } = context;
  const offset = offsetIn(msgId);
  const record = offset === undefined ? undefined : await store.recordAt(offset);
  if (record !== undefined) return record;
  const found = await store.queryMessage(topic, msgId, 1, 0, Number.MAX_SAFE_INTEGER, 'U');
  return found.records[0];
}

/** The place that an offset id names; undefined if it is none. */
function offsetIn(msgId: string): number | undefined {
  try {
    return decodeOffsetMessageId(msgId).offset;
  } catch (error) {
    if (error instanceof GantryError) return undefined;
    throw error;
  }
}

/** The client is to consume one message now; the message goes along as the body. */
function consumeDirectly(context: BrokerContext, request: Request): void {
  const { header } = request;
  const group = header.required('consumerGroup');
  const client = clientOf(context, request, group);
  if (client === undefined) return;
  const msgId = header.required('msgId');
  const topic = header.get('topic') ?? '';
  const ext: ExtFields = {
    ...header.toObject(),
    brokerName: context.config.brokerName,
    topicSysFlag: context.topics.select(topic)?.topicSysFlag,
    groupSysFlag: context.groups.find(group)?.groupSysFlag,
  };
  answerLater(request, async (responder) => {
    const record = await messageWithId(context, topic, msgId);
    if (record === undefined) {
      responder.respond(ResponseCode.SYSTEM_ERROR, `can not find message by the id, ${msgId}`);
      return;
    }
    await passOn(client, { code: RequestCode.CONSUME_MESSAGE_DIRECTLY, ext, body: record, group }, responder);
  });
}
