// A producer sends again what it got no answer to: with send de-duplication that makes no second message, whatever happened in between.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { encodeBatch } from '../../src/message/index.ts';
import { RequestCode, ResponseCode } from '../../src/remoting/index.ts';
import { FakeClock, type StartBrokerOptions, startBroker, type TestBroker } from '../../src/testing/index.ts';
import { type Fields, type Frame, jsonRequest, ONEWAY, sendFields, until, WirePeer } from './wire-peer.ts';

const ON = { gantrySendDeduplicationEnable: true };
const { SEND_MESSAGE_V2: SEND, SEND_BATCH_MESSAGE: SEND_BATCH } = RequestCode;

class Sender {
  readonly server: TestBroker;
  readonly peer: WirePeer;
  opaque = 1;

  private constructor(server: TestBroker, peer: WirePeer) {
    this.server = server;
    this.peer = peer;
  }

  static async open(options: StartBrokerOptions = {}): Promise<Sender> {
    const server = await startBroker({ config: ON, ...options });
    return new Sender(server, await WirePeer.open(server.address));
  }

  ask(code: number, ext: Fields, body: Uint8Array | string = ''): Promise<Frame> {
    return this.peer.call(code, this.opaque++, ext, Buffer.from(body));
  }

  /** Sends one message with these properties. */
  send(properties: Record<string, string>, changes: Fields = {}): Promise<Frame> {
    return this.ask(SEND, fields(properties, changes), 'body');
  }

  batch(members: Array<{ id?: string; bytes?: number }>, changes: Fields = {}): Promise<Frame> {
    return this.ask(SEND_BATCH, fields({ UNIQ_KEY: 'whole' }, { m: 'true', ...changes }), batchOf(members));
  }

  async end(topic: string, queueId: number): Promise<number> {
    const answer = await this.ask(RequestCode.GET_MAX_OFFSET, { topic, queueId: String(queueId), committed: 'false' });
    return Number(answer.ext['offset']);
  }

  get duplicates(): number {
    return this.server.broker.context.stats.putDuplicates;
  }

  async stop(): Promise<void> {
    await this.peer.close();
    await this.server.stop();
  }

  /** Ends the broker, in one way or the other, and goes on with what the disk has. */
  async again(how: 'stop' | 'kill' | 'power cut', options: StartBrokerOptions = {}): Promise<Sender> {
    await this.peer.close();
    if (how !== 'stop') return Sender.open({ ...options, disk: await this.server.crash(how, 5) });
    await this.server.stop();
    return Sender.open({ ...options, disk: this.server.disk! });
  }
}

function fields(properties: Record<string, string>, changes: Fields = {}): Fields {
  const text = Object.entries(properties).map(([name, value]) => `${name}\u0001${value}\u0002`);
  return sendFields('T', { i: text.join(''), ...changes });
}

function batchOf(members: Array<{ id?: string; bytes?: number }>): Uint8Array {
  return encodeBatch(
    members.map(({ id, bytes = 4 }) => ({
      flag: 0,
      body: Buffer.alloc(bytes, 'b'),
      properties: Buffer.from(id === undefined ? '' : `UNIQ_KEY\u0001${id}\u0002`),
    })),
  );
}

/** Both answers name one place. */
function assertSame(first: Frame, second: Frame): void {
  assert.equal(first.code, 0, first.remark);
  assert.equal(second.code, 0, second.remark);
  const place = ({ msgId, queueId, queueOffset }: Fields): Fields => ({ msgId, queueId, queueOffset });
  assert.deepEqual(place(second.ext), place(first.ext));
}

