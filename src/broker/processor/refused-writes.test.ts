import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { type Answer, BrokerFixture, FakeChannel } from '../broker-fixture.test.support.ts';
import { Sender } from './sender.test.support.ts';

const NO_WAIT = 'WAIT\u0001false\u0002';
/** Until a disk that was full is tried again. */
const RETRY_MS = 20_000;

class World {
  readonly broker: BrokerFixture;
  readonly #sender: Sender;
  readonly #channel = new FakeChannel();

  private constructor(broker: BrokerFixture) {
    this.broker = broker;
    this.#sender = new Sender(broker);
  }

  static async open(): Promise<World> {
    const broker = await BrokerFixture.open();
    broker.context.topics.load();
    return new World(broker);
  }

  send(bytes: number, properties: string): Promise<Answer> {
    return this.#sender.ask({ i: properties }, 'x'.repeat(bytes), this.#channel);
  }

  /** The end of the server's turn. */
  endTurn(): void {
    this.#sender.endTurn();
  }

  /** The code of an answer, should it come by itself. */
  async code(answer: Promise<Answer>): Promise<number | undefined> {
    let code: number | undefined;
    void answer.then((got) => {
      code = got.code;
    });
    for (let turn = 0; turn < 10; turn++) await setImmediate();
    return code;
  }
}

test('a send behind others whose write failed is answered when it is written, though the log ended behind it once', async () => {
  const w = await World.open();
  for (const properties of ['', NO_WAIT]) {
    const fault = w.broker.fs.fail({ operation: 'write', path: 'commitlog', code: 'DISK_FULL' });
    const refused = [w.send(1000, properties), w.send(1000, properties)];
    w.endTurn();
    for (const answer of refused) assert.equal(await w.code(answer), 14);
    fault.clear();
    w.broker.clock.advance(RETRY_MS);
    const answer = w.send(1, properties);
    w.endTurn();
    assert.equal(await w.code(answer), 0);
  }
  await w.broker.context.store.close();
});

test('a send whose write fails before its turn is over is refused, also when others are written in its place', async () => {
  const w = await World.open();
  // The log's file is there then.
  const first = w.send(1, NO_WAIT);
  w.endTurn();
  assert.equal(await w.code(first), 0);
  for (const properties of ['', NO_WAIT]) {
    const fault = w.broker.fs.fail({ operation: 'write', path: 'commitlog', code: 'DISK_FULL' });
    const lost = w.send(100, properties);
    // As when something else of the broker was put earlier in the turn.
    w.broker.context.store.endTurn();
    assert.equal(fault.hits, 1);
    fault.clear();
    w.broker.clock.advance(RETRY_MS);
    const stored = w.send(2000, properties);
    w.endTurn();
    assert.deepEqual([await w.code(lost), await w.code(stored)], [14, 0]);
  }
  await w.broker.context.store.close();
});
