// Acknowledgements of messages that were popped in order: the group's offset moves to the first one that is not acknowledged. RocketMQ:
// AckMessageProcessor#ackOrderly.

import { popQueueKey } from '../../message/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { Acknowledged } from './order-info.ts';

export interface OrderlyAck {
  readonly group: string;
  readonly topic: string;
  readonly queueId: number;
  readonly offset: number;
  readonly popTime: number;
  readonly invisibleTimeMs: number;
}

/**
 * Acknowledges a message, at once or when a pop has left its queue. `done` is told what is wrong with it, if anything: then it is a
 * MESSAGE_ILLEGAL.
 */
export function ackOrderly(
  context: BrokerContext,
  ack: OrderlyAck,
  peer: string,
  done: (fault: string | undefined) => void,
): void {
  const { offsets, pop } = context;
  const { group, topic, queueId, offset, popTime, invisibleTimeMs } = ack;
  // What the group is past is done with.
  if (offset < offsets.query(group, topic, queueId)) {
    done(undefined);
    return;
  }
  pop.queues.whenFree(topic, group, queueId, () => {
    const old = offsets.query(group, topic, queueId);
    if (offset < old) {
      done(undefined);
      return;
    }
    let next = pop.order.commitAndNext(topic, group, queueId, offset, popTime);
    // What was under way is not known after a kill. RocketMQ: moves behind this message, past others that nobody acknowledged.
    if (next === Acknowledged.UNKNOWN && offset === old) next = offset + 1;
    if (next === Acknowledged.ILLEGAL) {
      const key = popQueueKey(topic, group, queueId);
      done(`offset is illegal, key:${key}, old:${old}, commit:${offset}, next:${next}, ${peer}`);
      return;
    }
    if (next >= 0) {
      if (!offsets.hasReset(group, topic, queueId)) offsets.commit(peer, group, topic, queueId, next);
      if (!pop.order.isBlocked(undefined, topic, group, queueId, invisibleTimeMs)) {
        pop.wakeIfAny(topic, group, queueId);
      }
    }
    pop.queues.landed(topic, group, queueId, popTime, 1);
    done(undefined);
  });
}
