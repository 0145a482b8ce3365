// The handlers of lite topics.

import type { BrokerContext } from '../broker-context.ts';
import type { HandlerRegistry } from '../processor/registry.ts';
import { registerLiteAdmin } from './lite-admin.ts';
import { registerLiteSubscriptionCtl } from './lite-subscription-ctl.ts';
import { PopLiteProcessor } from './pop-lite.ts';

export function registerLite(registry: HandlerRegistry, context: BrokerContext): void {
  registerLiteSubscriptionCtl(registry, context);
  registerLiteAdmin(registry, context);
  new PopLiteProcessor(context).register(registry);
}
