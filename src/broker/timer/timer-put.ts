// What happens to a message with a timer property when it is put: it goes to the timer's topic, or it is refused. RocketMQ:
// HookUtils#checkIfTimerMessage, #transformTimerMessage.

import type { Clock, Random } from '../../common/index.ts';
import { isCounted, PropertyName } from '../../message/index.ts';
import { PutMessageStatus } from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { delayLevelOf, type InternalMessage } from '../internal-put.ts';
import { TIMER_TOPIC } from '../topic/topic-names.ts';

const { TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, TIMER_DEL_UNIQKEY, TIMER_OUT_MS } = PropertyName;
const PRECISIONS = [1000, 500, 200];
const LEAST_PRECISION = 100;

/** What the put of a timer message asks of the broker. */
export interface TimerPutParts {
  readonly config: BrokerConfig;
  readonly clock: Clock;
  readonly random: Random;
  readonly timer: { pendingAt(timeMs: number): number };
}

/** Why a message is not taken. */
export interface TimerRefusal {
  readonly status: PutMessageStatus;
  readonly reason: string;
}

/** RocketMQ: setTimerPrecisionMs: the next smaller one of 100, 200, 500 and 1000. */
export function timerPrecision(config: BrokerConfig): number {
  return PRECISIONS.find((precision) => config.timerPrecisionMs >= precision) ?? LEAST_PRECISION;
}

/**
 * Turns a message with a timer property into one of the timer's topic. Does nothing to others, to those that are due, and to those with a delay
 * level, which counts (`applyDelayLevel`). The service must be told of the put (`TimerMessageService.noted`).
 */
export function applyTimer(parts: TimerPutParts, message: InternalMessage): TimerRefusal | undefined {
  const { properties } = message;
  if (!isCounted(message.sysFlag) || message.topic === TIMER_TOPIC) return undefined;
  if (delayLevelOf(properties) > 0 || properties.has(TIMER_OUT_MS)) return undefined;
  const wish = [TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS].find((name) => properties.has(name));
  if (wish === undefined) return undefined;
  const { config, clock } = parts;
  if (!config.timerWheelEnable) return notEnabled(wish);
  const text = properties.get(wish)!;
  const value = /^[+-]?\d{1,19}$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isNaN(value)) return illegal(`${wish} is ${JSON.stringify(text.slice(0, 40))}, a number is expected`);
  const now = clock.now();
  const deliver = wish === TIMER_DELAY_SEC ? now + value * 1000 : wish === TIMER_DELAY_MS ? now + value : value;
  if (deliver <= now) {
    return properties.has(TIMER_DEL_UNIQKEY) ? illegal(`${wish}=${text} is ${now - deliver} ms ago`) : undefined;
  }
  const out = timerSlotOf(parts, deliver, now);
  if (typeof out !== 'number') return out;
  toTimerTopic(message, out);
  return undefined;
}

/** Where in the timer a message belongs that is to be delivered at `deliver`, which is later than `now`, or why there is no place. */
export function timerSlotOf(parts: TimerPutParts, deliver: number, now: number): number | TimerRefusal {
  const { config, timer } = parts;
  if (!config.timerWheelEnable) return notEnabled(TIMER_DELIVER_MS);
  const mostMs = config.timerMaxDelaySec * 1000;
  if (deliver - now > mostMs) return illegal(`the delay is ${deliver - now} ms`);
  const precision = timerPrecision(config);
  const out = deliver % precision === 0 ? deliver - precision : Math.floor(deliver / precision) * precision;
  return congested(parts, timer.pendingAt(out)) ?? out;
}

/** Sends a message into the timer's topic, to be due at `out`. */
export function toTimerTopic(message: InternalMessage, out: number): void {
  const { properties } = message;
  properties.set(TIMER_OUT_MS, String(out));
  properties.set(PropertyName.REAL_TOPIC, message.topic);
  properties.set(PropertyName.REAL_QID, String(message.queueId));
  message.topic = TIMER_TOPIC;
  message.queueId = 0;
}

/** What an order to delete names a message by. RocketMQ: buildDeleteKey. */
export function deleteKey(config: BrokerConfig, topic: string, uniqKey: string): string {
  return config.appendTopicForTimerDeleteKey ? `${topic}+${uniqKey}` : uniqKey;
}

/** RocketMQ: isReject. From the limit on some are refused, and more of them the nearer it is: its formula falls as the slot fills. */
function congested({ config, random }: TimerPutParts, pending: number): TimerRefusal | undefined {
  const limit = config.timerCongestNumEachSlot;
  if (pending <= limit) return undefined;
  const refused = pending >= limit * 2 || random.int(1000) > (1000 * (pending - limit)) / (limit + 0.1);
  if (!refused) return undefined;
  return { status: PutMessageStatus.WHEEL_TIMER_FLOW_CONTROL, reason: `${pending} messages are due then` };
}

function notEnabled(wish: string): TimerRefusal {
  return { status: PutMessageStatus.WHEEL_TIMER_NOT_ENABLE, reason: `property ${wish}; delay levels work` };
}

function illegal(reason: string): TimerRefusal {
  return { status: PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL, reason };
}

/** RocketMQ's remark for a refusal. */
export function timerRemark(config: BrokerConfig, status: PutMessageStatus): string {
  const limit = config.timerCongestNumEachSlot;
  switch (status) {
    case PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL:
      return (
        'timer message illegal, the delay time should not be bigger than the max delay ' +
        `${config.timerMaxDelaySec * 1000}ms; or if set del msg, the delay time should be bigger than the current time`
      );
    case PutMessageStatus.WHEEL_TIMER_FLOW_CONTROL:
      return (
        `timer message is under flow control, max num limit is ${limit * 2} or the current value is greater than ${limit} ` +
        `and less than ${limit * 2}, trigger random flow control`
      );
    default:
      return `accurate timer message is not enabled, timerWheelEnable is ${config.timerWheelEnable}`;
  }
}
