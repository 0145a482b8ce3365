// Ports for brokers and name servers on loopback. A Java broker takes four neighbours: its port, two below for its second
// listener, one above for replication, so ports are given out in blocks. GANTRY_INTEROP_PORTS=FROM-TO moves the range.

import { createServer } from 'node:net';
import { InteropError } from './wait.ts';

const BLOCK = 5;

/** Gives out ports of a range, each only once, and none that is in use. */
export class Ports {
  readonly #from: number;
  readonly #blocks: number;
  #next: number;

  constructor(range: string | undefined = process.env['GANTRY_INTEROP_PORTS'], seed: number = process.pid) {
    const [from, to] = (range ?? '21000-21999').split('-').map(Number);
    if (from === undefined || to === undefined || !(to - from >= BLOCK)) {
      throw new InteropError(`not a range of ports: ${range}`);
    }
    this.#from = from;
    this.#blocks = Math.floor((to - from + 1) / BLOCK);
    this.#next = seed % this.#blocks;
  }

  /** A port P, with P - 2 to P + 1 free as well. */
  async take(): Promise<number> {
    for (let tried = 0; tried < this.#blocks; tried++) {
      const port = this.#from + this.#next * BLOCK + 2;
      this.#next = (this.#next + 1) % this.#blocks;
      const free = await Promise.all([port - 2, port - 1, port, port + 1].map(isFree));
      if (free.every(Boolean)) return port;
    }
    throw new InteropError('no free ports');
  }
}

async function isFree(port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
