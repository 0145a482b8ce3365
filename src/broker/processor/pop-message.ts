// POP_MESSAGE (200050): a group takes what it has not taken yet, and must acknowledge it in time. RocketMQ: PopMessageProcessor.
//
//   checks ─► stages: [retry topic] queues [retry topic] ─► a visit a queue (pop/queue-visit.ts) ─► answer, when its check points are safe
//                                                              └ nothing anywhere, and the client may wait ─► held (pop/pop-parts.ts)
//
// One object a pop and a visit, none a message.

import { POP_ORDER_REVIVE_QUEUE, popRetryTopic, popRetryTopicV1 } from '../../message/index.ts';
import { type ExtFields, FrameWriter, type Request, RequestCode, ResponseCode } from '../../remoting/index.ts';
import { GetResult, PutMessageStatus } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { Pop, type PopRunner, type PopStage } from '../pop/pop.ts';
import { PopFilters } from '../pop/pop-filters.ts';
import { Polling } from '../pop/pop-parts.ts';
import { QueueVisit, type VisitParts } from '../pop/queue-visit.ts';
import { RetryRecords } from '../pop/retry-records.ts';
import type { SubscriptionGroupConfig } from '../subscription/subscription-group-config.ts';
import type { TopicConfig } from '../topic/topic-config.ts';
import { PopChecks } from './pop-checks.ts';
import type { HandlerRegistry } from './registry.ts';

const SPARE_RESULTS = 32;
/** Buffers for found records that are kept for the next pops, and the longest of them. */
const SPARE_BODIES = 8;
const LONGEST_SPARE = 1024 * 1024;
const HUNDRED = 100;
/** What becomes of a pop that found nothing, by Polling. */
const WAITS = ['it waits', 'too many wait', 'its time is over', 'it does not wait'] as const;
/** How often a pop that had to wait for the disk and found nothing looks again before it waits for a message. */
const MOST_EMPTY_RUNS = 3;
/** More than the header of an answer takes, but for its texts. */
const HEADER_ROOM = 1024;

/** RocketMQ: the fields of PopMessageResponseHeader that are no objects are there even in a refusal. */
const NO_FIELDS: ExtFields = { popTime: 0, invisibleTime: 0, reviveQid: 0, restNum: 0 };

export class PopMessageProcessor implements PopRunner, VisitParts {
  readonly context: BrokerContext;
  readonly retries: RetryRecords = new RetryRecords();
  readonly #checks: PopChecks;
  readonly #filters: PopFilters;
  readonly #results: GetResult[] = [];
  readonly #bodies: Buffer[] = [];
  /** RocketMQ: ckMessageNumber. */
  #pops = 0;

  constructor(context: BrokerContext) {
    this.context = context;
    this.#checks = new PopChecks(context);
    this.#filters = new PopFilters(context.clock);
  }

