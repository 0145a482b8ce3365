export {
  AdminClient,
  type AdminClientOptions,
  type QueryOptions,
  type Target,
  type TopicSettings,
} from './admin-client.ts';
export type { ClusterInfo, ConsumerConnection, ConsumerProgress, QueueProgress, QueueStats } from './admin-types.ts';
export { allocateAveragely } from './allocate-averagely.ts';
export { BrokerError } from './client-errors.ts';
export { ClientInstance } from './client-instance.ts';
export type { ClientOptions } from './client-options.ts';
export type { ConsumeContext, ConsumeStatus, MessageListener } from './consume-service.ts';
export { deadLetterTopic, type ReplayOptions, replayDeadLetters } from './dead-letters.ts';
export type { ConsumeFromWhere, MessageModel } from './heartbeat.ts';
export type { Boundary } from './initial-offset.ts';
export type { TraceOptions } from './message-trace.ts';
export { type Message, ReceivedMessage, type SendResult, type SendStatus } from './message-types.ts';
export type { OrderlyContext, OrderlyListener, OrderlyStatus } from './orderly-service.ts';
export type { PopLimits } from './pop-service.ts';
export {
  type BatchSendResult,
  Producer,
  type ProducerOptions,
  type Reply,
  type SendOptions,
  selectByShardingKey,
} from './producer.ts';
export { PullConsumer, type PullConsumerOptions } from './pull-consumer.ts';
export type { PullLimits } from './pull-loop.ts';
export { PushConsumer, type PushConsumerOptions } from './push-consumer.ts';
export type { MessageQueue } from './queues.ts';
export { parseRecallHandle, type RecallHandle } from './recall-handle.ts';
export type { BrokerData, QueueData, TopicRoute } from './route.ts';
export { SimpleConsumer, type SimpleConsumerOptions } from './simple-consumer.ts';
export { stderrLogger } from './stderr-logger.ts';
export { MessageSelector } from './subscription.ts';
export {
  type HalfMessage,
  type LocalTransaction,
  type LocalTransactionState,
  type TransactionChecker,
  TransactionProducer,
  type TransactionProducerOptions,
  type TransactionSendResult,
} from './transaction-producer.ts';
