// All suites, in the order in which they begin: the longest first, so that lanes end together.

import type { Suite } from '../runner.ts';
import { clientJava } from './client-java.ts';
import { compaction } from './compaction.ts';
import { delayRetry } from './delay-retry.ts';
import { filters } from './filters.ts';
import { go } from './go.ts';
import { javaAdmin } from './java-admin.ts';
import { javaConsumer } from './java-consumer.ts';
import { javaProducer } from './java-producer.ts';
import { javaRest } from './java-rest.ts';
import { liteTopics } from './lite-topics.ts';
import { mixedCluster } from './mixed-cluster.ts';
import { mqadmin } from './mqadmin.ts';
import { pop } from './pop.ts';
import { python } from './python.ts';
import { queueKinds } from './queue-kinds.ts';
import { retention } from './retention.ts';
import { roundTrip } from './round-trip.ts';
import { timers } from './timers.ts';
import { topicKinds } from './topic-kinds.ts';
import { transactions } from './transactions.ts';
import { wire } from './wire.ts';

export const suites: readonly Suite[] = [
  roundTrip,
  wire,
  javaProducer,
  javaConsumer,
  filters,
  javaAdmin,
  javaRest,
  mqadmin,
  clientJava,
  go,
  python,
  queueKinds,
  liteTopics,
  topicKinds,
  compaction,
  retention,
  transactions,
  delayRetry,
  timers,
  pop,
  mixedCluster,
];
