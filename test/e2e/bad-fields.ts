// Every request that a broker or a name server serves, as it should be, and what can be wrong with it: each field missing, empty, no
// number, or beyond its bits, and each body none, torn, or of another kind. What Java 5.5.0 answers to each lies in
// test/fixtures/bad-fields.json (test/interop/record-bad-fields.ts writes it); bad-fields.test.ts holds ours against it.

import { encodeBatch } from '../../src/message/index.ts';
import { RequestCode } from '../../src/remoting/index.ts';
import { type Fields, WirePeer } from './wire-peer.ts';

/** i: 32 bits, l: 64 bits, t: text, b: true or false. */
type Kind = 'i' | 'l' | 't' | 'b';

interface Sound {
  at: 'broker' | 'namesrv';
  /** name -> kind and value. */
  fields: Readonly<Record<string, readonly [Kind, string]>>;
  body?: string;
}

/** One broken request. */
export interface BadRequest {
  /** Unique: code, field and what is wrong. */
  name: string;
  at: 'broker' | 'namesrv';
  code: number;
  fields: Fields;
  body: Buffer;
}

export interface RecordedAnswer {
  /** null: none came. */
  code: number | null;
  /** First line. */
  remark: string | null;
}

const TOPIC = ['t', 'BadT'] as const;
const GROUP = ['t', 'BadG'] as const;
const QUEUE = ['i', '0'] as const;
const LONG_SEND = {
  producerGroup: ['t', 'P'],
  topic: TOPIC,
  defaultTopic: ['t', 'TBW102'],
  defaultTopicQueueNums: ['i', '4'],
  queueId: QUEUE,
  sysFlag: ['i', '0'],
  bornTimestamp: ['l', '1700000000000'],
  flag: ['i', '0'],
  properties: ['t', ''],
  reconsumeTimes: ['i', '0'],
  unitMode: ['b', 'false'],
  maxReconsumeTimes: ['i', '16'],
  batch: ['b', 'false'],
} as const;
const SHORT_SEND = Object.fromEntries(
  Object.values(LONG_SEND).map((value, i) => [String.fromCharCode(97 + i), value]),
) as Record<string, readonly [Kind, string]>;
const REPLY = 'REPLY_TO_CLIENT\u0001c\u0002CORRELATION_ID\u0001x\u0002';
/** All of its bytes are ASCII. */
const BATCH = Buffer.from(encodeBatch([{ flag: 0, body: Buffer.from('x'), properties: Buffer.from('') }])).toString(
  'latin1',
);
const PULL = {
  consumerGroup: GROUP,
  topic: TOPIC,
  queueId: QUEUE,
  queueOffset: ['l', '0'],
  maxMsgNums: ['i', '32'],
  sysFlag: ['i', '4'],
  commitOffset: ['l', '0'],
  suspendTimeoutMillis: ['l', '0'],
  subscription: ['t', '*'],
  subVersion: ['l', '0'],
} as const;
/** Of a pop long ago, of no broker that there is. */
const HANDLE = '0 1 60000 0 0 b 0 0';
const BROKER = {
  brokerName: ['t', 'bad-broker'],
  brokerAddr: ['t', '127.0.0.9:1'],
  clusterName: ['t', 'BadC'],
  brokerId: ['l', '0'],
} as const;

function broker(fields: Sound['fields'] = {}, body?: string): Sound {
  return body === undefined ? { at: 'broker', fields } : { at: 'broker', fields, body };
}

function namesrv(fields: Sound['fields'] = {}, body?: string): Sound {
  return body === undefined ? { at: 'namesrv', fields } : { at: 'namesrv', fields, body };
}

