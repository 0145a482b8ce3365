// Sends to light queues, and to lite topics, which are light queues of a parent: on the fast way, where the store gives the record its places; and
// those that are refused because their message would not come there. RocketMQ stores such a message and answers success; whoever waits
// for it in a light queue waits for ever.

import { type NameBytes, nameBytes, PropertyName, type PropertyTable } from '../../message/index.ts';
import { ResponseCode } from '../../remoting/index.ts';
import { isLightQueue, mayNameLightQueues } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { lightQueueOf } from '../topic/topic-names.ts';
import { liteTopicFault } from './lite-names.ts';

export interface LightRefusal {
  readonly code: number;
  readonly remark: string;
}

export class LightSends {
  readonly #context: BrokerContext;
  readonly #others: readonly NameBytes[];
  readonly #lite = nameBytes(PropertyName.LITE_TOPIC);
  readonly #names = nameBytes(PropertyName.INNER_MULTI_DISPATCH);

  /** `special`: properties with which a send does not go the fast way. */
  constructor(context: BrokerContext, special: readonly NameBytes[]) {
    this.#context = context;
    this.#others = special.filter(({ hash }) => hash !== this.#lite.hash && hash !== this.#names.hash);
  }

  /** Whether a send names light queues, or a lite topic, and has nothing else to rewrite. */
  takes(table: PropertyTable): boolean {
    if (table.find(this.#names) < 0 && table.find(this.#lite) < 0) return false;
    for (const name of this.#others) if (table.find(name) >= 0) return false;
    return true;
  }

  /** Completes the properties of a send that was taken; why it is refused, or undefined. */
  rewrite(table: PropertyTable, topic: string): LightRefusal | undefined {
    const { enableLmq, enableMultiDispatch } = this.#context.store.config;
    if (enableLmq && enableMultiDispatch && table.find(this.#lite) < 0) return undefined;
    const lite = table.get(this.#lite) ?? '';
    const refusal = lightRefusal(this.#context, topic, lite, table.get(this.#names) ?? '');
    if (refusal === undefined && lite !== '') table.put(this.#names, Buffer.from(lightQueueOf(topic, lite)));
    return refusal;
  }
}

/** Why a message would not come to the light queues, or the lite topic, that it names; undefined if it would, or names none. */
export function lightSendRefusal(
  context: BrokerContext,
  topic: string,
  properties: ReadonlyMap<string, string>,
): LightRefusal | undefined {
  const lite = properties.get(PropertyName.LITE_TOPIC) ?? '';
  return lightRefusal(context, topic, lite, properties.get(PropertyName.INNER_MULTI_DISPATCH) ?? '');
}

function lightRefusal(
  { config, store }: BrokerContext,
  topic: string,
  lite: string,
  names: string,
): LightRefusal | undefined {
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