describe('a message that is sent twice', () => {
  it('is stored once and answered twice with its first place; the copy is counted', async () => {
    const sender = await Sender.open();
    const first = await sender.send({ UNIQ_KEY: 'A1' });
    assertSame(first, await sender.send({ UNIQ_KEY: 'A1' }, { e: '2' }));
    const info = await sender.ask(RequestCode.GET_BROKER_RUNTIME_INFO, {});
    assert.equal((JSON.parse(info.body.toString()) as { table: Fields }).table['gantrySendDuplicates'], '1');
    assert.equal((await sender.send({ UNIQ_KEY: 'A1' }, { b: 'U' })).ext['queueOffset'], '0', 'another topic');
    assert.notEqual((await sender.send({ UNIQ_KEY: 'A2' })).ext['msgId'], first.ext['msgId']);
    await sender.send({});
    await sender.send({});
    sender.peer.write(jsonRequest(SEND, 900, fields({ UNIQ_KEY: 'A1' }), Buffer.from('body'), ONEWAY));
    assert.equal(await sender.end('T', 0), 4);
    assert.equal(await sender.end('T', 2), 0);
    assert.equal(sender.duplicates, 2);
    await sender.stop();
  });

  it('is stored twice with the setting off', async () => {
    const sender = await Sender.open({ config: {} });
    for (let i = 0; i < 2; i++) assert.equal((await sender.send({ UNIQ_KEY: 'A1' })).ext['queueOffset'], String(i));
    const info = await sender.ask(RequestCode.GET_BROKER_RUNTIME_INFO, {});
    assert.ok(!info.body.includes('gantrySendDuplicates'));
    await sender.stop();
  });

  for (const how of ['stop', 'kill'] as const) {
    it(`is known after a ${how === 'stop' ? 'restart' : 'kill -9'}: single, in a batch, delayed, timed, half of a transaction`, async () => {
      const clock = new FakeClock();
      const options = { clock, config: { ...ON, gantrySendDeduplicationWindowMs: 60_000 } };
      let sender = await Sender.open(options);
      await sender.send({ UNIQ_KEY: 'old' });
      clock.advance(50_000);
      const kinds: Array<() => Promise<Frame>> = [
        () => sender.send({ UNIQ_KEY: 'A1' }),
        () => sender.send({ UNIQ_KEY: 'A2', DELAY: '3' }, { e: '1' }),
        () => sender.send({ UNIQ_KEY: 'A3', TRAN_MSG: 'true', PGROUP: 'P' }, { e: '1', f: '4' }),
        () => sender.send({ UNIQ_KEY: 'A4', TIMER_DELAY_MS: '40000' }, { e: '1' }),
        () => sender.batch([{ id: 'B1' }, { id: 'B2' }, { id: 'B3' }]),
      ];
      const firsts: Frame[] = [];
      for (const kind of kinds) firsts.push(await kind());
      assert.equal(firsts.filter(({ ext }) => ext['recallHandle'] !== undefined).length, 1, 'of the timer message');
      const before = sender.server.broker.context.store.watermarks.wrote;
      sender = await sender.again(how, options);
      const msgIds = firsts.map((first) => String(first.ext['msgId']).replace(/[0-9A-F]{8}(?=[0-9A-F]{16}(,|$))/g, ''));
      for (const [i, kind] of kinds.entries()) {
        const { ext } = await kind();
        // The port in the id is the one of this start.
        assert.equal(String(ext['msgId']).replace(/[0-9A-F]{8}(?=[0-9A-F]{16}(,|$))/g, ''), msgIds[i]);
        assert.deepEqual(
          [ext['queueId'], ext['queueOffset']],
          [firsts[i]!.ext['queueId'], firsts[i]!.ext['queueOffset']],
        );
        assert.equal(ext['recallHandle'], firsts[i]!.ext['recallHandle']);
      }
      assert.equal(sender.server.broker.context.store.watermarks.wrote, before);
      assert.equal(sender.duplicates, 7);
      clock.advance(10_000);
      assert.notEqual((await sender.send({ UNIQ_KEY: 'old' })).ext['queueOffset'], '0', 'its minute is over');
      await sender.stop();
    });
  }

  it('what a power cut took is not remembered', async () => {
    let sender = await Sender.open();
    await sender.send({ UNIQ_KEY: 'A1' });
    const disk = sender.server.disk!;
    sender = await sender.again('power cut');
    const kept = await sender.end('T', 0);
    const answer = await sender.send({ UNIQ_KEY: 'A1' });
    assert.equal(answer.code, 0);
    assert.equal(answer.ext['queueOffset'], '0');
    assert.equal(sender.duplicates, kept);
    assert.equal(await sender.end('T', 0), 1);
    assert.ok(disk !== sender.server.disk);
    await sender.stop();
  });

  it('while the first waits for its sync the second waits for the same, and both are answered by it', async () => {
    const sender = await Sender.open({ storeConfig: { flushDiskType: 'SYNC_FLUSH' } });
    await sender.send({ UNIQ_KEY: 'A0' });
    const other = await WirePeer.open(sender.server.address);
    const held = sender.server.disk!.hold('sync', 'commitlog');
    const sent = (peer: WirePeer, opaque: number): void =>
      peer.write(jsonRequest(SEND, opaque, fields({ UNIQ_KEY: 'A1' }), Buffer.from('body')));
    sent(sender.peer, 500);
    await until(
      () => sender.server.broker.context.store.watermarks.wrote > sender.server.broker.context.store.watermarks.flushed,
    );
    sent(other, 501);
    await until(() => sender.duplicates === 1);
    assert.equal((await sender.ask(RequestCode.GET_MIN_OFFSET, { topic: 'T', queueId: '0' })).code, 0);
    assert.deepEqual(
      [...sender.peer.frames, ...other.frames].filter((frame) => frame.opaque >= 500),
      [],
    );
    held.end();
    assertSame(await sender.peer.answer(500), await other.answer(501));
    await other.close();
    await sender.stop();
  });

  it('a first one that could not be written is not remembered, and its copy is refused with it', async () => {
    const sender = await Sender.open();
    await sender.send({ UNIQ_KEY: 'A0' });
    const fault = sender.server.disk!.fail({ operation: 'write', path: 'commitlog', times: 1 });
    const one = jsonRequest(SEND, 500, fields({ UNIQ_KEY: 'A1' }), Buffer.from('body'));
    const two = jsonRequest(SEND, 501, fields({ UNIQ_KEY: 'A1' }), Buffer.from('body'));
    sender.peer.write(Buffer.concat([one, two]));
    for (const opaque of [500, 501]) {
      assert.equal((await sender.peer.answer(opaque)).code, ResponseCode.SERVICE_NOT_AVAILABLE);
    }
    assert.equal(fault.hits, 1);
    fault.clear();
    let answer = await sender.send({ UNIQ_KEY: 'A1' });
    while (answer.code === ResponseCode.SERVICE_NOT_AVAILABLE) answer = await sender.send({ UNIQ_KEY: 'A1' });
    assert.equal(answer.ext['queueOffset'], '1');
    assertSame(answer, await sender.send({ UNIQ_KEY: 'A1' }));
    await sender.stop();
  });

  it('after a failed sync no copy is answered with success', async () => {
    const sender = await Sender.open({ storeConfig: { flushDiskType: 'SYNC_FLUSH' } });
    await sender.send({ UNIQ_KEY: 'A0' });
    sender.server.disk!.fail({ operation: 'sync', path: 'commitlog', times: Number.POSITIVE_INFINITY });
    assert.notEqual((await sender.send({ UNIQ_KEY: 'A1' })).code, 0);
    assert.notEqual((await sender.send({ UNIQ_KEY: 'A1' })).code, 0);
    await sender.peer.close();
    await sender.server.crash('kill');
  });

  it('batches: the same again, its lost rest, and one that is too long for one turn', async () => {
    const sender = await Sender.open();
    const first = await sender.batch([{ id: 'B1' }, { id: 'B2' }]);
    assertSame(first, await sender.batch([{ id: 'B1' }, { id: 'B2' }]));
    const more = await sender.batch([{ id: 'B1' }, { id: 'B3' }, { id: 'B2' }, {}]);
    const ids = String(more.ext['msgId']).split(',');
    assert.deepEqual([ids[0], ids[2]], String(first.ext['msgId']).split(','));
    assert.equal(await sender.end('T', 0), 4);
    const long = Array.from({ length: 40 }, (_, i) => ({ id: `L${i}`, bytes: 20_000 }));
    const other = await WirePeer.open(sender.server.address);
    const frame = (opaque: number): Buffer =>
      jsonRequest(SEND_BATCH, opaque, fields({ UNIQ_KEY: 'whole' }, { m: 'true', b: 'U' }), Buffer.from(batchOf(long)));
    // Two connections at once: the second is encoded while the first has not been put.
    sender.peer.write(frame(500));
    other.write(frame(501));
    assertSame(await sender.peer.answer(500), await other.answer(501));
    assertSame(await sender.peer.answer(500), await sender.batch(long, { b: 'U' }));
    assert.equal(await sender.end('U', 0), 40);
    assert.equal(sender.duplicates, 2 + 2 + 80);
    await other.close();
    await sender.stop();
  });

  it('by KEYS, if so wished', async () => {
    const sender = await Sender.open({ config: { ...ON, gantrySendDeduplicationKey: 'KEYS' } });
    const first = await sender.send({ UNIQ_KEY: 'A1', KEYS: 'order 7' });
    assertSame(first, await sender.send({ UNIQ_KEY: 'A2', KEYS: 'order 7' }));
    assert.equal((await sender.send({ UNIQ_KEY: 'A2', KEYS: 'order 8' })).ext['queueOffset'], '1');
    assert.equal((await sender.send({ UNIQ_KEY: 'A2' })).ext['queueOffset'], '2');
    await sender.stop();
  });

  it('a retry topic takes one id as often as it comes, and a topic that was deleted knows nothing of its earlier life', async () => {
    let sender = await Sender.open();
    await sender.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, '{"groupName":"G"}');
    for (let i = 0; i < 2; i++) {
      assert.equal((await sender.send({ UNIQ_KEY: 'A1' }, { b: '%RETRY%G' })).ext['queueOffset'], String(i));
    }
    await sender.send({ UNIQ_KEY: 'A1' });
    await sender.send({ UNIQ_KEY: 'A2' });
    assert.equal((await sender.ask(RequestCode.DELETE_TOPIC_IN_BROKER, { topic: 'T' })).code, 0);
    assert.equal((await sender.send({ UNIQ_KEY: 'A1' })).ext['queueOffset'], '0');
    sender = await sender.again('kill');
    assert.equal((await sender.send({ UNIQ_KEY: 'A1' })).ext['queueOffset'], '0');
    assert.equal((await sender.send({ UNIQ_KEY: 'A2' })).ext['queueOffset'], '1');
    await sender.stop();
  });
});
