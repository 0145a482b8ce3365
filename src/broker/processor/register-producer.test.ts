import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RequestCode } from '../../remoting/index.ts';
import { BrokerFixture, FakeChannel } from '../broker-fixture.test.support.ts';
import { registerClientManage } from './client-manage.ts';

test('enableRegisterProducer=false keeps no producers where nobody will ask them about a transaction', async () => {
  for (const [enableRegisterProducer, rejectTransactionMessage, kept] of [
    [true, true, true],
    [false, false, true],
    [false, true, false],
  ] as const) {
    const broker = await BrokerFixture.open({ broker: { enableRegisterProducer, rejectTransactionMessage } });
    registerClientManage(broker, broker.context);
    const body = JSON.stringify({ clientID: 'c', consumerDataSet: [], producerDataSet: [{ groupName: 'P' }] });
    const channel = new FakeChannel();
    assert.equal((await broker.ask(RequestCode.HEART_BEAT, {}, body, channel)).code, 0);
    const { producers, traffic } = broker.context;
    assert.equal(producers.find('P') !== undefined, kept);
    assert.equal(traffic.producerRegistrations.of('DefaultCluster').requests, 1);
  }
});
