// A name server and brokers of one process, as small as the client's tests need them: routes, heartbeats, members, offsets, sends and
// long-polled pulls over real sockets. Every request is noted, and a test can answer any of them itself.

import { CollectingLogger, FakeClock, systemClock, viewOf } from '../common/index.ts';
import {
  hostField,
  parseProperties,
  propertiesBytes,
  RecordSource,
  recordBytes,
  sysFlagWithHosts,
  writeRecord,
} from '../message/index.ts';
import {
  type ExtFields,
  parseJson,
  type RemotingResponse,
  RemotingServer,
  type Request,
  RequestCode,
  type Responder,
  ResponseCode,
  toJsonBytes,
} from '../remoting/index.ts';
import type { ClientOptions } from './client-options.ts';
import { FakePops } from './fake-pop.test.support.ts';

/** What a test may want to know of a request. */
export interface Noted {
  code: number;
  ext: Record<string, string>;
  body: Buffer;
}

/** An answer in a test's own words. */
export interface OwnAnswer {
  code: number;
  remark?: string;
  ext?: ExtFields;
  body?: Uint8Array;
}

/** What a test makes of a request; undefined: the fake's usual answer. */
export type Answer = (request: Noted) => OwnAnswer | 'silence' | undefined;

interface Waiting {
  responder: Responder;
  queue: string;
  offset: number;
}

/** A record as a broker stores it. */
export function record(
  topic: string,
  queueId: number,
  queueOffset: number,
  body: string,
  fields: { tags?: string; properties?: Record<string, string>; reconsumeTimes?: number; physicalOffset?: number } = {},
): Uint8Array {
  const source = new RecordSource();
  source.topic = topic;
  source.topicBytes = Buffer.from(topic);
  source.queueId = queueId;
  source.bornHost = hostField('127.0.0.1', 1);
  source.storeHost = hostField('127.0.0.1', 2);
  source.reconsumeTimes = fields.reconsumeTimes ?? 0;
  source.body = Buffer.from(body);
  source.bodyEnd = source.body.length;
  const properties = { UNIQ_KEY: `ID-${topic}-${queueId}-${queueOffset}`, ...fields.properties };
  const all = fields.tags === undefined ? properties : { ...properties, TAGS: fields.tags };
  source.properties = Buffer.from(
    Object.entries(all)
      .map(([name, value]) => `${name}\u0001${value}\u0002`)
      .join(''),
  );
  source.propertiesEnd = source.properties.length;
  const block = propertiesBytes(source, false, true);
  const size = recordBytes(source, 1, block);
  const bytes = new Uint8Array(size);
  const physical = fields.physicalOffset ?? 1000 * queueOffset;
  writeRecord(
    bytes,
    viewOf(bytes),
    0,
    source,
    sysFlagWithHosts(source),
    1,
    size,
    block,
    false,
    queueOffset,
    physical,
    0,
  );
  return bytes;
}

/** One broker of the fake cluster. */
export class FakeBroker {
  readonly name: string;
  readonly requests: Noted[] = [];
  /** `topic@queueId` to its records; the index is the offset. */
  readonly queues: Map<string, Uint8Array[]> = new Map();
  /** `group@topic@queueId` to the committed offset. */
  readonly offsets: Map<string, number> = new Map();
  /** Client ids by group. */
  readonly members: Map<string, Set<string>> = new Map();
  /** `group@topic@queueId` to the client that holds the lock. */
  readonly locks: Map<string, string> = new Map();
  readonly pops: FakePops;
  answer: Answer = () => undefined;
  address = '';
  readonly #server: RemotingServer;
  #waiting: Waiting[] = [];

