export { Broker, type BrokerDependencies, type BrokerOptions } from './broker.ts';
export { type BrokerConfig, defaultBrokerConfig } from './broker-config.ts';
export { type BrokerContext, type BrokerContextOptions, createBrokerContext } from './broker-context.ts';
export { ConfigManager } from './config-manager.ts';
export { registerProcessors } from './processor/register.ts';
export type { HandlerRegistry } from './processor/registry.ts';
