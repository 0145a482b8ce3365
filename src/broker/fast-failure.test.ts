import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { type HeldInput, RequestCode } from '../remoting/index.ts';
import { MessageStore } from '../store/index.ts';
import { type Answer, BrokerFixture } from './broker-fixture.test.support.ts';
import { ReplyMessageProcessor } from './processor/reply-message.ts';
import { SendMessageProcessor } from './processor/send-message.ts';
import { sendHeader, testIds } from './processor/sender.test.support.ts';

interface Setup {
  broker: BrokerFixture;
  held: { heldMs: number; heldConnections: number };
  store: { pressed: boolean };
}

/** A broker whose store is pressed or not as the test says. */
async function open(): Promise<Setup> {
  const broker = await BrokerFixture.open();
  const { context } = broker;
  context.topics.load();
  context.topics.createInSend('T', 'TBW102', 'test', 4, 0);
  context.topics.persistIfChanged();
  const store = { pressed: true };
  Object.defineProperties(context.store, {
    pressed: { get: () => store.pressed },
    pressedBy: { get: () => 'the disk stalls' },
  });
  assert.ok(context.store instanceof MessageStore);
  const held = { heldMs: 0, heldConnections: 0 } satisfies HeldInput;
  const send = new SendMessageProcessor(context, testIds(), held);
  send.register(broker);
  new ReplyMessageProcessor(context, send).register(broker);
  return { broker, held, store };
}

/** The answer, or undefined if the message was stored instead of being refused. */
async function send(broker: BrokerFixture, code: number): Promise<Answer | undefined> {
  let answer: Answer | undefined;
  // What is stored is answered by the turn's end, which a broker without a server has not.
  broker.ask(code, sendHeader(), 'x').then(
    (got) => (answer = got),
    () => {},
  );
  await turn();
  return answer;
}

test('B29: "broker busy": a send is refused only while what it waits for lasts, with the cause, the wait and the limit', async () => {
  for (const code of [RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_REPLY_MESSAGE_V2]) {
    const { broker, held, store } = await open();
    const { config } = broker.context;
    const stored = (): number => broker.context.store.maxOffsetInQueue('T', 0, false);
    held.heldMs = 230;
    held.heldConnections = 7;
    const refused = await send(broker, code);
    assert.equal(refused?.code, 2);
    assert.equal(
      refused.remark,
      '[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 230ms, size of queue: 7 ' +
        '(waitTimeMillsInSendQueue is 200 ms; the disk stalls)',
    );
    assert.equal(broker.context.stats.putFailed, 1);
    await turn();
    assert.equal(stored(), 0, 'a refused message is never stored');
    held.heldMs = 199;
    assert.notEqual((await send(broker, code))?.code, 2, 'it may still wait');
    held.heldMs = 5000;
    store.pressed = false;
    assert.notEqual((await send(broker, code))?.code, 2, 'nothing is in its way any more');
    store.pressed = true;
    config.waitTimeMillsInSendQueue = 6000;
    assert.notEqual((await send(broker, code))?.code, 2, 'the limit is what the setting says');
    config.waitTimeMillsInSendQueue = 200;
    config.brokerFastFailureEnable = false;
    assert.notEqual((await send(broker, code))?.code, 2, 'switched off');
    assert.equal(broker.context.stats.putFailed, 1);
  }
});
