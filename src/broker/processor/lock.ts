// Locks of queues for groups that consume in order. RocketMQ: AdminBrokerProcessor#lockBatchMQ, #unlockBatchMQ. Its onlyThisBroker says
// whether other replicas are asked, too, which needs lockInStrictMode and several of them; this broker's table decides alone.

import { GantryError } from '../../common/index.ts';
import { type Request, RequestCode, ResponseCode, toJsonBytes } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { bodyObject } from '../client/heartbeat-data.ts';
import type { MessageQueue } from '../client/rebalance-lock-manager.ts';
import { readText } from '../json-fields.ts';
import { readMessageQueues } from './message-queues.ts';
import type { HandlerRegistry } from './registry.ts';

export function registerLock(registry: HandlerRegistry, context: BrokerContext): void {
  registry.register(RequestCode.LOCK_BATCH_MQ, (request) => {
    const { group, clientId, queues } = readLockBody(request);
    const held = context.locks.tryLockBatch(group, queues, clientId);
    request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes({ lockOKMQSet: held }));
  });
  registry.register(RequestCode.UNLOCK_BATCH_MQ, (request) => {
    const { group, clientId, queues } = readLockBody(request);
    context.locks.unlockBatch(group, queues, clientId);
    request.respond(ResponseCode.SUCCESS);
  });
}

/** @throws GantryError JSON, answered with code 1, for a body without group or client. RocketMQ: a NullPointerException, with the same code. */
function readLockBody(request: Request): { group: string; clientId: string; queues: MessageQueue[] } {
  const json = bodyObject(request.bodyCopy());
  const group = readText(json, 'consumerGroup');
  const clientId = readText(json, 'clientId');
  if (group === undefined || clientId === undefined) {
    throw new GantryError('JSON', 'the body names no consumerGroup or no clientId', { responseCode: 1 });
  }
  return { group, clientId, queues: readMessageQueues(json, 'mqSet') };
}