  register(registry: HandlerRegistry): void {
    registry.register(RequestCode.POP_MESSAGE, (request) => this.#handle(request));
  }

  #handle(request: Request): void {
    const { header } = request;
    const group = header.required('consumerGroup');
    const topic = header.required('topic');
    const filter = this.#filters.of(topic, header.get('exp'), header.get('expType'), request.channel);
    const pop = new Pop(this, request.channel, request.opaque, request.oneway, {
      group,
      topic,
      // RocketMQ: the numbers are 0 in a request without them.
      queueId: Math.max(-1, header.intOr('queueId', 0)),
      maxMessages: header.intOr('maxMsgNums', 0),
      invisibleTimeMs: header.longOr('invisibleTime', 0),
      pollTimeMs: header.longOr('pollTime', 0),
      bornTime: header.longOr('bornTime', 0) || this.context.clock.now(),
      initMode: header.intOr('initMode', 0),
      isOrder: header.bool('order', false),
      attemptId: header.get('attemptId'),
      filter: filter ?? NOTHING,
    });
    if (this.context.config.enablePopLog)
      this.#log(pop, `of ${pop.channel.remoteAddress} for ${pop.maxMessages} messages`);
    const refusal = this.#checks.refusalOf(pop);
    if (refusal !== undefined) {
      request.respond(refusal.code, refusal.remark, NO_FIELDS);
      return;
    }
    if (filter === undefined) {
      request.respond(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed", NO_FIELDS);
      return;
    }
    request.takeOver();
    this.#begin(pop);
  }

  /** Goes on with a pop that waited. What has been forbidden meanwhile is forbidden for it, too. */
  resume(pop: Pop): void {
    if (!pop.isWanted) {
      pop.forget();
      return;
    }
    if (this.context.config.enablePopLog) this.#log(pop, 'looks again');
    const refusal = this.#checks.refusalOf(pop);
    if (refusal !== undefined) this.#refuse(pop, refusal.code, refusal.remark);
    else this.#begin(pop);
  }

  /** Of a pop that `#checks` let through. */
  #begin(pop: Pop): void {
    const { clock, config, random } = this.context;
    const { isOrder } = pop.wants;
    const { group, topic } = this.#checks;
    const chance = random.int(HUNDRED);
    const byPriority =
      topic.attributes.get('message.type') === 'PRIORITY' && !isOrder && chance < priorityFactor(group);
    const reviveQueueId = isOrder ? POP_ORDER_REVIVE_QUEUE : this.#pops++ % config.reviveQueueNum;
    if (pop.body.length === 0) pop.body = this.#bodies.pop() ?? pop.body;
    // RocketMQ: queues are priorities then, and the highest one always comes first.
    const turn = byPriority ? 0 : chance;
    const retryChance = byPriority ? config.popFromRetryProbabilityForPriority : config.popFromRetryProbability;
    pop.begin(clock.now(), reviveQueueId, turn, this.#stages(pop, topic, chance, chance < retryChance));
    this.goOn(pop);
  }

  /** RocketMQ: one kind of retry topic a pop. Here the other one is looked into, too, when nothing else is found. */
  #stages(pop: Pop, { topicName, readQueueNums }: TopicConfig, chance: number, retryFirst: boolean): PopStage[] {
    const { config, topics } = this.context;
    const { group, isOrder, queueId } = pop.wants;
    const own: PopStage = { topic: topicName, isRetry: false, queues: readQueueNums, only: queueId };
    if (isOrder) return [own];
    const { enableRetryTopicV2, retrieveMessageFromPopRetryTopicV1 } = config;
    const isV1 = enableRetryTopicV2 && retrieveMessageFromPopRetryTopicV1 && chance % 2 === 0;
    const name = isV1 ? popRetryTopicV1(topicName, group) : popRetryTopic(topicName, group, enableRetryTopicV2);
    const retryStage = (topic: string, isLast: boolean): PopStage[] => {
      const queues = topics.select(topic)?.readQueueNums ?? 0;
      return queues === 0 ? [] : [{ topic, isRetry: true, queues, only: -1, isLast }];
    };
    const retry = retryStage(name, false);
    const stages = retryFirst ? [...retry, own] : [own, ...retry];
    if (!enableRetryTopicV2 || !retrieveMessageFromPopRetryTopicV1) return stages;
    // RocketMQ: a pop that is woken by a message of the other kind does not see it.
    const other = isV1 ? popRetryTopic(topicName, group, true) : popRetryTopicV1(topicName, group);
    return [...stages, ...retryStage(other, true)];
  }

  /** Visits what is left of the queues. */
  goOn(pop: Pop): void {
    const { stages } = pop;
    while (pop.stage < stages.length) {
      const stage = stages[pop.stage]!;
      const visits = stage.only >= 0 ? 1 : stage.queues;
      // RocketMQ: retries that come last are not even looked at once there is enough.
      const isEnough = stage.isLast === true ? pop.count > 0 : pop.isFull;
      if (pop.visit >= visits || (stage.isRetry && pop.stage > 0 && pop.visit === 0 && isEnough)) {
        pop.stage++;
        pop.visit = 0;
        continue;
      }
      if (!this.#visit(pop, stage, this.#queueOf(pop, stage))) {
        pop.hasWaited = true;
        return;
      }
    }
    this.#end(pop);
  }

