// The broker itself: its settings, its state, the units of its queues. RocketMQ: AdminBrokerProcessor.

import { type Histogram, javaStringHash } from '../../common/index.ts';
import { PropertyName, type StoredMessage } from '../../message/index.ts';
import { type Request, RequestCode, ResponseCode, toJson, toJsonBytes } from '../../remoting/index.ts';
import { GetMessageStatus } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { asDouble } from '../broker-stats.ts';
import { forEachInTurns } from '../in-turns.ts';
import { messagesOf, selectLater } from '../store-reads.ts';
import { SCHEDULE_TOPIC } from '../topic/topic-names.ts';
import { answerLater, type HandlerRegistry } from './registry.ts';
import { lookUp } from './send-back.ts';
import { statsInfo } from './stats-admin.ts';

/** What a tool shows as the broker's version. */
const VERSION_DESCRIPTION = 'V5_5_0';
/** Units of a queue that one answer shows at most; RocketMQ has no bound. */
const MOST_UNITS = 1024;

export function registerBrokerAdmin(registry: HandlerRegistry, context: BrokerContext): void {
  registry.register(RequestCode.GET_BROKER_CONFIG, (request) => {
    const version = toJson(context.settings.dataVersion.fields());
    request.respond(ResponseCode.SUCCESS, null, { version }, Buffer.from(context.settings.text(), 'utf8'));
  });
  registry.register(RequestCode.UPDATE_BROKER_CONFIG, (request) => {
    const from = `request of ${request.channel.remoteAddress}`;
    const changed = context.settings.update(request.bodyCopy(), from, context.clock.now());
    if (changed.includes('brokerPermission')) context.topics.touchAll();
    request.respond(ResponseCode.SUCCESS);
  });
  registry.register(RequestCode.GET_BROKER_RUNTIME_INFO, (request) => getRuntimeInfo(context, request));
  registry.register(RequestCode.QUERY_CONSUME_QUEUE, (request) => queryConsumeQueue(context, request));
  registry.register(RequestCode.DELETE_EXPIRED_COMMITLOG, (request) => {
    context.store.retention.request();
    request.respond(ResponseCode.SUCCESS);
  });
  registry.register(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, (request) => {
    answerLater(request, async (responder) => {
      await context.store.retention.removeExpiredQueues((topic, queueId) => nobodySendsTo(context, topic, queueId));
      responder.respond(ResponseCode.SUCCESS);
    });
  });
  registry.register(RequestCode.CLEAN_UNUSED_TOPIC, (request) => {
    answerLater(request, async (responder) => {
      const unused = new Set<string>();
      const { clock, store, topics } = context;
      await forEachInTurns(clock, store.queues(), ({ topic }) => {
        if (!topics.has(topic) && !topics.systemTopics.isSystem(topic)) unused.add(topic);
      });
      // Those that have come meanwhile are used.
      for (const topic of unused) if (topics.has(topic)) unused.delete(topic);
      for (const topic of unused) {
        context.logger.warn(`topic ${topic} is not known any more: its queues are removed`);
      }
      await context.store.deleteTopics([...unused]);
      responder.respond(ResponseCode.SUCCESS);
    });
  });
}

/** Whether a queue is of no topic that is known, or beyond the queues that its topic has now. */
function nobodySendsTo({ topics }: BrokerContext, topic: string, queueId: number): boolean {
  if (topics.systemTopics.isSystem(topic)) return false;
  const config = topics.select(topic);
  // The ordinals of a compaction log must go on.
  if (config?.isCompacted) return false;
  return config === undefined || queueId >= Math.max(config.readQueueNums, config.writeQueueNums);
}

