// The texts of pop consumption against what a Java 5.5.0 broker and client wrote (golden store 550-plain-clean, golden frames `pop`).

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as pop from './index.ts';

const CHECK_POINT =
  '{"bm":0,"bn":"golden-a","c":"GID_pop","d":[0,1,2,3,4,5],"it":30000,"n":6,"pt":1795992342847,"q":0,' +
  '"reviveTime":1795992372847,"ro":0,"so":0,"sp":false,"t":"GoldenPop"}';
const ACK = '{"ao":5,"bn":"golden-a","c":"GID_pop","pt":1795992342847,"q":1,"so":0,"t":"GoldenPop"}';
const HANDLE = '2 1795994163731 20000 0 0 golden-a 1 2';

test('a check point of a Java broker is read and written again to the letter', () => {
  const ck = pop.decodeCheckPoint(CHECK_POINT)!;
  assert.deepEqual(ck, {
    startOffset: 0,
    popTime: 1795992342847,
    invisibleTimeMs: 30000,
    bitMap: 0,
    num: 6,
    queueId: 0,
    topic: 'GoldenPop',
    group: 'GID_pop',
    reviveOffset: 0,
    offsetDiffs: [0, 1, 2, 3, 4, 5],
    brokerName: 'golden-a',
    rePutTimes: undefined,
    suspend: false,
  });
  assert.equal(pop.encodeCheckPoint(ck), CHECK_POINT);
  assert.equal(pop.ckUniqueId(ck), 'GoldenPop@0@0@GID_pop@1795992342847@golden-a@ck');
  assert.equal(pop.reviveTimeOf(ck), 1795992372847);
  const again = pop.encodeCheckPoint({ ...ck, rePutTimes: '3', suspend: true, offsetDiffs: [] });
  assert.equal(
    again,
    CHECK_POINT.replace('"d":[0,1,2,3,4,5],', '').replace('"so":0,"sp":false', '"rp":"3","so":0,"sp":true'),
  );
  assert.equal(pop.rePutTimesOf(pop.decodeCheckPoint(again)!), 3);
  assert.equal(pop.rePutTimesOf({ ...ck, rePutTimes: 'x' }), 127);
});

test('so are acknowledgements, single and in batches, and those with long names', () => {
  const ack = pop.decodeAckMsg(ACK)!;
  assert.equal(pop.encodeAckMsg(ack), ACK);
  assert.equal(pop.ackUniqueId(ack), 'GoldenPop@1@5@GID_pop@1795992342847@golden-a@ack');
  const long = '{"ackOffset":5,"brokerName":"golden-a","consumerGroup":"GID_pop","popTime":1795992342847,"queueId":1,';
  assert.deepEqual(pop.decodeAckMsg(`${long}"startOffset":0,"topic":"GoldenPop"}`), ack);
  const batch = { ...ack, ackOffset: -1, ackOffsets: [3, 4] };
  const json = ACK.replace('"ao":5', '"ao":-1,"aol":[3,4]');
  assert.equal(pop.encodeBatchAckMsg(batch), json);
  assert.deepEqual(pop.decodeBatchAckMsg(json), batch);
  assert.equal(pop.batchAckUniqueId(batch), 'GoldenPop@1@[3, 4]@GID_pop@1795992342847@bAck');
  // As the merge buffer of a Java broker leaves them.
  assert.equal(pop.encodeBatchAckMsg({ ...batch, ackOffset: 0, brokerName: undefined }).includes('bn'), false);
});

test('what is no check point and no acknowledgement is said to be none', () => {
  const odd = ['', '{', '[]', 'null', '1', '{"t":"T"}', '{"t":"T","c":1}', '{"t":"T","c":"G","so":1.5}'];
  for (const json of [...odd, '{"t":"T","c":"G","so":1e300}', '{"t":"T","c":"G","d":[1,"x"]}']) {
    assert.equal(pop.decodeCheckPoint(json), undefined, json);
  }
  for (const json of [...odd, '{"t":"T","c":"G","aol":{}}']) assert.equal(pop.decodeBatchAckMsg(json), undefined, json);
});

