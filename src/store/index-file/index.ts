export type { DerivedStore } from './derived-store.ts';
export type { IndexUnit } from './index-file.ts';
export { IndexHeader, IndexLayout, indexFileName } from './index-format.ts';
export { type IndexType, keyHash, queryHash, storedHash, type TopicSeeds, topicSeeds } from './index-key.ts';
export type { IndexOptions, IndexProgress } from './index-load.ts';
export { IndexService } from './index-service.ts';
export { scanAhead } from './scan-ahead.ts';
