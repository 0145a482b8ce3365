// Answers what brokers, clients and tools ask a name server. (RocketMQ: DefaultRequestProcessor, ClientRequestProcessor.)
// Codes and remarks are Java's. Bodies are strict JSON with quoted keys, which every client reads; Java writes bare numeric
// keys to clients before V4_9_4 and in a few other answers.
//
// RocketMQ: a request that lacks a field which identifies a broker or topic is answered "success" in some places, since an
// exception is swallowed there and nothing happened. Here it is SYSTEM_ERROR and names the field.

import { type Clock, crc32, type Logger } from '../common/index.ts';
import {
  type Channel,
  type ExtFields,
  type Request,
  RequestCode,
  ResponseCode,
  refuseBody,
  toJsonBytes,
} from '../remoting/index.ts';
import type { MinBrokerChange } from './broker-group.ts';
import { type KvConfig, ORDER_TOPIC_CONFIG } from './kv-config.ts';
import type { NamesrvConfig, NamesrvSettings } from './namesrv-config.ts';
import { RegisterBodies, readDataVersion, readQueueDatas } from './register-body.ts';
import { sameDataVersion } from './route-data.ts';
import type { BrokerIdentity, ExpiredBroker, Registration, RouteInfo } from './route-info.ts';
import { filterByZone } from './zone-route.ts';

const FAQ_HINT = '\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.';
/** Bytes of a body that is parsed at once, and of the one that may hold a broker's whole table (20,000 topics are 3 MiB). */
const BODY_LIMIT = 1024 * 1024;
const REGISTER_BODY_LIMIT = 8 * BODY_LIMIT;
const ZONE_NAME = '__ZONE_NAME';
const ZONE_MODE = '__ZONE_MODE';

export interface ProcessorDeps {
  readonly routes: RouteInfo;
  readonly kvConfig: KvConfig;
  readonly settings: NamesrvSettings;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Sends NOTIFY_MIN_BROKER_ID_CHANGE to a broker, one-way; failures are its own affair. */
  readonly notifyBroker: (address: string, ext: ExtFields) => void;
}

export class NamesrvProcessor {
  readonly #deps: ProcessorDeps;
  readonly #routes: RouteInfo;
  readonly #config: NamesrvConfig;
  readonly #bodies = new RegisterBodies();
  /** Channels that brokers have registered over, by id. */
  readonly #channels = new Map<number, Channel>();
  readonly #startedAt: number;
  #stopping = false;

  constructor(deps: ProcessorDeps) {
    this.#deps = deps;
    this.#routes = deps.routes;
    this.#config = deps.settings.config;
    this.#startedAt = deps.clock.now();
  }