test('the place of an acknowledgement goes by the offsets, which a filter may have torn apart', () => {
  const ck = { ...pop.decodeCheckPoint(CHECK_POINT)!, startOffset: 10, offsetDiffs: [0, 4, 9], num: 3 };
  assert.deepEqual(
    [9, 10, 11, 14, 19, 20].map((offset) => pop.indexOfAck(ck, offset)),
    [-1, 0, -1, 1, 2, -1],
  );
  assert.deepEqual(
    [0, 1, 2].map((index) => pop.offsetByIndex(ck, index)),
    [10, 14, 19],
  );
  const old = { ...ck, offsetDiffs: [] };
  assert.deepEqual(
    [9, 10, 12, 13].map((offset) => pop.indexOfAck(old, offset)),
    [-1, 0, 2, -1],
  );
});

test('a receipt handle is read and written', () => {
  const handle = pop.parseReceiptHandle(HANDLE);
  assert.ok(typeof handle !== 'string');
  assert.deepEqual(
    [handle.startOffset, handle.popTime, handle.invisibleTimeMs, handle.reviveQueueId, handle.retryFlag],
    [2, 1795994163731, 20000, 0, '0'],
  );
  assert.deepEqual([handle.brokerName, handle.queueId, handle.queueOffset], ['golden-a', 1, 2]);
  assert.equal(pop.receiptHandleText(handle), HANDLE);
  assert.equal(pop.isOrderHandle(handle), false);
  const short = pop.parseReceiptHandle('0 1 2 999 1 b');
  assert.ok(typeof short !== 'string' && pop.isOrderHandle(short) && short.queueOffset === undefined);
});

test('a handle that is none is refused in RocketMQ’s words', () => {
  assert.equal(pop.parseReceiptHandle(''), 'getBrokerName fail, extraInfoStrs length 1');
  assert.equal(pop.parseReceiptHandle('bad', true), 'getReviveQid fail, extraInfoStrs length 1');
  assert.equal(pop.parseReceiptHandle('1 2 3 4', true), 'getBrokerName fail, extraInfoStrs length 4');
  assert.equal(pop.parseReceiptHandle('1 2 3 4 0     '), 'getBrokerName fail, extraInfoStrs length 5');
  const long = '9223372036854775808';
  for (const text of [`${long} 2 3 4 0 b 0 0`, `1 ${long} 3 4 0 b 0 0`, `1 2 ${long} 4 0 b 0 0`]) {
    assert.equal(pop.parseReceiptHandle(text), `For input string: "${long}"`, text);
  }
  assert.equal(pop.parseReceiptHandle('1 2 3 2147483648 0 b 0 0'), 'For input string: "2147483648"');
  // A broker goes by the request's own queue and offset.
  for (const text of [`1 2 3 4 0 b 0x1 ${long}`, '1 2 3 4 0 b']) {
    const handle = pop.parseReceiptHandle(text);
    assert.ok(typeof handle !== 'string' && handle.queueId === -1 && handle.queueOffset === undefined);
  }
  assert.equal(pop.parseReceiptHandle('1  3 4 0 b 0 0'), 'For input string: ""');
  assert.equal(pop.parseReceiptHandle(' 1 2 3 4 0 b 0 0'), 'For input string: ""');
});

