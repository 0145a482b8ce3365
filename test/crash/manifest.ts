// What a life's sender knows when its broker is gone, as a file of lines, and what follows from several of them.
//
//   L life s,s…            requests that each connection sent: number n is the one with index n / connections of connection n % connections
//   A n queueOffset p,p…   request n was acknowledged (code 0): queue offset of its first message, physical offset of each
//   R n code               request n was refused: it must not be stored
//   O topic queueId offset a consumer's progress, sent
//
// A request without a line got no answer, or one that promises nothing: it may be stored, whole, once.

import { appendFileSync, readFileSync } from 'node:fs';
import { draftOf } from './messages.ts';

/** A message's place. */
export interface Place {
  topic: string;
  queueId: number;
  queueOffset: number;
  physicalOffset: number;
}

/** Collects the lines of one life. */
export class ManifestWriter {
  readonly #lines: string[] = [];
  acknowledged = 0;

  acknowledge(n: number, queueOffset: number, physicalOffsets: readonly number[]): void {
    this.acknowledged += physicalOffsets.length;
    this.#lines.push(`A ${n} ${queueOffset} ${physicalOffsets.join()}`);
  }

  refuse(n: number, code: number): void {
    this.#lines.push(`R ${n} ${code}`);
  }

  progress(topic: string, queueId: number, offset: number): void {
    this.#lines.push(`O ${topic} ${queueId} ${offset}`);
  }

  write(file: string, life: number, sent: readonly number[]): void {
    appendFileSync(file, `${[`L ${life} ${sent.join()}`, ...this.#lines].join('\n')}\n`);
  }
}

/** All that must be so after the lives whose manifests were read. */
export class Expectation {
  readonly seed: number;
  /** Acknowledged messages, by id. */
  readonly acknowledged: Map<string, Place> = new Map();
  /** Refused requests, as `life.n`. */
  readonly refused: Set<string> = new Set();
  /** Requests that each connection sent, by life. */
  readonly sent: Map<number, number[]> = new Map();
  /** Highest progress sent, by `topic/queueId`. */
  readonly progress: Map<string, number> = new Map();

  constructor(seed: number) {
    this.seed = seed;
  }

  /** Takes over a manifest file. */
  read(file: string): void {
    let life = -1;
    for (const line of readFileSync(file, 'utf8').split('\n')) {
      const [kind, first = '', second = '', third = ''] = line.split(' ');
      if (kind === 'L') {
        life = Number(first);
        this.sent.set(life, second.split(',').map(Number));
      } else if (kind === 'A') {
        this.acknowledge(life, Number(first), Number(second), third.split(',').map(Number));
      } else if (kind === 'R') {
        this.refused.add(`${life}.${first}`);
      } else if (kind === 'O') {
        const key = `${first}/${second}`;
        this.progress.set(key, Math.max(this.progress.get(key) ?? 0, Number(third)));
      }
    }
  }

  acknowledge(life: number, n: number, queueOffset: number, physicalOffsets: readonly number[]): void {
    const { topic, queueId, members } = draftOf(this.seed, life, n);
    for (let i = 0; i < members.length; i++) {
      const physicalOffset = physicalOffsets[i] ?? -1;
      this.acknowledged.set(members[i]!.id, { topic, queueId, queueOffset: queueOffset + i, physicalOffset });
    }
  }
}
