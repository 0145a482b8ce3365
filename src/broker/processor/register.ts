// All handlers of this folder but those for sends and pulls, which bring services of their own.

import { RequestCode, withBodyLimit } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { registerLite } from '../lite/register-lite.ts';
import { withStaticOffsets } from '../statictopic/static-offsets.ts';
import { registerStaticTopicAdmin } from '../statictopic/static-topic-admin.ts';
import { registerResumeCheck } from '../transaction/resume-check.ts';
import { registerBrokerAdmin } from './broker-admin.ts';
import { registerClientAdmin } from './client-admin.ts';
import { registerClientManage } from './client-manage.ts';
import { registerColdDataAdmin } from './cold-data-admin.ts';
import { registerConsumerManage } from './consumer-manage.ts';
import { registerLock } from './lock.ts';
import { registerOffsetAdmin } from './offset-admin.ts';
import { registerPeekMessage } from './peek-message.ts';
import { registerQueryMessage } from './query-message.ts';
import { registerRecallMessage } from './recall-message.ts';
import type { HandlerRegistry } from './registry.ts';
import { registerResetOffset } from './reset-offset.ts';
import { registerSendBack } from './send-back.ts';
import { registerStatsAdmin } from './stats-admin.ts';
import { registerSubscriptionAdmin } from './subscription-admin.ts';
import { registerTimerAdmin } from './timer-admin.ts';
import { registerTopicAdmin } from './topic-admin.ts';

/** Bytes of a body that is parsed at once; lists of topics and groups may be those of a whole broker (20,000 topics are 3 MiB). */
const BODY_LIMIT = 1024 * 1024;
const LIST_BODY_LIMIT = 4 * BODY_LIMIT;
const LISTS: readonly number[] = [
  RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
  RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
  RequestCode.LITE_SUBSCRIPTION_CTL,
];

export function registerProcessors(server: HandlerRegistry, context: BrokerContext): void {
  const registry: HandlerRegistry = {
    register(code, handler) {
      server.register(code, withBodyLimit(handler, LISTS.includes(code) ? LIST_BODY_LIMIT : BODY_LIMIT));
    },
  };
  registerClientManage(registry, context);
  registerConsumerManage(withStaticOffsets(registry, context), context);
  registerLock(registry, context);
  registerSendBack(registry, context);
  registerRecallMessage(registry, context);
  registerTimerAdmin(registry, context);
  registerQueryMessage(registry, context);
  registerPeekMessage(registry, context);
  registerTopicAdmin(registry, context);
  registerStaticTopicAdmin(registry, context);
  registerSubscriptionAdmin(registry, context);
  registerOffsetAdmin(registry, context);
  registerResetOffset(registry, context);
  registerStatsAdmin(registry, context);
  registerClientAdmin(registry, context);
  registerBrokerAdmin(registry, context);
  registerColdDataAdmin(registry, context);
  registerResumeCheck(registry, context);
  registerLite(registry, context);
}
