// What brokers ask of a client: what became of a transaction (39), to rebalance (40), to reset offsets (220), for its offsets (221) and
// state (307), to consume one message at once (309), and to take the reply to a request (326). Everything else the remoting layer answers "not supported".
// RocketMQ: ClientRemotingProcessor.

import { errorText } from '../common/index.ts';
import { decodeMessages, PropertyName, parseProperties } from '../message/index.ts';
import {
  parseJson,
  type RemotingClient,
  type Request,
  RequestCode,
  type Responder,
  ResponseCode,
  toJsonBytes,
} from '../remoting/index.ts';
import type { ClientInstance } from './client-instance.ts';
import { ReceivedMessage } from './message-types.ts';
import { jsonField, jsonNumber, queueEntries, queueMap } from './queue-json.ts';
import type { MessageQueue } from './queues.ts';

/** Answers these requests on all connections of a client. */
export function registerBrokerRequests(remoting: RemotingClient, client: ClientInstance): void {
  remoting.register(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, (request) => {
    void client.rebalanceNow();
    request.respond(ResponseCode.SUCCESS);
  });
  remoting.register(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, (request) => resetOffsets(client, request));
  remoting.register(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, (request) => consumerStatus(client, request));
  remoting.register(RequestCode.GET_CONSUMER_RUNNING_INFO, (request) => runningInfo(client, request));
  remoting.register(RequestCode.CONSUME_MESSAGE_DIRECTLY, (request) => consumeDirectly(client, request));
  remoting.register(RequestCode.CHECK_TRANSACTION_STATE, (request) => checkTransaction(client, request));
  remoting.register(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, (request) => takeReply(client, request));
}

function noSuchGroup(responder: Responder, group: string): void {
  responder.respond(ResponseCode.SYSTEM_ERROR, `The Consumer Group <${group}> not exist in this consumer`);
}

function resetOffsets(client: ClientInstance, request: Request): void {
  const group = request.header.required('group');
  const topic = request.header.required('topic');
  const consumer = client.consumer(group);
  if (consumer === undefined) return noSuchGroup(request, group);
  const offsets = parseResetBody(request.bodyCopy());
  client.logger.info(`${request.channel.remoteAddress} resets ${offsets.length} offsets of ${group} in ${topic}`);
  consumer.resetOffsets(topic, offsets).catch((error) => {
    client.logger.error(`the reset of ${group} in ${topic} failed: ${errorText(error)}`);
  });
  request.respond(ResponseCode.SUCCESS);
}

/** `{"offsetTable":{{queue}:offset}}`, or the list form that brokers write for C++ clients. */
export function parseResetBody(body: Uint8Array): Array<[MessageQueue, number]> {
  if (body.length === 0) return [];
  const table = jsonField(parseJson(body), 'offsetTable');
  const offsets: Array<[MessageQueue, number]> = [];
  if (Array.isArray(table)) {
    for (const item of table) {
      const queue = {
        topic: String(jsonField(item, 'topic') ?? ''),
        brokerName: String(jsonField(item, 'brokerName') ?? ''),
        queueId: jsonNumber(jsonField(item, 'queueId'), -1),
      };
      const offset = jsonNumber(jsonField(item, 'offset'), -1);
      if (queue.queueId >= 0 && offset >= 0) offsets.push([queue, offset]);
    }
    return offsets;
  }
  for (const [queue, value] of queueEntries(table)) {
    const offset = jsonNumber(value, -1);
    if (offset >= 0) offsets.push([queue, offset]);
  }
  return offsets;
}

function consumerStatus(client: ClientInstance, request: Request): void {
  const group = request.header.required('group');
  const consumer = client.consumer(group);
  const offsets = consumer?.offsets(request.header.required('topic')) ?? [];
  request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes({ messageQueueTable: queueMap(offsets) }));
}

function runningInfo(client: ClientInstance, request: Request): void {
  const group = request.header.required('consumerGroup');
  const consumer = client.consumer(group);
  if (consumer === undefined) return noSuchGroup(request, group);
  request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes(consumer.runningInfo()));
}

function consumeDirectly(client: ClientInstance, request: Request): void {
  const group = request.header.required('consumerGroup');
  const message = decodeMessages(request.bodyCopy())[0];
  if (message === undefined) return request.respond(ResponseCode.SYSTEM_ERROR, 'the body is not a message');
  const result = client.consumer(group)?.consumeDirectly(message, request.header.get('brokerName') ?? '');
  if (result === undefined) return noSuchGroup(request, group);
  const responder = request.defer();
  result.then(
    (answer) => responder.respond(ResponseCode.SUCCESS, null, null, toJsonBytes(answer)),
    (error) => responder.respond(ResponseCode.SYSTEM_ERROR, errorText(error)),
  );
}

function checkTransaction(client: ClientInstance, request: Request): void {
  const { channel } = request;
  const stored = decodeMessages(request.bodyCopy())[0];
  // RocketMQ: the group is the one that the message names, whatever the header says.
  const group = stored?.properties.get(PropertyName.PGROUP);
  const check = group === undefined ? undefined : client.transactionChecks.get(group);
  if (stored === undefined || check === undefined) {
    client.logger.warn(`${channel.remoteAddress} asks after a transaction of ${group ?? 'nobody'}, who is not here`);
    return request.respond(ResponseCode.SUCCESS);
  }
  const ext = request.header.toObject();
  const queue = { topic: stored.topic, brokerName: ext['bname'] ?? '', queueId: stored.queueId };
  check({ message: new ReceivedMessage(stored, { queue }), ext, channel });
  request.respond(ResponseCode.SUCCESS);
}

function takeReply(client: ClientInstance, request: Request): void {
  const { header, channel } = request;
  const properties = parseProperties(header.get('properties') ?? '');
  properties.set(PropertyName.ARRIVE_TIME, String(client.clock.now()));
  const topic = header.required('topic');
  const queueId = header.int('queueId');
  const msgId = properties.get(PropertyName.UNIQ_KEY) ?? '';
  const body = request.bodyCopy();
  const reply = new ReceivedMessage(
    {
      topic,
      queueId,
      // The broker may not have stored it at all.
      queueOffset: -1,
      physicalOffset: -1,
      storeSize: 0,
      flag: header.int('flag'),
      sysFlag: header.int('sysFlag'),
      bodyCrc: 0,
      bornTimestamp: header.long('bornTimestamp'),
      bornHost: header.get('bornHost') ?? '',
      storeTimestamp: header.long('storeTimestamp'),
      storeHost: header.get('storeHost') ?? '',
      reconsumeTimes: header.intOr('reconsumeTimes', 0),
      preparedTransactionOffset: 0,
      properties,
      body,
      offsetMessageId: '',
      messageId: msgId,
    },
    { queue: { topic, brokerName: '', queueId } },
  );
  if (!client.replies.deliver(reply)) {
    const id = properties.get(PropertyName.CORRELATION_ID) ?? 'none';
    client.logger.warn(`${channel.remoteAddress} brought a reply that nobody waits for (correlation id ${id})`);
  }
  request.respond(ResponseCode.SUCCESS);
}
