// What a person sees when a server is ready: where everything is, and what to try next.

import type { AdvertisedAddress } from './advertised-address.ts';

export interface BrokerFacts {
  readonly name: string;
  readonly cluster: string;
  readonly listening: string;
  /** host:port that clients are told. */
  readonly advertised: string;
  readonly address: AdvertisedAddress;
  readonly store: string;
  readonly flush: string;
  /** Name servers that the broker registers with, its own aside. */
  readonly namesrvAddrs: readonly string[];
}

export interface ServerFacts {
  readonly version: string;
  readonly seconds: number;
  /** host:port of the name server in this process. */
  readonly namesrv: string | undefined;
  readonly broker: BrokerFacts | undefined;
}

/** The banner, with line breaks. */
export function banner(facts: ServerFacts): string {
  const { namesrv, broker } = facts;
  const lines = [`Gantry ${facts.version} is ready after ${facts.seconds.toFixed(2)} s`];
  const add = (label: string, text: string): void => void lines.push(`  ${label.padEnd(14)}${text}`);
  if (namesrv !== undefined) add('name server', namesrv);
  if (broker !== undefined) {
    add('broker', `${broker.name} in ${broker.cluster}, listening on ${broker.listening}`);
    add('clients', `connect to ${broker.advertised}, ${broker.address.why}`);
    add('store', `${broker.store} (${broker.flush})`);
    if (broker.namesrvAddrs.length > 0) add('registers', `with ${broker.namesrvAddrs.join(', ')}`);
  }
  lines.push(`Try:  ${suggestion(facts)}`, 'Ctrl-C stops it.');
  return `${lines.join('\n')}\n`;
}

function suggestion({ namesrv, broker }: ServerFacts): string {
  if (broker === undefined) return `npx gantry broker -n ${namesrv}`;
  const address = namesrv ?? broker.namesrvAddrs[0];
  if (address === undefined) return 'npx gantry broker -n HOST:9876, since no name server knows of this broker';
  const option = address === '127.0.0.1:9876' ? '' : ` -n ${address}`;
  return `npx gantry produce greetings "hello"${option}`;
}