  constructor(name: string) {
    this.name = name;
    this.pops = new FakePops(name, (topic) => this.#recordsOf(topic));
    this.#server = new RemotingServer({ clock: systemClock, logger: new CollectingLogger() });
    this.#server.setDefault((request) => this.#handle(request));
  }

  async open(port = 0): Promise<void> {
    this.address = `127.0.0.1:${await this.#server.listen('127.0.0.1', port)}`;
  }

  async close(): Promise<void> {
    for (const channel of this.#server.channels) channel.close('test');
    await this.#server.close();
  }

  /** Breaks all connections; new ones are accepted. */
  dropConnections(): void {
    for (const channel of this.#server.channels) channel.close('test');
    this.#waiting = [];
    this.pops.drop();
  }

  /** Requests with this code, oldest first. */
  of(code: number): Noted[] {
    return this.requests.filter((request) => request.code === code);
  }

  /** Appends a message; answers its offset. */
  append(topic: string, queueId: number, body: string, fields: Parameters<typeof record>[4] = {}): number {
    const key = `${topic}@${queueId}`;
    const list = this.queues.get(key) ?? [];
    this.queues.set(key, list);
    list.push(record(topic, queueId, list.length, body, fields));
    const woken = this.#waiting.filter((waiting) => waiting.queue === key);
    this.#waiting = this.#waiting.filter((waiting) => waiting.queue !== key);
    for (const { responder, offset } of woken) this.#respondPull(responder, key, offset);
    this.pops.wake();
    return list.length - 1;
  }

  /** Answers the pull of a queue that has waited longest as a broker does that keeps a reset offset for the group. */
  resetByPull(topic: string, queueId: number, offset: number): void {
    const queue = `${topic}@${queueId}`;
    const waiting = this.#waiting.find((some) => some.queue === queue)!;
    this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
    const maxOffset = this.queues.get(queue)?.length ?? 0;
    const ext = { nextBeginOffset: offset, minOffset: 0, maxOffset, suggestWhichBrokerId: 0 };
    waiting.responder.respond(ResponseCode.PULL_OFFSET_MOVED, 'OFFSET_RESET', ext);
  }

  /** Sends a request to every connected client and gathers the answers. */
  ask(code: number, ext: ExtFields, body: Uint8Array | null = null): Promise<RemotingResponse[]> {
    const calls = [...this.#server.channels].map((channel) => channel.invoke(code, ext, body, 5000));
    return Promise.all(calls);
  }

  /** The same one-way. */
  tell(code: number, ext: ExtFields, body: Uint8Array | null = null): void {
    for (const channel of this.#server.channels) channel.sendOneway(code, ext, body);
  }

  #handle(request: Request): void {
    const noted = { code: request.code, ext: request.header.toObject(), body: Buffer.from(request.bodyCopy()) };
    this.requests.push(noted);
    const own = this.answer(noted);
    if (own === 'silence') {
      request.defer();
      return;
    }
    if (own !== undefined) return request.respond(own.code, own.remark ?? null, own.ext ?? null, own.body ?? null);
    const { ext } = noted;
    const key = `${ext['topic']}@${ext['queueId']}`;
    const offsetKey = `${ext['consumerGroup']}@${key}`;
    switch (request.code) {
      case RequestCode.HEART_BEAT:
        this.#heartbeat(noted.body);
        return request.respond(ResponseCode.SUCCESS);
      case RequestCode.UNREGISTER_CLIENT:
        this.members.get(ext['consumerGroup'] ?? '')?.delete(ext['clientID']!);
        return request.respond(ResponseCode.SUCCESS);
      case RequestCode.GET_CONSUMER_LIST_BY_GROUP: {
        const consumerIdList = [...(this.members.get(ext['consumerGroup']!) ?? [])];
        return request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes({ consumerIdList }));
      }
      case RequestCode.QUERY_CONSUMER_OFFSET: {
        const offset = this.offsets.get(offsetKey);
        if (offset === undefined) return request.respond(ResponseCode.QUERY_NOT_FOUND, 'not found');
        return request.respond(ResponseCode.SUCCESS, null, { offset });
      }
      case RequestCode.UPDATE_CONSUMER_OFFSET:
        this.offsets.set(offsetKey, Number(ext['commitOffset']));
        return request.respond(ResponseCode.SUCCESS);
      case RequestCode.GET_MAX_OFFSET:
        return request.respond(ResponseCode.SUCCESS, null, { offset: this.queues.get(key)?.length ?? 0 });
      case RequestCode.PULL_MESSAGE:
        if (Number(ext['sysFlag']) & 1) this.offsets.set(offsetKey, Number(ext['commitOffset']));
        return this.#pull(request, key, Number(ext['queueOffset']));
      case RequestCode.SEND_MESSAGE_V2:
      case RequestCode.SEND_BATCH_MESSAGE:
        return this.#send(request, noted);
      case RequestCode.LOCK_BATCH_MQ:
      case RequestCode.UNLOCK_BATCH_MQ:
        return request.respond(ResponseCode.SUCCESS, null, null, this.#lock(noted));
      case RequestCode.POP_MESSAGE:
        return this.pops.pop(request, ext);
      case RequestCode.ACK_MESSAGE:
        return request.respond(this.pops.ack(noted));
      case RequestCode.BATCH_ACK_MESSAGE:
        this.pops.ackAll(noted);
        return request.respond(ResponseCode.SUCCESS);
      case RequestCode.CHANGE_MESSAGE_INVISIBLETIME:
        return request.respond(ResponseCode.SUCCESS, null, this.pops.change(noted));
      case RequestCode.CONSUMER_SEND_MSG_BACK:
        return request.respond(ResponseCode.SUCCESS);
      default:
        return request.respond(ResponseCode.REQUEST_CODE_NOT_SUPPORTED);
    }
  }

  /** The queues of a topic that hold something, by id. */
  #recordsOf(topic: string): Map<number, readonly Uint8Array[]> {
    const found = new Map<number, readonly Uint8Array[]>();
    for (const [key, records] of this.queues) {
      const at = key.lastIndexOf('@');
      if (key.slice(0, at) === topic) found.set(Number(key.slice(at + 1)), records);
    }
    return found;
  }

  #lock({ code, body }: Noted): Uint8Array {
    const { clientId, consumerGroup, mqSet } = JSON.parse(body.toString()) as {
      clientId: string;
      consumerGroup: string;
      mqSet: Array<{ topic: string; brokerName: string; queueId: number }>;
    };
    const lockOKMQSet = mqSet.filter(({ topic, queueId }) => {
      const key = `${consumerGroup}@${topic}@${queueId}`;
      const holder = this.locks.get(key) ?? clientId;
      if (holder !== clientId) return false;
      if (code === RequestCode.LOCK_BATCH_MQ) this.locks.set(key, clientId);
      else this.locks.delete(key);
      return true;
    });
    return toJsonBytes({ lockOKMQSet });
  }

  #heartbeat(body: Uint8Array): void {
    const data = parseJson(body) as { clientID: string; consumerDataSet: Array<{ groupName: string }> };
    for (const { groupName } of data.consumerDataSet) {
      const ids = this.members.get(groupName) ?? new Set();
      this.members.set(groupName, ids.add(data.clientID));
    }
  }

  #pull(request: Request, queue: string, offset: number): void {
    const records = this.queues.get(queue) ?? [];
    if (offset > records.length) {
      const ext = { nextBeginOffset: records.length, minOffset: 0, maxOffset: records.length, suggestWhichBrokerId: 0 };
      return request.respond(ResponseCode.PULL_OFFSET_MOVED, null, ext);
    }
    if (offset === records.length) this.#waiting.push({ responder: request.defer(), queue, offset });
    else this.#respondPull(request, queue, offset);
  }

