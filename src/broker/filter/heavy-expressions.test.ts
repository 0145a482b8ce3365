import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { RequestCode, ResponseCode } from '../../remoting/index.ts';
import { type Answer, BrokerFixture, FakeChannel } from '../broker-fixture.test.support.ts';
import { Arrivals } from '../longpolling/arrivals.ts';
import { PopWaits } from '../longpolling/pop-waits.ts';
import { PullRequestHold } from '../longpolling/pull-request-hold.ts';
import { registerClientManage } from '../processor/client-manage.ts';
import { NotificationProcessor } from '../processor/notification.ts';
import { PopMessageProcessor } from '../processor/pop-message.ts';
import { PullMessageProcessor } from '../processor/pull-message.ts';
import { LONGEST_EXPRESSION } from './expression-filter.ts';

/** A connection that tells whether its input is held. */
class HeldChannel extends FakeChannel {
  holds = 0;
  held = false;

  override holdInput(): void {
    this.holds++;
    this.held = true;
  }

  override resumeInput(): void {
    this.held = false;
  }
}

/** As long as an expression may be. */
function heavy(name: string): string {
  const term = `${name} = 'x' OR `;
  const end = `${name} = 'y'`;
  return term.repeat(Math.floor((LONGEST_EXPRESSION - end.length) / term.length)) + end;
}

async function open(): Promise<BrokerFixture> {
  const broker = await BrokerFixture.open({ broker: { enablePropertyFilter: true } });
  const { clock, store } = broker.context;
  new PullMessageProcessor(broker.context, new PullRequestHold(clock, store)).register(broker);
  registerClientManage(broker, broker.context);
  return broker;
}

function heartbeat(broker: BrokerFixture, expressions: readonly string[], channel: FakeChannel): Promise<Answer> {
  const subscriptionDataSet = expressions.map((subString, i) => ({
    topic: `T${i}`,
    subString,
    expressionType: 'SQL92',
    subVersion: 1,
    tagsSet: [],
    codeSet: [],
  }));
  const consumer = {
    groupName: 'G',
    consumeType: 'CONSUME_PASSIVELY',
    messageModel: 'CLUSTERING',
    consumeFromWhere: 'CONSUME_FROM_LAST_OFFSET',
    subscriptionDataSet,
  };
  const body = JSON.stringify({ clientID: 'c', consumerDataSet: [consumer], producerDataSet: [] });
  return broker.ask(RequestCode.HEART_BEAT, {}, body, channel);
}

/** Turns of the loop until it is answered. */
async function turnsOf(broker: BrokerFixture, answer: Promise<Answer>): Promise<number> {
  let done = false;
  void answer.then(() => {
    done = true;
  });
  for (let turns = 0; ; turns++) {
    await setImmediate();
    if (done) return turns;
    broker.clock.advance(1);
  }
}

test('a heartbeat with many expressions of the greatest length takes a turn for each, and holds its own connection alone', async () => {
  const broker = await open();
  const channel = new HeldChannel();
  const expressions = Array.from({ length: 12 }, (_, i) => heavy(`p${i}`));
  expressions.push(`this is no expression ${'('.repeat(10)}`);
  const answer = heartbeat(broker, expressions, channel);
  assert.equal(channel.held, true);
  assert.equal(broker.context.filters.find('T0', 'G'), undefined, 'nothing is registered before all are ready');
  const turns = await turnsOf(broker, answer);
  assert.ok(turns >= 11, `${turns} turns`);
  assert.equal((await answer).code, ResponseCode.SUCCESS);
  assert.equal(channel.held, false);
  for (let i = 0; i < 12; i++) assert.equal(broker.context.filters.find(`T${i}`, 'G')?.expression, expressions[i]);
  assert.equal(broker.context.filters.find('T12', 'G'), undefined, 'what cannot be read is not registered');
});

test('the next heartbeat with the same expressions, and one with a light one, are answered at once', async () => {
  const broker = await open();
  const channel = new HeldChannel();
  const expressions = [heavy('a'), heavy('b')];
  await turnsOf(broker, heartbeat(broker, expressions, channel));
  assert.equal(channel.holds, 1);
  assert.equal(await turnsOf(broker, heartbeat(broker, expressions, channel)), 0);
  assert.equal(await turnsOf(broker, heartbeat(broker, ["a = 'x'"], new HeldChannel())), 0);
  assert.equal(channel.holds, 1);
});

test('a client that has gone meanwhile is not registered', async () => {
  const broker = await open();
  const channel = new HeldChannel();
  void heartbeat(broker, [heavy('a'), heavy('b')], channel);
  channel.close('gone');
  for (let turn = 0; turn < 10; turn++) {
    await setImmediate();
    broker.clock.advance(1);
  }
  assert.equal(broker.context.consumers.find('G'), undefined);
  assert.equal(channel.held, false);
});

test('a pull, or a check, with an expression that takes long lets others have their turn before its connection goes on', async () => {
  const broker = await open();
  broker.context.topics.createInSend('T', 'TBW102', 'test', 1, 0);
  broker.context.topics.persistIfChanged();
  broker.context.groups.findOrCreate('G');
  const channel = new HeldChannel();
  const pull = (subscription: string): Promise<Answer> =>
    broker.ask(
      RequestCode.PULL_MESSAGE,
      {
        consumerGroup: 'G',
        topic: 'T',
        queueId: 0,
        queueOffset: 0,
        maxMsgNums: 32,
        sysFlag: 4,
        subscription,
        expressionType: 'SQL92',
      },
      '',
      channel,
    );
  await pull("a = 'x'");
  assert.equal(channel.holds, 0);
  await pull(heavy('a'));
  assert.deepEqual([channel.holds, channel.held], [1, true]);
  await setImmediate();
  assert.equal(channel.held, false);
  await pull(heavy('a'));
  assert.equal(channel.holds, 1, 'it is known now');
  const subscriptionData = { subString: heavy('b'), expressionType: 'SQL92', topic: 'T' };
  const check = JSON.stringify({ clientId: 'c', group: 'G', subscriptionData });
  assert.equal((await broker.ask(RequestCode.CHECK_CLIENT_CONFIG, {}, check, channel)).code, ResponseCode.SUCCESS);
  assert.equal(channel.holds, 2);
});

test('a pop, or a notification, with an expression that takes long holds its connection, too', async () => {
  const broker = await BrokerFixture.open({ broker: { useMessageFilterForNotification: true } });
  const { context } = broker;
  new PopMessageProcessor(context).register(broker);
  new NotificationProcessor(context, new PopWaits(context, new Arrivals(context.store))).register(broker);
  context.topics.createInSend('T', 'TBW102', 'test', 1, 0);
  context.topics.persistIfChanged();
  const ask = async (code: number, exp: string): Promise<HeldChannel> => {
    const channel = new HeldChannel();
    const fields = { consumerGroup: 'G', topic: 'T', queueId: 0, maxMsgNums: 32, invisibleTime: 1000 };
    void broker.ask(code, { ...fields, pollTime: 0, bornTime: 0, exp, expType: 'SQL92' }, '', channel);
    await setImmediate();
    return channel;
  };
  for (const code of [RequestCode.POP_MESSAGE, RequestCode.NOTIFICATION]) {
    for (const exp of [heavy('a'), `${heavy('b')} AND AND`]) {
      const channel = await ask(code, exp);
      assert.deepEqual([channel.holds, channel.held], [1, false], `${code}`);
    }
    assert.equal((await ask(code, heavy('a'))).holds, 0, 'it is known now');
    assert.equal((await ask(code, "a = 'x'")).holds, 0);
  }
});