/** By the code's name. Both servers know QUERY_DATA_VERSION; only a name server is asked. */
export const SOUND: Readonly<Partial<Record<keyof typeof RequestCode, Sound>>> = {
  SEND_MESSAGE: broker(LONG_SEND, 'x'),
  SEND_MESSAGE_V2: broker(SHORT_SEND, 'x'),
  SEND_BATCH_MESSAGE: broker({ ...SHORT_SEND, m: ['b', 'true'] }, BATCH),
  SEND_REPLY_MESSAGE: broker({ ...LONG_SEND, properties: ['t', REPLY] }, 'x'),
  SEND_REPLY_MESSAGE_V2: broker({ ...SHORT_SEND, i: ['t', REPLY] }, 'x'),
  PULL_MESSAGE: broker(PULL),
  LITE_PULL_MESSAGE: broker(PULL),
  POP_MESSAGE: broker({
    consumerGroup: GROUP,
    topic: TOPIC,
    queueId: ['i', '3'],
    maxMsgNums: ['i', '32'],
    invisibleTime: ['l', '60000'],
    pollTime: ['l', '0'],
    bornTime: ['l', '0'],
    initMode: ['i', '0'],
    expType: ['t', 'TAG'],
    exp: ['t', '*'],
    order: ['b', 'false'],
    attemptId: ['t', 'x'],
  }),
  ACK_MESSAGE: broker({
    consumerGroup: GROUP,
    topic: TOPIC,
    queueId: QUEUE,
    extraInfo: ['t', HANDLE],
    offset: ['l', '0'],
  }),
  BATCH_ACK_MESSAGE: broker(
    {},
    '{"acks":[{"b":"AQ==","c":"BadG","it":60000,"pt":1,"q":0,"r":"0","rq":0,"so":0,"t":"BadT"}],"brokerName":"b"}',
  ),
  CHANGE_MESSAGE_INVISIBLETIME: broker({
    consumerGroup: GROUP,
    topic: TOPIC,
    queueId: QUEUE,
    extraInfo: ['t', HANDLE],
    offset: ['l', '0'],
    invisibleTime: ['l', '60000'],
    suspend: ['b', 'false'],
  }),
  PEEK_MESSAGE: broker({ consumerGroup: GROUP, topic: TOPIC, queueId: ['i', '3'], maxMsgNums: ['i', '32'] }),
  NOTIFICATION: broker({
    consumerGroup: GROUP,
    topic: TOPIC,
    queueId: ['i', '3'],
    pollTime: ['l', '0'],
    bornTime: ['l', '0'],
    order: ['b', 'false'],
    attemptId: ['t', 'x'],
  }),
  POLLING_INFO: broker({ consumerGroup: GROUP, topic: TOPIC, queueId: QUEUE }),
  POP_ROLLBACK: broker(),
  QUERY_ASSIGNMENT: broker(
    {},
    '{"topic":"BadT","consumerGroup":"BadG","clientId":"c","strategyName":"AVG","messageModel":"CLUSTERING"}',
  ),
  SET_MESSAGE_REQUEST_MODE: broker({}, '{"topic":"BadT","consumerGroup":"BadG","mode":"PULL","popShareQueueNum":0}'),
  GET_ALL_MESSAGE_REQUEST_MODE: broker(),
  POP_LITE_MESSAGE: broker({
    clientId: ['t', 'c'],
    consumerGroup: GROUP,
    topic: TOPIC,
    maxMsgNum: ['i', '32'],
    invisibleTime: ['l', '60000'],
    pollTime: ['l', '0'],
    bornTime: ['l', '0'],
    attemptId: ['t', 'x'],
  }),
  LITE_SUBSCRIPTION_CTL: broker(
    {},
    '{"subscriptionSet":[{"action":"PARTIAL_ADD","clientId":"c","group":"BadG","topic":"BadT","liteTopicSet":["x"],"version":1}]}',
  ),
  GET_BROKER_LITE_INFO: broker(),
  GET_PARENT_TOPIC_INFO: broker({ topic: TOPIC }),
  GET_LITE_TOPIC_INFO: broker({ parentTopic: TOPIC, liteTopic: ['t', 'x'] }),
  GET_LITE_CLIENT_INFO: broker({ parentTopic: TOPIC, group: GROUP, clientId: ['t', 'c'], maxCount: ['i', '1000'] }),
  GET_LITE_GROUP_INFO: broker({ group: GROUP, liteTopic: ['t', 'x'], topK: ['i', '10'] }),
  TRIGGER_LITE_DISPATCH: broker({ group: GROUP, clientId: ['t', 'c'] }),
  QUERY_MESSAGE: broker({
    topic: TOPIC,
    key: ['t', 'none'],
    maxNum: ['i', '32'],
    beginTimestamp: ['l', '0'],
    endTimestamp: ['l', '9223372036854775807'],
  }),
  VIEW_MESSAGE_BY_ID: broker({ offset: ['l', '999999999'] }),
  QUERY_CONSUMER_OFFSET: broker({ consumerGroup: GROUP, topic: TOPIC, queueId: QUEUE }),
  UPDATE_CONSUMER_OFFSET: broker({ consumerGroup: GROUP, topic: TOPIC, queueId: QUEUE, commitOffset: ['l', '0'] }),
  GET_MAX_OFFSET: broker({ topic: TOPIC, queueId: QUEUE, committed: ['b', 'true'] }),
  GET_MIN_OFFSET: broker({ topic: TOPIC, queueId: QUEUE }),
  GET_EARLIEST_MSG_STORETIME: broker({ topic: TOPIC, queueId: QUEUE }),
  SEARCH_OFFSET_BY_TIMESTAMP: broker({
    topic: TOPIC,
    queueId: QUEUE,
    timestamp: ['l', '0'],
    boundaryType: ['t', 'LOWER'],
  }),
  CONSUMER_SEND_MSG_BACK: broker({
    offset: ['l', '0'],
    group: GROUP,
    delayLevel: ['i', '1'],
    originMsgId: ['t', 'x'],
    originTopic: TOPIC,
    unitMode: ['b', 'false'],
    maxReconsumeTimes: ['i', '16'],
  }),
  END_TRANSACTION: broker({
    topic: TOPIC,
    producerGroup: ['t', 'P'],
    tranStateTableOffset: ['l', '0'],
    commitLogOffset: ['l', '99999999'],
    commitOrRollback: ['i', '8'],
    fromTransactionCheck: ['b', 'false'],
    msgId: ['t', 'x'],
    transactionId: ['t', 'x'],
  }),
  RESUME_CHECK_HALF_MESSAGE: broker({ topic: TOPIC, msgId: ['t', 'x'] }),
  RECALL_MESSAGE: broker({ producerGroup: ['t', 'P'], topic: TOPIC, recallHandle: ['t', 'x'] }),
  GET_TIMER_CHECK_POINT: broker(),
  GET_TIMER_METRICS: broker(),
  SWITCH_TIMER_ENGINE: broker({ engineType: ['t', 'x'] }),
  HEART_BEAT: broker({}, '{"clientID":"c","consumerDataSet":[],"producerDataSet":[]}'),
  UNREGISTER_CLIENT: broker({ clientID: ['t', 'c'], producerGroup: ['t', 'P'], consumerGroup: GROUP }),
  CHECK_CLIENT_CONFIG: broker(
    {},
    '{"clientId":"c","group":"BadG","subscriptionData":{"topic":"BadT","subString":"*","expressionType":"TAG"}}',
  ),
  GET_CONSUMER_LIST_BY_GROUP: broker({ consumerGroup: GROUP }),
  LOCK_BATCH_MQ: broker({}, '{"consumerGroup":"BadG","clientId":"c","mqSet":[]}'),
  UNLOCK_BATCH_MQ: broker({}, '{"consumerGroup":"BadG","clientId":"c","mqSet":[]}'),
  UPDATE_AND_CREATE_TOPIC: broker({
    topic: ['t', 'BadNew'],
    defaultTopic: ['t', 'TBW102'],
    readQueueNums: ['i', '4'],
    writeQueueNums: ['i', '4'],
    perm: ['i', '6'],
    topicFilterType: ['t', 'SINGLE_TAG'],
    topicSysFlag: ['i', '0'],
    order: ['b', 'false'],
    attributes: ['t', ''],
  }),
  UPDATE_AND_CREATE_TOPIC_LIST: broker(
    {},
    '{"topicConfigList":[{"topicName":"BadNew","readQueueNums":1,"writeQueueNums":1,"perm":6}]}',
  ),
  UPDATE_AND_CREATE_STATIC_TOPIC: broker(
    {
      topic: ['t', 'BadStatic'],
      defaultTopic: ['t', 'TBW102'],
      readQueueNums: ['i', '4'],
      writeQueueNums: ['i', '4'],
      perm: ['i', '6'],
      topicFilterType: ['t', 'SINGLE_TAG'],
      topicSysFlag: ['i', '0'],
      order: ['b', 'false'],
      force: ['b', 'false'],
    },
    '{"topic":"BadStatic","bname":"interop-broker","epoch":1,"totalQueues":1,"scope":"__global__",' +
      '"hostedQueues":{"0":[{"bname":"interop-broker","gen":0,"queueId":0,"logicOffset":0}]}}',
  ),
  DELETE_TOPIC_IN_BROKER: broker({ topic: ['t', 'BadGone'] }),
  GET_ALL_TOPIC_CONFIG: broker(),
  GET_TOPIC_CONFIG: broker({ topic: TOPIC }),
  GET_SYSTEM_TOPIC_LIST_FROM_BROKER: broker(),
  GET_TOPIC_STATS_INFO: broker({ topic: TOPIC }),
  UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: broker({}, '{"groupName":"BadNew"}'),
  UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: broker({}, '{"groupConfigList":[{"groupName":"BadNew"}]}'),
  DELETE_SUBSCRIPTIONGROUP: broker({ groupName: ['t', 'BadGone'], cleanOffset: ['b', 'false'] }),
  GET_ALL_SUBSCRIPTIONGROUP_CONFIG: broker(),
  GET_SUBSCRIPTIONGROUP_CONFIG: broker({ group: GROUP }),
  UPDATE_AND_GET_GROUP_FORBIDDEN: broker({ group: GROUP, topic: TOPIC, readable: ['b', 'true'] }),
  GET_CONSUME_STATS: broker({ consumerGroup: GROUP, topic: TOPIC }),
  GET_BROKER_CONSUME_STATS: broker({ isOrder: ['b', 'false'] }),
  GET_ALL_CONSUMER_OFFSET: broker(),
  GET_ALL_DELAY_OFFSET: broker(),
  QUERY_TOPIC_CONSUME_BY_WHO: broker({ topic: TOPIC }),
  QUERY_TOPICS_BY_CONSUMER: broker({ group: GROUP }),
  QUERY_SUBSCRIPTION_BY_CONSUMER: broker({ group: GROUP, topic: TOPIC }),
  QUERY_CONSUME_TIME_SPAN: broker({ topic: TOPIC, group: GROUP }),
  QUERY_CORRECTION_OFFSET: broker({ topic: TOPIC, compareGroup: ['t', ''], filterGroups: ['t', 'a,b'] }),
  QUERY_CONSUME_QUEUE: broker({
    topic: TOPIC,
    queueId: QUEUE,
    index: ['l', '0'],
    count: ['i', '3'],
    consumerGroup: GROUP,
  }),
  CLONE_GROUP_OFFSET: broker({ srcGroup: GROUP, destGroup: ['t', 'BadH'], topic: TOPIC, offline: ['b', 'true'] }),
  INVOKE_BROKER_TO_RESET_OFFSET: broker({
    topic: TOPIC,
    group: GROUP,
    timestamp: ['l', '0'],
    isForce: ['b', 'true'],
    offset: ['l', '-1'],
    queueId: ['i', '-1'],
  }),
  INVOKE_BROKER_TO_GET_CONSUMER_STATUS: broker({ topic: TOPIC, group: GROUP, clientAddr: ['t', ''] }),
  GET_CONSUMER_CONNECTION_LIST: broker({ consumerGroup: GROUP }),
  GET_PRODUCER_CONNECTION_LIST: broker({ producerGroup: ['t', 'P'] }),
  GET_ALL_PRODUCER_INFO: broker(),
  GET_CONSUMER_RUNNING_INFO: broker({ consumerGroup: GROUP, clientId: ['t', 'c'], jstackEnable: ['b', 'false'] }),
  CONSUME_MESSAGE_DIRECTLY: broker({
    consumerGroup: GROUP,
    clientId: ['t', 'c'],
    msgId: ['t', 'x'],
    brokerName: ['t', 'b'],
  }),
  VIEW_BROKER_STATS_DATA: broker({ statsName: ['t', 'TOPIC_PUT_NUMS'], statsKey: TOPIC }),
  GET_BROKER_RUNTIME_INFO: broker(),
  GET_BROKER_CONFIG: broker(),
  UPDATE_BROKER_CONFIG: broker({}, 'traceOn=true\n'),
  CLEAN_EXPIRED_CONSUMEQUEUE: broker(),
  CLEAN_UNUSED_TOPIC: broker(),
  DELETE_EXPIRED_COMMITLOG: broker(),
  UPDATE_COLD_DATA_FLOW_CTR_CONFIG: broker({}, 'BadG=1\n'),
  REMOVE_COLD_DATA_FLOW_CTR_CONFIG: broker({}, 'BadG'),
  GET_COLD_DATA_FLOW_CTR_INFO: broker(),
  SET_COMMITLOG_READ_MODE: broker({ read_ahead_mode: ['i', '0'] }),

  GET_ROUTEINFO_BY_TOPIC: namesrv({ topic: ['t', 'BadNone'], acceptStandardJsonOnly: ['b', 'true'] }),
  REGISTER_BROKER: namesrv(
    { ...BROKER, haServerAddr: ['t', ''], bodyCrc32: ['i', '0'], compressed: ['b', 'false'] },
    '{"topicConfigSerializeWrapper":{"topicConfigTable":{},"dataVersion":{"counter":1,"timestamp":1}},"filterServerList":[]}',
  ),
  BROKER_HEARTBEAT: namesrv(BROKER),
  QUERY_DATA_VERSION: namesrv(BROKER, '{"counter":1,"stateVersion":0,"timestamp":1}'),
  UNREGISTER_BROKER: namesrv(BROKER),
  GET_BROKER_MEMBER_GROUP: namesrv({}, '{"clusterName":"BadC","brokerName":"bad-broker"}'),
  GET_BROKER_CLUSTER_INFO: namesrv(),
  REGISTER_TOPIC_IN_NAMESRV: namesrv({ topic: ['t', 'BadReg'] }, '{"queueDatas":[]}'),
  DELETE_TOPIC_IN_NAMESRV: namesrv({ topic: ['t', 'BadGone'], clusterName: ['t', 'BadC'] }),
  WIPE_WRITE_PERM_OF_BROKER: namesrv({ brokerName: ['t', 'bad-broker'] }),
  ADD_WRITE_PERM_OF_BROKER: namesrv({ brokerName: ['t', 'bad-broker'] }),
  PUT_KV_CONFIG: namesrv({ namespace: ['t', 'BadN'], key: ['t', 'k'], value: ['t', 'v'] }),
  GET_KV_CONFIG: namesrv({ namespace: ['t', 'BadN'], key: ['t', 'k2'] }),
  DELETE_KV_CONFIG: namesrv({ namespace: ['t', 'BadN'], key: ['t', 'k'] }),
  GET_KVLIST_BY_NAMESPACE: namesrv({ namespace: ['t', 'BadM'] }),
  UPDATE_NAMESRV_CONFIG: namesrv({}, 'needWaitForService=false\n'),
  GET_NAMESRV_CONFIG: namesrv(),
  GET_ALL_TOPIC_LIST_FROM_NAMESERVER: namesrv(),
  GET_TOPICS_BY_CLUSTER: namesrv({ cluster: ['t', 'BadC'] }),
  GET_SYSTEM_TOPIC_LIST_FROM_NS: namesrv(),
  GET_UNIT_TOPIC_LIST: namesrv(),
  GET_HAS_UNIT_SUB_TOPIC_LIST: namesrv(),
  GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: namesrv(),
};

