import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeMessages } from '../../message/index.ts';
import { RequestCode } from '../../remoting/index.ts';
import { numbered } from '../clock-world.test.support.ts';
import { PopWorld } from '../pop/pop-world.test.support.ts';
import { registerPeekMessage } from './peek-message.ts';

test('a peek shows what would be popped next, and takes nothing', async () => {
  const w = await PopWorld.open();
  registerPeekMessage(w.broker, w.context);
  await w.send(numbered(5));
  await w.pop({ maxMsgNums: 2 });
  const wants = { consumerGroup: 'G', topic: 'T', queueId: -1, maxMsgNums: 2 };
  for (let i = 0; i < 2; i++) {
    const answer = await w.ask(RequestCode.PEEK_MESSAGE, wants);
    assert.deepEqual([answer.code, answer.remark, answer.ext['restNum']], [0, 'FOUND', '3']);
    assert.deepEqual(
      decodeMessages(answer.body).map(({ body }) => Buffer.from(body).toString()),
      ['m2', 'm3'],
    );
  }
  await w.pop();
  const none = await w.ask(RequestCode.PEEK_MESSAGE, { ...wants, queueId: 0 });
  assert.deepEqual([none.code, none.remark, none.ext['restNum']], [19, 'NO_MESSAGE_IN_QUEUE', '0']);
});

test('a peek takes no more bytes of all queues than of one', async () => {
  const w = await PopWorld.open({ queues: 8, store: { mappedFileSizeCommitLog: 1024 * 1024 } });
  registerPeekMessage(w.broker, w.context);
  for (let queueId = 0; queueId < 8; queueId++) await w.settle(w.send(['x'.repeat(700_000)], { queueId }));
  await w.pop({ maxMsgNums: 0 });
  const wants = { consumerGroup: 'G', topic: 'T', queueId: -1, maxMsgNums: 1000 };
  const answer = await w.settle(w.ask(RequestCode.PEEK_MESSAGE, wants));
  assert.deepEqual([answer.code, answer.ext['restNum']], [0, '8']);
  assert.ok(answer.body.length < 5_000_000, String(answer.body.length));
});

test('a peek that may not be is refused, and makes no group', async () => {
  const w = await PopWorld.open();
  registerPeekMessage(w.broker, w.context);
  await w.pop();
  const wants = { consumerGroup: 'G', topic: 'T', queueId: -1, maxMsgNums: 2 };
  const code = async (fields: Record<string, string | number>): Promise<number> =>
    (await w.ask(RequestCode.PEEK_MESSAGE, { ...wants, ...fields })).code;
  assert.equal(await code({ topic: 'Never' }), 17);
  assert.equal(await code({ queueId: 1 }), 29);
  assert.equal(await code({ consumerGroup: 'Nobody' }), 26);
  assert.equal(w.context.groups.has('Nobody'), false);
  w.context.groups.disableConsume('G');
  assert.equal(await code({}), 16);
  w.context.config.brokerPermission = 2;
  assert.equal(await code({}), 16);
});