  /** Answers one request; a throw is for the server to answer. */
  handle(request: Request): void {
    if (refuseBody(request, request.code === RequestCode.REGISTER_BROKER ? REGISTER_BODY_LIMIT : BODY_LIMIT)) return;
    switch (request.code) {
      case RequestCode.GET_ROUTEINFO_BY_TOPIC:
        return this.#getRoute(request);
      case RequestCode.REGISTER_BROKER:
        return this.#registerBroker(request);
      case RequestCode.UNREGISTER_BROKER:
        return this.#unregisterBroker(request);
      case RequestCode.BROKER_HEARTBEAT:
        return this.#heartbeat(request);
      case RequestCode.QUERY_DATA_VERSION:
        return this.#queryDataVersion(request);
      case RequestCode.GET_BROKER_MEMBER_GROUP:
        return this.#memberGroup(request);
      case RequestCode.GET_BROKER_CLUSTER_INFO:
        return succeed(request, this.#routes.clusterInfo());
      case RequestCode.REGISTER_TOPIC_IN_NAMESRV:
        return this.#registerTopic(request);
      case RequestCode.DELETE_TOPIC_IN_NAMESRV:
        return this.#deleteTopic(request);
      case RequestCode.WIPE_WRITE_PERM_OF_BROKER:
      case RequestCode.ADD_WRITE_PERM_OF_BROKER:
        return this.#changeWritePerm(request);
      case RequestCode.PUT_KV_CONFIG:
      case RequestCode.GET_KV_CONFIG:
      case RequestCode.DELETE_KV_CONFIG:
      case RequestCode.GET_KVLIST_BY_NAMESPACE:
        return this.#kvConfig(request);
      case RequestCode.UPDATE_NAMESRV_CONFIG:
      case RequestCode.GET_NAMESRV_CONFIG:
        return this.#namesrvConfig(request);
      default:
        return this.#topicLists(request);
    }
  }

  /** Removes brokers that went silent, and closes their connections. */
  scanNotActiveBrokers(): void {
    for (const gone of this.#routes.scanNotActiveBrokers(this.#deps.clock.now())) {
      this.#brokerGone(gone, `nothing came from it for ${gone.timeoutMs} ms`);
      this.#channels.get(gone.channelId)?.close('the broker that registered over it went silent');
    }
  }

  /** From now on connections that end are no news of brokers. */
  stop(): void {
    this.#stopping = true;
  }

  #getRoute(request: Request): void {
    const waitUntil = this.#startedAt + this.#config.waitSecondsForService * 1000;
    if (this.#config.needWaitForService && this.#deps.clock.now() < waitUntil) {
      return request.respond(ResponseCode.SYSTEM_ERROR, 'name server not ready');
    }
    const { header } = request;
    const topic = header.get('topic');
    let route = topic === undefined ? undefined : this.#routes.pickupTopicRoute(topic);
    if (route === undefined) {
      const remark = `No topic route info in name server for the topic: ${topic ?? null}${FAQ_HINT}`;
      return request.respond(ResponseCode.TOPIC_NOT_EXIST, remark);
    }
    if (this.#config.orderMessageEnable) {
      const orderTopicConf = this.#deps.kvConfig.get(ORDER_TOPIC_CONFIG, topic);
      if (orderTopicConf !== undefined) route.orderTopicConf = orderTopicConf;
    }
    if (header.bool(ZONE_MODE, false)) {
      const zoneName = header.get(ZONE_NAME) ?? '';
      if (zoneName.trim() !== '') route = filterByZone(route, zoneName);
    }
    succeed(request, route);
  }

