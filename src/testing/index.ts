// A broker for tests, in their own process.

export { FakeClock } from '../common/index.ts';
export { type FaultRule, type Hold, type InjectedFault, MemoryFileSystem } from '../io/index.ts';
export { type CrashKind, type StartBrokerOptions, startBroker, TestBroker } from './start-broker.ts';