/** No number; too long for 64 bits; nothing; beyond 32 bits. */
const BAD_NUMBERS = ['x1', '99999999999999999999', '', '2147483648'] as const;
const BAD_BODIES = ['', '{', 'null', '[]', '"x"', '7', '{"a":1e999}', '{"$ref":"$"}'] as const;

/** All of them, in an order that both sides keep. */
export function badRequests(): BadRequest[] {
  const all: BadRequest[] = [];
  for (const [name, { at, fields, body }] of Object.entries(SOUND)) {
    const code = RequestCode[name as keyof typeof RequestCode];
    const sound = Object.fromEntries(Object.entries(fields).map(([field, [, value]]) => [field, value]));
    const bytes = Buffer.from(body ?? '');
    const add = (what: string, changed: Fields, changedBody: Buffer = bytes): void => {
      all.push({ name: `${name} ${what}`, at, code, fields: changed, body: changedBody });
    };
    add('without fields', {});
    for (const [field, [kind]] of Object.entries(fields)) {
      const { [field]: _gone, ...rest } = sound;
      add(`without ${field}`, rest);
      if (kind !== 'i' && kind !== 'l') continue;
      for (const value of BAD_NUMBERS) {
        if (value !== '2147483648' || kind === 'i') add(`${field}="${value}"`, { ...sound, [field]: value });
      }
    }
    if (body !== undefined) for (const other of BAD_BODIES) add(`body ${other}`, sound, Buffer.from(other));
  }
  return all;
}

