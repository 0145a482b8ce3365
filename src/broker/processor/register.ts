// All handlers of this folder but those for sends and pulls, which bring services of their own.

import type { BrokerContext } from '../broker-context.ts';
import { registerBrokerAdmin } from './broker-admin.ts';
import { registerClientAdmin } from './client-admin.ts';
import { registerClientManage } from './client-manage.ts';
import { registerConsumerManage } from './consumer-manage.ts';
import { registerLock } from './lock.ts';
import { registerOffsetAdmin } from './offset-admin.ts';
import { registerQueryMessage } from './query-message.ts';
import type { HandlerRegistry } from './registry.ts';
import { registerSendBack } from './send-back.ts';
import { registerStatsAdmin } from './stats-admin.ts';
import { registerSubscriptionAdmin } from './subscription-admin.ts';
import { registerTopicAdmin } from './topic-admin.ts';

export function registerProcessors(registry: HandlerRegistry, context: BrokerContext): void {
  registerClientManage(registry, context);
  registerConsumerManage(registry, context);
  registerLock(registry, context);
  registerSendBack(registry, context);
  registerQueryMessage(registry, context);
  registerTopicAdmin(registry, context);
  registerSubscriptionAdmin(registry, context);
  registerOffsetAdmin(registry, context);
  registerStatsAdmin(registry, context);
  registerClientAdmin(registry, context);
  registerBrokerAdmin(registry, context);
}