function getRuntimeInfo(context: BrokerContext, request: Request): void {
  const { store, config, fs } = context;
  answerLater(request, async (responder) => {
    const marks = store.watermarks;
    const first = await lookUp(context, marks.minimum);
    const used = fs.usedFraction(store.config.storePathRootDir);
    const table: Record<string, string | undefined> = {
      ...statsInfo(context),
      brokerActive: 'true',
      brokerVersionDesc: VERSION_DESCRIPTION,
      commitLogMinOffset: String(marks.minimum),
      commitLogMaxOffset: String(marks.wrote),
      dispatchBehindBytes: String(store.dispatchBehind.bytes),
      gantryDispatchBehindMs: String(store.dispatchBehind.ms),
      dispatchMaxBuffer: '0',
      earliestMessageTimeStamp: first === undefined ? undefined : String(first.storeTimestamp),
      getMessageEntireTimeMax: '0',
      pageCacheLockTimeMills: '0',
      // RocketMQ: only with the transient store pool.
      remainHowManyDataToCommit: store.hasPool ? byteCount(marks.wrote - marks.committed) : undefined,
      remainHowManyDataToFlush: byteCount(Math.max(0, marks.wrote - marks.flushed)),
      remainTransientStoreBufferNumbs: String(store.remainTransientStoreBufferNumbs),
      startAcceptSendRequestTimeStamp: String(config.startAcceptSendRequestTimeStamp),
      ...context.timer.runtime(),
    };
    const { counts } = store.retention;
    table['gantryRemovedCommitLogFiles'] = String(counts.files);
    table['gantryRemovedCommitLogFilesForced'] = String(counts.forcedFiles);
    for (const [name, count] of counts.lost)
      table[`gantryRemovedAndNeededBy_${name.replaceAll(' ', '_')}`] = String(count);
    for (const [group, count] of context.unread.byGroup) table[`gantryUnreadMessagesRemoved_${group}`] = String(count);
    const refusing = store.unwritableReason;
    if (refusing !== undefined) table['gantrySendsRefusedNow'] = refusing;
    for (const [cause, count] of store.refusals) table[`gantryRefusedSends_${cause}`] = String(count);
    if (context.stats.putTooLate > 0) table['gantryRefusedSends_waitedTooLong'] = String(context.stats.putTooLate);
    for (const stage of ['append', 'flush', 'dispatch', 'wake'] as const) {
      table[`gantryTime_${stage}`] = timesText(store.times[stage]);
    }
    if (used >= 0) {
      table['commitLogDiskRatio'] = asDouble(used);
      table['consumeQueueDiskRatio'] = asDouble(used);
    }
    // There are no thread pools, hence no queues in front of them.
    for (const pool of ['send', 'pull', 'litePull', 'query', 'ack']) {
      table[`${pool}ThreadPoolQueueSize`] = '0';
      table[`${pool}ThreadPoolQueueHeadWaitTimeMills`] = '0';
    }
    for (const { level, offset, max } of context.schedule.progress()) {
      table[`scheduleMessageOffset_${level}`] = `${offset},${max}`;
    }
    for (const { queueId, half, op, open } of context.transactions.progress()) {
      table[`gantryTransactions_${queueId}`] = `${open} open, half messages looked at to ${half}, ends read to ${op}`;
    }
    for (const [what, count] of Object.entries(context.transactions.counts)) {
      table[`gantryTransactions_${what}`] = String(count);
    }
    for (const { queueId, position, behind, behindMs } of context.revive.progress()) {
      table[`gantryRevive_${queueId}`] =
        `done to ${position}, ${behind} records to do, the oldest pop is over since ${behindMs} ms`;
    }
    for (const [what, count] of Object.entries(context.revive.counts)) table[`gantryRevive_${what}`] = String(count);
    table['gantryDelayedMessagesSetAside'] = String(context.schedule.setAside);
    responder.respond(ResponseCode.SUCCESS, null, null, toJsonBytes({ table }));
  });
}

/** How long one stage of a put takes, of batches. */
function timesText(times: Histogram): string {
  const [median, high] = [times.quantile(0.5), times.quantile(0.99)].map((ms) => ms.toFixed(3));
  return `${times.count} times, median ${median} ms, 99 % ${high} ms, longest ${times.maxMs.toFixed(3)} ms`;
}

/** RocketMQ: MixAll#humanReadableByteCount in steps of 1024. */
function byteCount(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const step = Math.min(6, Math.floor(Math.log2(bytes) / 10));
  return `${(bytes / 1024 ** step).toFixed(1)} ${'KMGTPE'[step - 1]}iB`;
}

function queryConsumeQueue(context: BrokerContext, request: Request): void {
  const { header } = request;
  const topic = header.required('topic');
  const queueId = header.intOr('queueId', 0);
  const index = header.longOr('index', 0);
  const count = Math.min(MOST_UNITS, header.intOr('count', 0));
  const group = header.get('consumerGroup');
  const { store } = context;
  const min = store.minOffsetInQueue(topic, queueId);
  const max = store.maxOffsetInQueue(topic, queueId);
  if (!store.hasQueue(topic, queueId)) {
    request.respond(ResponseCode.SYSTEM_ERROR, `${queueId}@${topic} is not exist!`);
    return;
  }
  const subscription = group === undefined ? undefined : context.consumers.subscription(group, topic)?.data;
  const offline = group === undefined ? undefined : `${group}@${topic} is not online!`;
  const body = {
    filterData: subscription === undefined ? offline : context.filters.describe(topic, group!),
    maxQueueIndex: max,
    minQueueIndex: min,
    queueData: [] as object[],
    subscriptionData: subscription,
  };
  answerLater(request, async (responder) => {
    let at = Math.max(index, min);
    while (at < Math.min(max, index + count)) {
      const result = await selectLater(store, topic, queueId, at, 32, 1024 * 1024);
      if (result.status !== GetMessageStatus.FOUND) break;
      for (const message of await messagesOf(store, result)) {
        if (message.queueOffset < index + count) body.queueData.push(unitOf(context, message));
      }
      at = result.nextBeginOffset;
    }
    responder.respond(ResponseCode.SUCCESS, 'not set any response code', null, toJsonBytes(body));
  });
}

/** The unit that a record has in its queue: place, size, and the hash of its tag or, in a schedule queue, the due time. */
function unitOf(context: BrokerContext, message: StoredMessage): object {
  const tag = message.properties.get(PropertyName.TAGS) ?? '';
  const tagsCode =
    message.topic === SCHEDULE_TOPIC
      ? message.storeTimestamp + context.schedule.delayOf(message.queueId + 1)
      : javaStringHash(tag);
  return { eval: false, physicOffset: message.physicalOffset, physicSize: message.storeSize, tagsCode };
}
