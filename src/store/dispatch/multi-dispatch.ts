// What the INNER_ properties of a record say: the further queues that it goes to (light queues), and the queue offsets of the messages
// that it holds (inner batches). RocketMQ: MultiDispatchUtils, ConsumeQueue#multiDispatchLmqQueue, CommitLog#setBatchSizeIfNeeded.
//
//   INNER_MULTI_DISPATCH     = %LMQ%a,%LMQ%b        names, in any number
//   INNER_MULTI_QUEUE_OFFSET = 7,0                  the ordinal of the record in each; empty where the put had none to give
//   INNER_NUM, INNER_BASE    = 3, 40                the record holds the messages 40, 41 and 42
//
// The properties come from clients: what makes no sense is set aside, and stops nothing.

import { PropertyName } from '../../message/index.ts';
import { isLightQueue } from '../consume-queue/index.ts';
import { SCHEDULE_TOPIC } from './delay-levels.ts';

/** RocketMQ: MixAll.LMQ_DISPATCH_SEPARATOR. */
export const DISPATCH_SEPARATOR = ',';
const MAX_INNER_NUM = 32_767;

/** A further queue of a record, and its ordinal there; -1 if it has none. */
export interface FurtherPlace {
  name: string;
  queueId: number;
  ordinal: number;
}

/** Whether records of a topic may go to further queues. RocketMQ: isNeedHandleMultiDispatch. */
export function mayGoFurther(topic: string): boolean {
  return !topic.startsWith('%RETRY%') && !topic.startsWith('rmq_sys_') && topic !== SCHEDULE_TOPIC;
}

/** Whether a put to a topic may name light queues. RocketMQ: MixAll#topicAllowsLMQ. */
export function mayNameLightQueues(topic: string): boolean {
  return mayGoFurther(topic) && !topic.startsWith('%DLQ%');
}

/** The names in a value of INNER_MULTI_DISPATCH, as Java splits them: without empty ones at the end. */
export function dispatchNames(value: string): string[] {
  const names = value.split(DISPATCH_SEPARATOR);
  while (names.length > 0 && names.at(-1) === '') names.pop();
  return names;
}

/** The further queues of a record of `topic` in `queueId`, in their order, or undefined if there are none. `fault` says why none can be told. */
export function furtherPlaces(
  properties: ReadonlyMap<string, string>,
  queueId: number,
): { places: FurtherPlace[]; fault: string | undefined } | undefined {
  const dispatch = properties.get(PropertyName.INNER_MULTI_DISPATCH)?.trim() ?? '';
  const offsets = properties.get(PropertyName.INNER_MULTI_QUEUE_OFFSET) ?? '';
  // RocketMQ: a blank one of the two means that there is nothing to do.
  if (dispatch === '' || offsets.trim() === '') return undefined;
  const names = dispatchNames(dispatch);
  const ordinals = offsets.split(DISPATCH_SEPARATOR);
  if (names.length !== ordinals.length) {
    return { places: [], fault: `it names ${names.length} queues and has ${ordinals.length} offsets` };
  }
  const places = names.map((name, i) => ({
    name,
    queueId: isLightQueue(name) ? 0 : queueId,
    ordinal: /^\d{1,15}$/.test(ordinals[i]!) ? Number(ordinals[i]) : -1,
  }));
  return { places, fault: undefined };
}

/** The queue offsets of the messages in a record of a batch topic; without both properties, or with ones that make no sense, it is one message. */
export function innerRange(
  properties: ReadonlyMap<string, string>,
  queueOffset: number,
): { base: number; count: number; fault: string | undefined } {
  const base = properties.get(PropertyName.INNER_BASE);
  const count = properties.get(PropertyName.INNER_NUM);
  if (base === undefined || count === undefined) return { base: queueOffset, count: 1, fault: undefined };
  if (/^\d{1,15}$/.test(base) && innerCount(count) > 0) {
    return { base: Number(base), count: innerCount(count), fault: undefined };
  }
  return { base: queueOffset, count: 1, fault: `INNER_BASE is ${base}, INNER_NUM is ${count}` };
}

/** The value of INNER_NUM; -1 if it is no number of messages. */
export function innerCount(value: string): number {
  const count = /^\d{1,5}$/.test(value) ? Number(value) : -1;
  return count >= 1 && count <= MAX_INNER_NUM ? count : -1;
}
