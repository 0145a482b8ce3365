// The name server, as a part of a program of your own or beside a broker in one process.

export { NameServer, type NameServerDeps, type NameServerOptions } from './namesrv.ts';
export type { NamesrvConfig } from './namesrv-config.ts';