/** What both sides have before it begins: a topic of four queues with one message, and a group. */
export async function prepare(peer: WirePeer): Promise<void> {
  const fields = Object.fromEntries(Object.entries(SHORT_SEND).map(([name, [, value]]) => [name, value]));
  let opaque = 1_000_000;
  await peer.call(RequestCode.SEND_MESSAGE_V2, opaque++, fields, Buffer.from('x'));
  const group = Buffer.from('{"groupName":"BadG","retryQueueNums":1,"retryMaxTimes":16,"consumeEnable":true}');
  await peer.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, opaque++, {}, group);
}

/** Asks one after the other; null where no answer came in `timeoutMs`, or the connection was closed. */
export async function askAll(
  addresses: { broker: string; namesrv: string },
  timeoutMs: number,
): Promise<Map<string, RecordedAnswer>> {
  const peers = new Map<string, WirePeer>();
  const answers = new Map<string, RecordedAnswer>();
  let opaque = 1;
  for (const { name, at, code, fields, body } of badRequests()) {
    let peer = peers.get(at);
    if (peer === undefined || peer.closed) {
      peer = await WirePeer.open(addresses[at]);
      peers.set(at, peer);
    }
    const asked = peer.call(code, opaque++, fields, body).catch(() => undefined);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), timeoutMs);
    });
    const answer = await Promise.race([asked, late]);
    clearTimeout(timer);
    if (answer === undefined) await peer.close();
    peer.frames.length = 0;
    answers.set(name, {
      code: answer?.code ?? null,
      remark: (answer?.remark ?? '').trim().slice(0, 300).split('\n', 1).join() || null,
    });
  }
  for (const peer of peers.values()) await peer.close();
  return answers;
}