  #respondPull(responder: Responder, queue: string, offset: number): void {
    const records = this.queues.get(queue) ?? [];
    const some = records.slice(offset, offset + 32);
    const ext = {
      nextBeginOffset: offset + some.length,
      minOffset: 0,
      maxOffset: records.length,
      suggestWhichBrokerId: 0,
    };
    responder.respond(ResponseCode.SUCCESS, 'FOUND', ext, Buffer.concat(some));
  }

  #send(request: Request, { ext, body }: Noted): void {
    const queueId = Number(ext['e']);
    const properties = Object.fromEntries(parseProperties(ext['i'] ?? ''));
    const queueOffset = this.append(ext['b']!, queueId, body.toString('utf8'), { properties });
    request.respond(ResponseCode.SUCCESS, null, { msgId: 'OFFSET-ID', queueId, queueOffset });
  }
}

/** A name server with brokers, and the options of a client for them. */
export class FakeCluster {
  readonly brokers: FakeBroker[];
  /** Topic to queues per broker. */
  readonly topics: Map<string, number> = new Map();
  readonly routeRequests: string[] = [];
  readonly logger: CollectingLogger = new CollectingLogger();
  readonly clock: FakeClock = new FakeClock();
  #namesrv: RemotingServer | undefined;
  #namesrvAddr = '';

  private constructor(brokers: FakeBroker[]) {
    this.brokers = brokers;
  }

  /** Starts a cluster with brokers of these names. */
  static async open(topics: Record<string, number>, ...names: string[]): Promise<FakeCluster> {
    const cluster = new FakeCluster((names.length === 0 ? ['a'] : names).map((name) => new FakeBroker(name)));
    for (const [topic, queues] of Object.entries(topics)) cluster.topics.set(topic, queues);
    await Promise.all(cluster.brokers.map((broker) => broker.open()));
    const server = new RemotingServer({ clock: systemClock, logger: new CollectingLogger() });
    server.register(RequestCode.GET_ROUTEINFO_BY_TOPIC, (request) => cluster.#route(request));
    cluster.#namesrv = server;
    cluster.#namesrvAddr = `127.0.0.1:${await server.listen('127.0.0.1', 0)}`;
    return cluster;
  }

  get broker(): FakeBroker {
    return this.brokers[0]!;
  }

  options(instanceName = 'test'): ClientOptions {
    const { logger, clock } = this;
    return { namesrvAddr: this.#namesrvAddr, clientIp: '127.0.0.1', instanceName, logger, clock };
  }

  /** Waits for a condition, turn of the loop by turn. With `stepMs` the client's clock moves that far each turn. */
  async until(what: string, condition: () => boolean, stepMs = 0): Promise<void> {
    const giveUp = systemClock.monotonic() + 10_000;
    while (!condition()) {
      if (systemClock.monotonic() > giveUp)
        throw new Error(`waited in vain: ${what}; ${this.logger.texts().join(' | ')}`);
      if (stepMs > 0) this.clock.advance(stepMs);
      await new Promise(setImmediate);
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.brokers.map((broker) => broker.close()), this.#namesrv?.close()]);
  }

  #route(request: Request): void {
    const topic = request.header.required('topic');
    this.routeRequests.push(topic);
    const queues = this.topics.get(topic);
    if (queues === undefined) return request.respond(ResponseCode.TOPIC_NOT_EXIST, `no route of ${topic}`);
    const route = {
      brokerDatas: this.brokers.map(({ name, address }) => ({
        cluster: 'C',
        brokerName: name,
        brokerAddrs: { '0': address },
      })),
      queueDatas: this.brokers.map(({ name }) => ({
        brokerName: name,
        perm: 6,
        readQueueNums: queues,
        writeQueueNums: queues,
        topicSysFlag: 0,
      })),
      filterServerTable: {},
    };
    request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes(route));
  }
}
