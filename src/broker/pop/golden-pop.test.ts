// What a Java pop consumer asked a Java 5.5.0 broker, and what it was answered (recorded on the wire). Our answers must be equal field by
// field; the order in which queues are visited is chance, so the items of the texts, and the messages, are compared by queue.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { decodeMessages, parseProperties } from '../../message/index.ts';
import { RequestCode } from '../../remoting/index.ts';
import { messageWith } from '../broker-fixture.test.support.ts';
import { PopWorld } from './pop-world.test.support.ts';

const root = import.meta.dirname.replace(/\/(dist|\.build\/[^/]+)\/src\/.*$/, '');
const FIXTURE = `${root}/test/fixtures/broker-frames/java-5.5.0-pop.jsonl`;

interface Exchange {
  t: number;
  answered: number;
  code: number;
  ext: Record<string, string>;
  body?: string;
  answer: { code: number; remark: string | null; ext: Record<string, string> | null; body?: string };
}

const exchanges = readFileSync(FIXTURE, 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Exchange);

/** When it was answered; a pop may have waited until then. */
const momentOf = ({ answer, answered }: Exchange): number => Number(answer.ext?.['popTime'] ?? answered);

/** Texts of items in one order, and the fields, too. */
function sorted(ext: Record<string, string> | null): Record<string, string> {
  const items = (text: string): string => text.split(';').sort().join(';');
  return Object.fromEntries(
    Object.entries(ext ?? {})
      .sort()
      .map(([name, value]) => [name, name.endsWith('OffsetInfo') ? items(value) : value]),
  );
}

/** What stays of messages when places and times are left out. */
function essence(bytes: Uint8Array): object[] {
  return decodeMessages(bytes)
    .map(({ topic, queueId, queueOffset, body, properties, bornTimestamp, reconsumeTimes }) => ({
      topic,
      place: `${queueId} ${queueOffset}`,
      body: Buffer.from(body).toString(),
      properties: [...properties],
      bornTimestamp,
      reconsumeTimes,
    }))
    .sort((a, b) => (a.place < b.place ? -1 : 1));
}

test('recorded pops, acknowledgements and changes are answered as a Java broker answered them', async () => {
  const w = await PopWorld.open({
    now: exchanges[0]!.t - 1000,
    broker: {
      brokerClusterName: 'GoldenCluster',
      brokerName: 'golden-a',
      brokerIP1: '127.0.0.2',
      listenPort: 30911,
      reviveQueueNum: 1,
    },
  });
  w.context.topics.createInSend('FramePop', 'TBW102', 'test', 2, 0);
  w.context.topics.persistIfChanged();
  const differences: string[] = [];
  let compared = 0;
  for (const exchange of [...exchanges].sort((a, b) => momentOf(a) - momentOf(b))) {
    const { answer, body, code, ext } = exchange;
    w.clock.advance(momentOf(exchange) - w.clock.now());
    if (code === RequestCode.SEND_MESSAGE_V2) {
      const properties = parseProperties(ext['i']!)
        .set('MSG_REGION', 'DefaultRegion')
        .set('TRACE_ON', 'false')
        .set('CLUSTER', 'GoldenCluster');
      const bytes = Buffer.from(body!, 'base64');
      const message = { topic: ext['b']!, queueId: Number(ext['e']), bornTimestamp: Number(ext['g']), properties };
      await w.broker.put(messageWith({ ...message, body: bytes }));
      await w.broker.dispatched();
      continue;
    }
    const ours = await w.ask(code, ext);
    compared++;
    const java = {
      code: answer.code,
      ext: sorted(answer.ext),
      messages: essence(Buffer.from(answer.body ?? '', 'base64')),
    };
    const own = { code: ours.code, ext: sorted(ours.ext), messages: essence(ours.body) };
    // RocketMQ: names the exception and its place, too.
    const isSaid = answer.code === 1 ? answer.remark!.includes(ours.remark!) : answer.remark === ours.remark;
    if (JSON.stringify(java) !== JSON.stringify(own) || !isSaid) {
      differences.push(JSON.stringify({ code, ext, java, remark: answer.remark, own, ownRemark: ours.remark }));
    }
  }
  assert.equal(differences.join('\n'), '');
  assert.equal(compared, 9);
});