  #registerBroker(request: Request): void {
    const { header, channel } = request;
    const body = request.buffer.subarray(request.bodyStart, request.bodyEnd);
    const crc = header.intOr('bodyCrc32', 0);
    if (crc !== 0 && crc !== crc32(body)) {
      this.#deps.logger.warn(`registration from ${channel.remoteAddress} refused: crc32 not match`);
      return request.respond(ResponseCode.SYSTEM_ERROR, 'crc32 not match');
    }
    const who = identity(request);
    const compressed = header.bool('compressed', false);
    const registration: Registration = {
      ...who,
      haServerAddr: header.get('haServerAddr'),
      zoneName: header.get(ZONE_NAME),
      enableActingMaster:
        header.get('enableActingMaster') === undefined ? undefined : header.bool('enableActingMaster', false),
      heartbeatTimeoutMs:
        header.get('heartbeatTimeoutMillis') === undefined ? undefined : header.long('heartbeatTimeoutMillis'),
      tables: this.#bodies.read(channel.id, body, compressed, header.version),
      channelId: channel.id,
    };
    this.#watch(channel);
    const result = this.#routes.registerBroker(registration, this.#deps.clock.now());
    if (result.outcome === 'refused') {
      this.#deps.logger.warn(`${nameOf(who)} has not registered yet; its single topic is refused`);
      return request.respond(ResponseCode.SYSTEM_ERROR, 'register broker failed');
    }
    if (result.outcome === 'ignored') {
      this.#deps.logger.warn(`${nameOf(who)} is ignored: a broker with a newer state holds its id`);
    } else if (result.fresh) {
      this.#deps.logger.info(`${nameOf(who)} registered with ${registration.tables.topics.length} topics`);
    }
    if (result.minBrokerChange !== undefined) this.#notify(result.minBrokerChange);
    const { haServerAddr, masterAddr } = result;
    const orderTopics = this.#config.returnOrderTopicConfigToBroker
      ? this.#deps.kvConfig.namespace(ORDER_TOPIC_CONFIG)
      : undefined;
    succeed(request, orderTopics && { table: orderTopics }, { haServerAddr, masterAddr });
  }

  #unregisterBroker(request: Request): void {
    const who = identity(request);
    const change = this.#routes.unregisterBroker(who);
    this.#deps.logger.info(`${nameOf(who)} unregistered`);
    if (change !== undefined) this.#notify(change);
    succeed(request);
  }

  #heartbeat(request: Request): void {
    const { header } = request;
    this.#routes.touch(header.required('clusterName'), header.required('brokerAddr'), this.#deps.clock.now());
    succeed(request);
  }

  #queryDataVersion(request: Request): void {
    const { header } = request;
    const clusterName = header.required('clusterName');
    const brokerAddr = header.required('brokerAddr');
    const body = request.buffer.subarray(request.bodyStart, request.bodyEnd);
    const sent = body.length === 0 ? undefined : readDataVersion(body);
    const known = this.#routes.dataVersionOf(clusterName, brokerAddr);
    this.#routes.touch(clusterName, brokerAddr, this.#deps.clock.now());
    const changed = sent === undefined || known === undefined || !sameDataVersion(sent, known);
    succeed(request, known, { changed });
  }

  #memberGroup(request: Request): void {
    const { header } = request;
    const group = this.#routes.brokerMemberGroup(header.get('clusterName'), header.get('brokerName'));
    succeed(request, { brokerMemberGroup: group });
  }

  #registerTopic(request: Request): void {
    const body = request.buffer.subarray(request.bodyStart, request.bodyEnd);
    const topic = request.header.required('topic');
    if (body.length > 0) {
      const unknown = this.#routes.registerTopic(topic, readQueueDatas(body));
      if (unknown.length > 0) {
        this.#deps.logger.warn(`topic ${topic}: queues of unknown brokers left out: ${unknown.join(', ')}`);
      }
    }
    succeed(request);
  }

  #deleteTopic(request: Request): void {
    const clusterName = request.header.get('clusterName');
    const topic = request.header.required('topic');
    this.#routes.deleteTopic(topic, clusterName === '' ? undefined : clusterName);
    this.#deps.logger.info(`topic ${topic} deleted${clusterName ? ` from the cluster ${clusterName}` : ''}`);
    succeed(request);
  }

  #changeWritePerm(request: Request): void {
    const brokerName = request.header.get('brokerName') ?? '';
    const wipe = request.code === RequestCode.WIPE_WRITE_PERM_OF_BROKER;
    const count = wipe ? this.#routes.wipeWritePerm(brokerName) : this.#routes.addWritePerm(brokerName);
    const done = wipe ? 'wiped' : 'given';
    this.#deps.logger.info(`write permission of ${count} topics of broker ${brokerName} ${done}`);
    succeed(request, undefined, wipe ? { wipeTopicCount: count } : { addTopicCount: count });
  }

  #kvConfig(request: Request): void {
    const { kvConfig } = this.#deps;
    const namespace = request.header.get('namespace');
    const key = request.header.get('key');
    if (request.code === RequestCode.PUT_KV_CONFIG) {
      if (namespace === undefined || key === undefined) {
        return request.respond(ResponseCode.SYSTEM_ERROR, 'namespace or key is null');
      }
      kvConfig.put(namespace, key, request.header.get('value'));
      return succeed(request);
    }
    if (request.code === RequestCode.DELETE_KV_CONFIG) {
      kvConfig.delete(namespace, key);
      return succeed(request);
    }
    if (request.code === RequestCode.GET_KV_CONFIG) {
      const value = kvConfig.get(namespace, key);
      if (value !== undefined) return succeed(request, undefined, { value });
      const remark = `No config item, Namespace: ${namespace ?? null} Key: ${key ?? null}`;
      return request.respond(ResponseCode.QUERY_NOT_FOUND, remark);
    }
    const table = kvConfig.namespace(namespace);
    if (table !== undefined) return succeed(request, { table });
    request.respond(ResponseCode.QUERY_NOT_FOUND, `No config item, Namespace: ${namespace ?? null}`);
  }

  #namesrvConfig(request: Request): void {
    const { settings, logger } = this.#deps;
    if (request.code === RequestCode.GET_NAMESRV_CONFIG) {
      return request.respond(ResponseCode.SUCCESS, null, null, Buffer.from(settings.list(), 'utf8'));
    }
    const text = Buffer.from(request.bodyCopy()).toString('utf8');
    if (text !== '') {
      const refusal = settings.update(text);
      if (refusal !== undefined) return request.respond(refusal.code, refusal.remark);
      logger.info(`settings changed by ${request.channel.remoteAddress}: ${text.trim().replaceAll('\n', ', ')}`);
    }
    succeed(request);
  }

  #topicLists(request: Request): void {
    const { enableTopicList, enableAllTopicList } = this.#config;
    switch (request.code) {
      case RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
        return enableAllTopicList ? succeed(request, this.#routes.allTopics()) : disabled(request);
      case RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS:
        return succeed(request, this.#routes.systemTopics());
      case RequestCode.GET_TOPICS_BY_CLUSTER: {
        if (!enableTopicList) return disabled(request);
        return succeed(request, this.#routes.topicsByCluster(request.header.get('cluster') ?? ''));
      }
      case RequestCode.GET_UNIT_TOPIC_LIST:
        return enableTopicList ? succeed(request, this.#routes.unitTopics('unit')) : disabled(request);
      case RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST:
        return enableTopicList ? succeed(request, this.#routes.unitTopics('unitSub')) : disabled(request);
      case RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST:
        return enableTopicList ? succeed(request, this.#routes.unitTopics('unitSubOnly')) : disabled(request);
      default: {
        const remark = ` request type ${request.code} not supported`;
        return request.respond(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark);
      }
    }
  }

  #watch(channel: Channel): void {
    if (this.#channels.has(channel.id)) return;
    this.#channels.set(channel.id, channel);
    channel.onClose(() => {
      this.#channels.delete(channel.id);
      this.#bodies.forget(channel.id);
      if (this.#stopping) return;
      for (const gone of this.#routes.channelClosed(channel.id)) this.#brokerGone(gone, 'its connection ended');
    });
  }

  #brokerGone(gone: ExpiredBroker, reason: string): void {
    this.#deps.logger.warn(`broker ${gone.brokerAddr} of the cluster ${gone.clusterName} removed: ${reason}`);
    if (gone.minBrokerChange !== undefined) this.#notify(gone.minBrokerChange);
  }

  #notify(change: MinBrokerChange): void {
    if (!this.#config.notifyMinBrokerIdChanged) return;
    const { notify, ...ext } = change;
    for (const address of notify) this.#deps.notifyBroker(address, ext);
  }
}

function identity(request: Request): BrokerIdentity {
  const { header } = request;
  return {
    clusterName: header.required('clusterName'),
    brokerName: header.required('brokerName'),
    brokerAddr: header.required('brokerAddr'),
    brokerId: header.long('brokerId'),
  };
}

function nameOf(who: BrokerIdentity): string {
  return `broker ${who.brokerName} (${who.brokerAddr}, id ${who.brokerId}, cluster ${who.clusterName})`;
}

function succeed(request: Request, body?: object, ext?: ExtFields): void {
  request.respond(ResponseCode.SUCCESS, null, ext ?? null, body === undefined ? null : toJsonBytes(body));
}

function disabled(request: Request): void {
  request.respond(ResponseCode.SYSTEM_ERROR, 'disable');
}
