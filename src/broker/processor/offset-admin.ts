// Offsets as administrators and replicas see them: all of them, copied to another group, compared. RocketMQ: AdminBrokerProcessor.

import { type Request, RequestCode, ResponseCode, toJsonBytes } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { bytesInTurns } from '../in-turns.ts';
import { answerLater, type HandlerRegistry } from './registry.ts';

export function registerOffsetAdmin(registry: HandlerRegistry, context: BrokerContext): void {
  registry.register(RequestCode.CLONE_GROUP_OFFSET, (request) => cloneGroupOffset(context, request));
  registry.register(RequestCode.QUERY_CORRECTION_OFFSET, (request) => queryCorrectionOffset(context, request));
  registry.register(RequestCode.GET_ALL_CONSUMER_OFFSET, (request) => {
    answerLater(request, async (responder) => {
      const body = await bytesInTurns(context.clock, context.offsets.compactPieces());
      responder.respond(ResponseCode.SUCCESS, null, null, body);
    });
  });
  registry.register(RequestCode.GET_ALL_DELAY_OFFSET, (request) => {
    const offsetTable = new Map([...context.schedule.progress()].map(({ level, offset }) => [level, offset]));
    const body = { dataVersion: context.schedule.offsets.dataVersion.fields(), offsetTable };
    request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes(body));
  });
}

function cloneGroupOffset(context: BrokerContext, request: Request): void {
  const { header } = request;
  const from = header.required('srcGroup');
  const to = header.required('destGroup');
  const one = header.get('topic') ?? '';
  const offline = header.bool('offline', false);
  for (const topic of one.trim() === '' ? context.offsets.topicsOf(from) : [one]) {
    if (!context.topics.has(topic)) continue;
    if (!offline && context.consumers.hasLeft(from, topic)) continue;
    context.offsets.clone(from, to, topic);
  }
  request.respond(ResponseCode.SUCCESS);
}

const LONG_MAX = 9_223_372_036_854_775_807n;

/** The lowest offset of all groups on each queue; beyond every number where the compared group is behind even that. */
function queryCorrectionOffset(context: BrokerContext, request: Request): void {
  const { header } = request;
  const topic = header.required('topic');
  const compare = context.offsets.find(header.required('compareGroup'), topic);
  // RocketMQ: deletes the filtered groups' offsets from its table. Here they are only passed over.
  const filtered = new Set((header.get('filterGroups') ?? '').split(','));
  const lowest = new Map<number, number | bigint>();
  for (const offsets of context.offsets.entries()) {
    if (offsets.topic !== topic || filtered.has(offsets.group)) continue;
    for (const [queueId, offset] of offsets.committed) {
      if (offset < context.store.minOffsetInQueue(topic, queueId)) continue;
      const known = lowest.get(queueId);
      if (known === undefined || offset < known) lowest.set(queueId, offset);
    }
  }
  for (const [queueId, offset] of compare?.committed ?? []) {
    const known = lowest.get(queueId);
    if (known !== undefined && known > offset) lowest.set(queueId, LONG_MAX);
  }
  request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes({ correctionOffsets: lowest }));
}
