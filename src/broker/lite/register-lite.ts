// The handlers of lite topics.

import { RequestCode } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import type { HandlerRegistry } from '../processor/registry.ts';
import { changeLiteInvisible } from './ack-lite.ts';
import { registerLiteAdmin } from './lite-admin.ts';
import { registerLiteSubscriptionCtl } from './lite-subscription-ctl.ts';
import { PopLiteProcessor } from './pop-lite.ts';

export function registerLite(registry: HandlerRegistry, context: BrokerContext): void {
  registerLiteSubscriptionCtl(registry, context);
  registerLiteAdmin(registry, context);
  new PopLiteProcessor(context).register(registry);
  registry.register(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, (request) => changeLiteInvisible(context, request));
}
