// Each request with each of its fields broken in each way (bad-fields.ts), against a broker and a name server, and beside what a Java
// broker answered to the same.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { CollectingLogger } from '../../src/common/index.ts';
import { RequestCode, ResponseCode } from '../../src/remoting/index.ts';
import { startBroker } from '../../src/testing/index.ts';
import { askAll, badRequests, prepare, type RecordedAnswer, SOUND } from './bad-fields.ts';
import { WirePeer } from './wire-peer.ts';

const root = import.meta.dirname.replace(/\/(dist|\.build\/[^/]+)\/test\/e2e$/, '');
const NOT_SUPPORTED = 3;

test('no request is served that the table of broken requests does not know', async () => {
  const server = await startBroker();
  const unknown: string[] = [];
  for (const [at, address] of [
    ['broker', server.address],
    ['namesrv', server.namesrvAddress],
  ] as const) {
    const peer = await WirePeer.open(address);
    let opaque = 1;
    for (const [name, code] of Object.entries(RequestCode)) {
      const known = SOUND[name as keyof typeof RequestCode];
      if (known?.at === at) continue;
      const { code: answer } = await peer.call(code, opaque++);
      // What a broker asks of clients is in no table here; neither are requests that both serve, and are asked of one.
      if (answer !== NOT_SUPPORTED && known === undefined) unknown.push(`${name} at the ${at}`);
    }
    await peer.close();
  }
  await server.stop();
  assert.deepEqual(unknown, []);
});

test('each field missing, mistyped or too long, and each body that is none, is answered as Java answers it, and harms nobody', async () => {
  const java = JSON.parse(readFileSync(`${root}/test/fixtures/bad-fields.json`, 'utf8')) as Record<
    string,
    RecordedAnswer
  >;
  const logger = new CollectingLogger();
  const config = { brokerName: 'interop-broker', brokerClusterName: 'InteropCluster' };
  const server = await startBroker({ logger, config });
  const peer = await WirePeer.open(server.address);
  await prepare(peer);
  const answers = await askAll({ broker: server.address, namesrv: server.namesrvAddress }, 20_000);
  const wrong: string[] = [];
  for (const { name } of badRequests()) {
    const [ours, theirs] = [answers.get(name)!, java[name]];
    const said = (answer: RecordedAnswer | undefined): string => `${answer?.code} ${answer?.remark}`;
    if (!isSame(name, ours, theirs)) wrong.push(`${name}: ${said(ours)}   Java: ${said(theirs)}`);
  }
  assert.equal((await peer.call(RequestCode.GET_MAX_OFFSET, 7, { topic: 'BadT', queueId: '0' })).code, 0);
  await peer.close();
  await server.stop();
  assert.deepEqual(
    logger.texts('error').filter((text) => text.startsWith('the handler of request')),
    [],
  );
  assert.deepEqual(wrong, []);
});

/** Where our answer differs on purpose: it is a refusal, too, or refuses what Java does with nothing in the field's place. */
const OTHERWISE: ReadonlyArray<[request: RegExp, ours: number, java: number]> = [
  // Java registers, unregisters, resets or deletes what has no name, takes a number that it cannot read for absent, and a body that
  // is none for an empty one.
  [/ (without \w+|\w+=".*"|body .*)$/, ResponseCode.SYSTEM_ERROR, ResponseCode.SUCCESS],
  // Java runs into a NullPointerException or a BufferUnderflowException, for which a client tries elsewhere.
  [/^SEND_(MESSAGE|MESSAGE_V2|BATCH_MESSAGE) body /, ResponseCode.MESSAGE_ILLEGAL, ResponseCode.SYSTEM_ERROR],
  [/^SEND_REPLY_MESSAGE(_V2)? without (topic|b)$/, ResponseCode.SYSTEM_ERROR, ResponseCode.INVALID_PARAMETER],
  // Java makes an object of a reference to nothing.
  [/ body \{"\$ref"/, ResponseCode.SYSTEM_ERROR, ResponseCode.INVALID_PARAMETER],
  // There is nothing left to be popped by then.
  [/^POP_MESSAGE \w+="/, ResponseCode.SYSTEM_ERROR, ResponseCode.POLLING_TIMEOUT],
  [/^PEEK_MESSAGE \w+="/, ResponseCode.SYSTEM_ERROR, ResponseCode.PULL_NOT_FOUND],
  // Java has popped it all, by requests that are refused here.
  [/^PEEK_MESSAGE without queueId$/, ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND],
  // A setting that is read at the start only.
  [/^UPDATE_NAMESRV_CONFIG without fields$/, ResponseCode.NO_PERMISSION, ResponseCode.SUCCESS],
];
const EXCEPTION = /^(java|com|org)\.|^Cannot invoke /;

/**
 * The same code; and where Java says more than which exception it ran into, its words, behind which ours may go on, unless ours name
 * the field.
 */
function isSame(name: string, ours: RecordedAnswer, theirs: RecordedAnswer | undefined): boolean {
  if (theirs === undefined) return false;
  if (ours.code !== theirs.code) {
    return OTHERWISE.some(([request, a, b]) => request.test(name) && ours.code === a && theirs.code === b);
  }
  if (theirs.code === 0 || theirs.remark === null || EXCEPTION.test(theirs.remark)) return true;
  if (ours.remark?.startsWith('the custom field <') === true) return true;
  return (ours.remark ?? '').startsWith(theirs.remark.replace(/:\d+$/, ''));
}