test('the texts of an answer to a pop', () => {
  const retry = '%RETRY%G_T';
  const starts = pop.addItem(pop.startOffsetItem('T', 1, 7), pop.startOffsetItem(retry, 0, 3));
  assert.equal(starts, '0 1 7;1 0 3');
  assert.deepEqual(
    pop.parseNumberInfo(starts),
    new Map([
      ['0@1', 7],
      ['1@0', 3],
    ]),
  );
  const offsets = pop.addItem(
    pop.messageOffsetsItem('T', 1, [7, 9, 11], 2),
    pop.messageOffsetsItem('%RETRY%G+T', 0, [3], 1),
  );
  assert.equal(offsets, '0 1 7,9;2 0 3');
  assert.deepEqual(
    pop.parseMessageOffsets(offsets),
    new Map([
      ['0@1', [7, 9]],
      ['2@0', [3]],
    ]),
  );
  assert.equal(pop.infoKey(retry, 0), '1@0');
  const counts = pop.addItem(pop.queueOrderCountItem('T', 0, 0), pop.offsetOrderCountItem('T', 0, 5, 2));
  assert.equal(counts, '0 0 0;0 qo0%5 2');
  assert.deepEqual(
    pop.parseNumberInfo(counts),
    new Map([
      ['0@0', 0],
      ['0@qo0%5', 2],
    ]),
  );
  for (const text of ['0 1', '0 1 x', '0 1 2;0 1 3', '0 1 2 3']) assert.equal(pop.parseNumberInfo(text), undefined);
  assert.equal(pop.parseMessageOffsets('0 1 2,'), undefined);
  assert.deepEqual(pop.parseMessageOffsets(''), new Map());
});

test('retry topics of both kinds', () => {
  assert.equal(pop.popRetryTopic('T', 'G', false), '%RETRY%G_T');
  assert.equal(pop.popRetryTopic('T', 'G', true), '%RETRY%G+T');
  assert.deepEqual(['T', '%RETRY%G_T', '%RETRY%G+T', 'a+b'].map(pop.retryFlagOf), ['0', '1', '2', '0']);
  assert.deepEqual(
    ['0', '1', '2', '3'].map((flag) => pop.realTopicOf('T', 'G', flag)),
    ['T', '%RETRY%G_T', '%RETRY%G+T', undefined],
  );
  for (const topic of ['T', '%RETRY%G_T', '%RETRY%G+T']) assert.equal(pop.normalTopicOf(topic, 'G'), 'T');
  assert.equal(pop.normalTopicOf('%RETRY%G', 'G'), '%RETRY%G');
  assert.deepEqual(pop.splitRetryTopicV2('%RETRY%G_1+T_2'), { topic: 'T_2', group: 'G_1' });
  assert.equal(pop.splitRetryTopicV2('%RETRY%G_T'), undefined);
  assert.equal(pop.reviveTopic('C'), 'rmq_sys_REVIVE_LOG_C');
  assert.equal(pop.popQueueKey('T', 'G', 3), 'T@G@3');
});

test('the body of a batch acknowledgement; its bits are those of a Java BitSet', () => {
  // BitSet {0, 1, 9}: toByteArray() is 03 02.
  assert.equal(pop.encodeBits([0, 1, 9]), 'AwI=');
  assert.deepEqual(pop.decodeBits('AwI='), [0, 1, 9]);
  assert.deepEqual(pop.decodeBits(pop.encodeBits([])), []);
  const body = {
    brokerName: 'b',
    acks: [
      {
        group: 'G',
        topic: 'T',
        retryFlag: '0',
        startOffset: 5,
        queueId: 1,
        reviveQueueId: 2,
        popTime: 3,
        invisibleTimeMs: 4,
        bits: [0, 31],
      },
    ],
  };
  const json = pop.encodeBatchAcks(body);
  assert.equal(
    json,
    '{"acks":[{"b":"AQAAgA==","c":"G","it":4,"pt":3,"q":1,"r":"0","rq":2,"so":5,"t":"T"}],"brokerName":"b"}',
  );
  assert.deepEqual(pop.decodeBatchAcks(json), body);
  assert.deepEqual(pop.decodeBatchAcks('{}'), { brokerName: undefined, acks: [] });
  for (const bad of ['{', '{"acks":1}', '{"acks":[1]}', '{"acks":[null]}', '{"acks":[{"c":"G","t":"T"}]}']) {
    assert.equal(typeof pop.decodeBatchAcks(bad), 'string', bad);
  }
  const huge = pop.decodeBits('/'.repeat(1_000_000));
  assert.equal(huge.length <= 65_536, true);
});
