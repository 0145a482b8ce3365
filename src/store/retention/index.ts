export { isTimeToDelete, parseHours } from './hours.ts';
export type { QueueMove, Removal, RemovalListener, RetentionCounts, RetentionFloor } from './removal.ts';
export { Retention } from './retention.ts';
export { TopicDeletion } from './topic-deletion.ts';
