// What slaves and tools ask of the timer. RocketMQ: AdminBrokerProcessor.

import { type Request, RequestCode, ResponseCode } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import type { HandlerRegistry } from './registry.ts';

/** RocketMQ: the field of SWITCH_TIMER_ENGINE, and the engine that is here: the wheel in files. */
const ENGINE_FIELD = 'E_T';
const FILE_ENGINE = 'F';
const ROCKSDB_ENGINE = 'R';

export function registerTimerAdmin(registry: HandlerRegistry, context: BrokerContext): void {
  registry.register(RequestCode.GET_TIMER_CHECK_POINT, (request) => {
    const checkpoint = context.timer.checkpoint;
    if (checkpoint === undefined) request.respond(ResponseCode.SYSTEM_ERROR, 'The checkpoint is null');
    else request.respond(ResponseCode.SUCCESS, null, null, checkpoint);
  });
  registry.register(RequestCode.GET_TIMER_METRICS, (request) => {
    if (!context.timer.enabled) request.respond(ResponseCode.SYSTEM_ERROR, 'The timer message store is null');
    else request.respond(ResponseCode.SUCCESS, null, null, Buffer.from(context.timer.metrics.text(), 'utf8'));
  });
  registry.register(RequestCode.SWITCH_TIMER_ENGINE, (request) => switchEngine(context, request));
}

function switchEngine(context: BrokerContext, request: Request): void {
  const engine = request.header.get(ENGINE_FIELD);
  const refuse = (remark: string): void => request.respond(ResponseCode.INVALID_PARAMETER, remark);
  if (!context.config.timerWheelEnable) refuse('broker timerWheelEnable is false');
  else if (engine !== FILE_ENGINE && engine !== ROCKSDB_ENGINE) refuse('param error');
  else if (engine === ROCKSDB_ENGINE) refuse('timerRocksDBEnable must be configured true when broker start');
  else {
    context.config.timerStopEnqueue = false;
    context.timer.noted();
    request.respond(ResponseCode.SUCCESS, 'switch timer engine success');
  }
}
