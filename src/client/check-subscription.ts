// Before an SQL92 expression is consumed by, a broker of its topic is asked whether it takes it: one that cannot be read, or a broker that filters
// by tags alone, is an error of the program and not of a pull. RocketMQ: MQClientInstance#checkClientInBroker.

import { RequestCode, ResponseCode, toJsonBytes } from '../remoting/index.ts';
import { BrokerError } from './client-errors.ts';
import type { ClientInstance } from './client-instance.ts';
import type { SubscriptionData } from './subscription.ts';

/** @throws BrokerError if the broker refuses it, GantryError REMOTING_...; of a topic without a route nobody is asked. */
export async function checkSubscription(
  client: ClientInstance,
  group: string,
  subscriptionData: SubscriptionData,
): Promise<void> {
  if (subscriptionData.expressionType === 'TAG') return;
  await client.routes.refresh(subscriptionData.topic);
  const queue = client.routes.subscribeQueues(subscriptionData.topic)[0];
  if (queue === undefined) return;
  const address = await client.readAddress(queue);
  const body = toJsonBytes({ clientId: client.clientId, group, subscriptionData });
  const response = await client.invokeBroker(address, RequestCode.CHECK_CLIENT_CONFIG, null, body);
  if (response.code === ResponseCode.SUCCESS) return;
  throw new BrokerError(`the subscription of ${group} to ${subscriptionData.topic}`, address, response);
}
