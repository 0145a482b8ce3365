// A pull of a logic queue's older place on another broker: asked there with the numbers of that place, and answered as if it lay here. It
// never waits there. RocketMQ: PullMessageProcessor#rewriteRequestForStaticTopic.

import { type Request, RequestCode, ResponseCode } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { answerLater } from '../processor/registry.ts';
import { unexpected } from './broker-peers.ts';
import type { MappedPull } from './mapped-pull.ts';

/** RocketMQ: PullSysFlag. */
const COMMIT_OFFSET = 1;
const SUSPEND = 2;
const ANSWERS: readonly number[] = [
  ResponseCode.SUCCESS,
  ResponseCode.PULL_NOT_FOUND,
  ResponseCode.PULL_RETRY_IMMEDIATELY,
  ResponseCode.PULL_OFFSET_MOVED,
];

export function forwardPull(context: BrokerContext, request: Request, mapped: MappedPull): void {
  const { header } = request;
  const { item } = mapped;
  const fields = {
    ...header.toObject(),
    queueId: item.queueId,
    queueOffset: mapped.queueOffset,
    maxMsgNums: mapped.limit(header.int('maxMsgNums')),
    sysFlag: header.int('sysFlag') & ~(SUSPEND | COMMIT_OFFSET),
    lo: false,
    bname: item.bname,
  };
  const waits = (header.int('sysFlag') & SUSPEND) !== 0;
  answerLater(request, async (responder) => {
    const { forwardTimeout } = context.config;
    const response = await context.peers.invoke(item.bname, RequestCode.PULL_MESSAGE, fields, null, forwardTimeout);
    if (!ANSWERS.includes(response.code)) throw unexpected(response);
    const { ext } = response;
    const { code, ...place } = mapped.placeOf(response.code, {
      nextBeginOffset: Number(ext['nextBeginOffset']),
      minOffset: Number(ext['minOffset']),
      maxOffset: Number(ext['maxOffset']),
    });
    // At the end of a place whose next one is not decided yet: who would wait for a message asks again at once.
    if (code === ResponseCode.PULL_NOT_FOUND && waits) await pause(context);
    const answer = { ...ext, ...place, offsetDelta: mapped.offsetDelta };
    responder.respond(code, response.remark ?? null, answer, response.body.length === 0 ? null : response.body);
  });
}

function pause({ clock, config }: BrokerContext): Promise<void> {
  return new Promise((resolve) => clock.after(config.shortPollingTimeMills, resolve));
}
