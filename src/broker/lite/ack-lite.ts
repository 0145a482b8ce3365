// Acknowledgements and changes of the invisible time of what POP_LITE_MESSAGE handed out: ACK_MESSAGE (200051) and
// CHANGE_MESSAGE_INVISIBLETIME (200053) with a `liteTopic`. RocketMQ: AckMessageProcessor#ackLite,
// ChangeInvisibleTimeProcessor#processChangeInvisibleTimeForLite.

import { isOrderHandle, parseReceiptHandle } from '../../message/index.ts';
import { type HeaderView, type Request, ResponseCode } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { lightQueueOf } from '../topic/topic-names.ts';
import { bindTopicOf } from './lite-metadata.ts';
import { Acked } from './lite-order.ts';

/** Whether a request is about a lite topic. */
export function isAboutLite(header: HeaderView): boolean {
  return (header.get('liteTopic') ?? '').trim() !== '';
}

/** Answers the acknowledgement of a message of a lite topic. */
export function ackLite(context: BrokerContext, request: Request): void {
  const { groups, lite, offsets, traffic } = context;
  const { header } = request;
  const group = header.required('consumerGroup');
  const topic = header.required('topic');
  const queue = lightQueueOf(topic, header.get('liteTopic')!);
  const queueId = header.int('queueId');
  const offset = header.long('offset');
  if (bindTopicOf(groups.find(group)) !== topic) {
    request.respond(ResponseCode.INVALID_PARAMETER, 'group type or bind topic not match.');
    return;
  }
  if (offset > lite.endOf(queue)) {
    request.respond(ResponseCode.NO_MESSAGE, 'ack offset illegal.');
    return;
  }
  const handle = parseReceiptHandle(header.required('extraInfo'));
  if (typeof handle === 'string') {
    request.respond(ResponseCode.SYSTEM_ERROR, handle);
    return;
  }
  if (queueId !== 0 || !isOrderHandle(handle)) {
    request.respond(ResponseCode.INVALID_PARAMETER, 'ack queue illegal.');
    return;
  }
  const committed = offsets.query(group, queue, 0);
  if (offset < committed) {
    request.respond(ResponseCode.SUCCESS);
    return;
  }
  const next = lite.order.ack(queue, group, offset, handle.popTime, committed);
  if (next === Acked.ILLEGAL) {
    request.respond(ResponseCode.MESSAGE_ILLEGAL, 'ack offset illegal.');
    return;
  }
  if (next >= 0) {
    if (!offsets.hasReset(group, queue, 0)) offsets.commit(request.channel.remoteAddress, group, queue, 0, next);
    if (!lite.order.isBlocked(undefined, queue, group, handle.invisibleTimeMs)) lite.events.dispatch(group, queue);
  }
  traffic.acknowledged(topic, group, 1);
  request.respond(ResponseCode.SUCCESS);
}

/** Answers the change of when a message of a lite topic comes back; `suspend`: of when the whole queue goes on. */
export function changeLiteInvisible(context: BrokerContext, request: Request): void {
  const { clock, lite, offsets } = context;
  const { header } = request;
  const group = header.required('consumerGroup');
  const queue = lightQueueOf(header.required('topic'), header.get('liteTopic')!);
  const offset = header.long('offset');
  const invisibleTime = header.long('invisibleTime');
  const handle = parseReceiptHandle(header.required('extraInfo'));
  if (offset > lite.endOf(queue)) {
    request.respond(ResponseCode.NO_MESSAGE, null, { invisibleTime: 0, popTime: 0, reviveQid: 0 });
    return;
  }
  if (typeof handle === 'string') {
    request.respond(ResponseCode.SYSTEM_ERROR, handle);
    return;
  }
  if (offset < offsets.query(group, queue, 0)) {
    request.respond(ResponseCode.SUCCESS, null, { invisibleTime: 0, popTime: 0, reviveQid: 0 });
    return;
  }
  const { popTime, reviveQueueId } = handle;
  const visibleAt = clock.now() + invisibleTime;
  if (header.bool('suspend', false)) lite.order.suspend(queue, group, popTime, visibleAt);
  else lite.order.changeVisible(queue, group, offset, popTime, visibleAt);
  request.respond(ResponseCode.SUCCESS, null, {
    invisibleTime: visibleAt - popTime,
    popTime,
    reviveQid: reviveQueueId,
  });
}
