// Sends that name light queues which their message cannot reach. RocketMQ stores such a message and answers success; whoever waits for it in
// a light queue waits for ever.

import { PropertyName } from '../../message/index.ts';
import { ResponseCode } from '../../remoting/index.ts';
import { isLightQueue, mayNameLightQueues } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { liteTopicFault } from './lite-names.ts';

/** Why a message would not come to the light queues, or the lite topic, that it names; undefined if it would, or names none. */
export function lightSendRefusal(
  { config, store }: BrokerContext,
  topic: string,
  properties: ReadonlyMap<string, string>,
): { code: number; remark: string } | undefined {
  const lite = properties.get(PropertyName.LITE_TOPIC) ?? '';
  const names = properties.get(PropertyName.INNER_MULTI_DISPATCH) ?? '';
  if (lite === '' && !names.split(',').some(isLightQueue)) return undefined;
  // A retry of a message bears its names, and goes to its group alone.
  if (!mayNameLightQueues(topic)) return undefined;
  const { enableLmq, enableMultiDispatch } = store.config;
  if (!enableLmq || !enableMultiDispatch) {
    const what = lite === '' ? `the light queues ${names}` : `the lite topic ${lite}`;
    const remark =
      `the broker[${config.brokerIP1}] does not deliver messages to ${what}: ` +
      `enableLmq is ${enableLmq} and enableMultiDispatch is ${enableMultiDispatch}, both must be true`;
    return { code: ResponseCode.NO_PERMISSION, remark };
  }
  const fault = lite === '' ? undefined : liteTopicFault(topic, lite);
  return fault === undefined ? undefined : { code: ResponseCode.MESSAGE_ILLEGAL, remark: fault };
}