  /** RocketMQ: the highest queue first, from somewhere on. */
  #queueOf(pop: Pop, { only, queues }: PopStage): number {
    const visit = pop.visit++;
    if (only >= 0) return only;
    return ((this.context.config.priorityOrderAsc ? queues - 1 - visit : visit) + pop.turn) % queues;
  }

  #visit(pop: Pop, stage: PopStage, queueId: number): boolean {
    const { config, pop: pops, store } = this.context;
    const { topic } = stage;
    const queue = pops.queues.of(topic, pop.group, queueId);
    const at = Math.max(queue.latest, queue.committed);
    if (at >= 0 && !pop.wants.isOrder && !queue.hasReset) {
      // Most queues that a pop comes to have nothing, or it has enough.
      const left = store.maxOffsetInQueue(topic, queueId) - at;
      if (left === 0 || (left > 0 && pop.isFull)) {
        pop.rest += left;
        return true;
      }
    }
    if (!queue.tryLock()) {
      if (pop.wants.isOrder) {
        // RocketMQ: goes on without it. One that comes again since its answer was lost would wait for what it has been given already.
        pop.visit--;
        queue.whenFree(() => this.goOn(pop));
        return false;
      }
      pop.rest += this.#behind(topic, queueId, queue.latest, queue.committed);
      queue.whenFree(() => this.#isFree(pop));
      return true;
    }
    const isTooMuch = config.enablePopMessageThreshold && queue.inFlight > config.popInflightMessageThreshold;
    if (isTooMuch && !queue.hasReset) {
      queue.unlock();
      pop.rest += this.#behind(topic, queueId, queue.latest, queue.committed);
      return true;
    }
    return new QueueVisit(this, pop, stage, queue).run();
  }

  /** A queue is free that a pop found locked: it is looked into, by this pop or by another that waits as it does. */
  #isFree(pop: Pop): void {
    pop.hasWaited = true;
    this.context.pop.waiting.notify(pop.topic, pop.group, pop.queueId);
  }

  #behind(topic: string, queueId: number, latest: number, committed: number): number {
    const { store } = this.context;
    const offset = Math.max(latest, committed);
    return store.maxOffsetInQueue(topic, queueId) - (offset < 0 ? store.minOffsetInQueue(topic, queueId) : offset);
  }

  takeResult(): GetResult {
    return this.#results.pop() ?? new GetResult();
  }

  giveResult(result: GetResult): void {
    if (this.#results.length < SPARE_RESULTS) this.#results.push(result);
  }

  // --- Answers

  #end(pop: Pop): void {
    const { pop: pops, stats } = this.context;
    if (pop.count > 0) {
      stats.getFound++;
      if (pop.rest > 0) pops.waiting.notify(pop.topic, pop.group, pop.queueId);
      this.#found(pop);
      return;
    }
    stats.getMissed++;
    if (pop.refused !== undefined) {
      // RocketMQ: hands the messages out without a check point, so that nothing brings them back.
      this.#refuse(pop, ResponseCode.SYSTEM_ERROR, `the check point of this pop cannot be stored: ${pop.refused}`);
      return;
    }
    if (!pop.isWanted) {
      this.#giveBody(pop);
      pop.forget();
      // What was there for it is for the next.
      if (pop.rest > 0) pops.waiting.notify(pop.topic, pop.group, pop.queueId);
      return;
    }
    if (pop.hasWaited && ++pop.emptyRuns < MOST_EMPTY_RUNS) {
      this.resume(pop);
      return;
    }
    pop.emptyRuns = 0;
    const polling = pop.wants.maxMessages > 0 ? pops.waiting.polling(pop, pop.pollTimeMs) : Polling.NOT_POLLING;
    if (this.context.config.enablePopLog) this.#log(pop, WAITS[polling]);
    if (polling === Polling.HELD) {
      this.#giveBody(pop);
      // RocketMQ: looks again for anything that is left, so without end while a queue is locked or has too much in flight.
      if (pop.hasMore) pops.waiting.notify(pop.topic, pop.group, pop.queueId);
      return;
    }
    const code = polling === Polling.FULL ? ResponseCode.POLLING_FULL : ResponseCode.POLLING_TIMEOUT;
    const writer = new FrameWriter();
    this.#header(writer, code, pop, 'NO_MESSAGE_IN_QUEUE');
    writer.endFrame();
    this.#giveBody(pop);
    pop.send(writer.take().bytes);
  }

  #found(pop: Pop): void {
    const writer = new FrameWriter(pop.channel.slabs);
    writer.ensure(HEADER_ROOM + pop.offsets.length + pop.starts.length + pop.bodyBytes);
    this.#header(writer, ResponseCode.SUCCESS, pop, 'FOUND');
    writer.body(pop.body, 0, pop.bodyBytes);
    writer.endFrame();
    this.#giveBody(pop);
    const { bytes, slab } = writer.take();
    if (pop.logEnd === 0) {
      pop.send(bytes, slab);
      return;
    }
    this.context.store.park(pop.logEnd, true, {
      settle: (status, reason) => {
        if (status === PutMessageStatus.PUT_OK) pop.send(bytes, slab);
        else this.#refuse(pop, ResponseCode.SYSTEM_ERROR, `the check point of this pop cannot be stored: ${reason}`);
      },
    });
  }

  #log({ group, queueId, topic }: Pop, what: string): void {
    this.context.logger.info(`pop of ${group} from ${topic} queue ${queueId}: ${what}`);
  }

  #header(writer: FrameWriter, code: number, pop: Pop, remark: string): void {
    writer.begin(code, pop.opaque);
    writer.numberField('popTime', pop.popTime);
    writer.numberField('invisibleTime', pop.wants.invisibleTimeMs);
    writer.numberField('reviveQid', pop.reviveQueueId);
    writer.numberField('restNum', pop.rest);
    writer.field('startOffsetInfo', pop.starts);
    writer.field('msgOffsetInfo', pop.offsets);
    if (pop.wants.isOrder) writer.field('orderCountInfo', pop.orderCounts);
    writer.endHeader(remark);
  }

  #refuse(pop: Pop, code: number, remark: string): void {
    this.#giveBody(pop);
    const writer = new FrameWriter();
    writer.response(code, pop.opaque, remark, NO_FIELDS);
    pop.send(writer.take().bytes);
  }

  #giveBody(pop: Pop): void {
    const { body } = pop;
    pop.body = NO_BODY;
    if (body.length > 0 && body.length <= LONGEST_SPARE && this.#bodies.length < SPARE_BODIES) this.#bodies.push(body);
  }
}

/** Percent of pops of a topic with priorities that go by them. RocketMQ: SubscriptionGroupConfig#getPriorityFactor. */
function priorityFactor({ attributes }: SubscriptionGroupConfig): number {
  return Number(attributes.get('priority.factor') ?? HUNDRED);
}

const NO_BODY = Buffer.alloc(0);
const NOTHING = { all: false, codes: new Set<number>() };
