// Sends to a broker without sockets: the processor with what it needs, and the ends of a server's turns.

import { UniqueIds } from '../../message/index.ts';
import { RequestCode } from '../../remoting/index.ts';
import type { Answer, BrokerFixture, FakeChannel } from '../broker-fixture.test.support.ts';
import type { SendDeduplication } from '../dedup/send-deduplication.ts';
import { SendMessageProcessor } from './send-message.ts';

/** Fields of SEND_MESSAGE_V2 by their short names: b topic, e queue id, f sysFlag, i properties, j reconsumeTimes, m batch. */
export type SendFields = Record<string, string | number | boolean>;

/** A header of SEND_MESSAGE_V2: a message for queue 0 of T, but for what `fields` says. */
export function sendHeader(fields: SendFields = {}): SendFields {
  return { a: 'P', b: 'T', c: 'TBW102', d: 4, e: 0, f: 0, g: 0, h: 0, i: '', j: 0, k: false, m: false, ...fields };
}

/** Ids for what a broker makes itself. */
export function testIds(): UniqueIds {
  return new UniqueIds({ ip: new Uint8Array([127, 0, 0, 1]), pid: 1, salt: 1 }, 0);
}

/** Sends to one broker. */
export class Sender {
  readonly #broker: BrokerFixture;
  readonly #processor: SendMessageProcessor;

  constructor(broker: BrokerFixture, once?: SendDeduplication) {
    this.#broker = broker;
    this.#processor = new SendMessageProcessor(broker.context, testIds(), undefined, once);
    this.#processor.register(broker);
    broker.turnEnds.push(() => this.endTurn());
  }

  /** Asks for a send; the turn goes on. */
  ask(fields: SendFields, body: string | Uint8Array = 'x', channel?: FakeChannel): Promise<Answer> {
    return this.#broker.ask(RequestCode.SEND_MESSAGE_V2, sendHeader(fields), body, channel);
  }

  /** Asks for a send and ends the turn. */
  send(fields: SendFields, body: string | Uint8Array = 'x'): Promise<Answer> {
    const answer = this.ask(fields, body);
    this.endTurn();
    return answer;
  }

  /** The end of the server's turn. */
  endTurn(): void {
    this.#processor.endTurn();
    this.#broker.context.store.endTurn();
  }
}
