// Public faults of append, dispatch, flush and back-pressure, each named by its number in the list of known faults.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { GetMessageStatus, PutMessageStatus, type PutResult } from '../../src/store/index.ts';
import { pull } from './engine.ts';
import { SmallStore } from './small-store.ts';

describe('B11: property length wraps in batch encoding', () => {
  it('a batch with properties beyond 32,767 bytes is refused whole', async () => {
    const small = await SmallStore.create({ mappedFileSizeCommitLog: 256 * 1024 });
    await small.send({ body: 'before' });
    const end = small.store.watermarks.wrote;
    const long = `long\u0001${'x'.repeat(33_000)}\u0002`;
    const refused = small.putBatch([
      { body: 'one', properties: '' },
      { body: 'two', properties: long },
      { body: 'three', properties: '' },
    ]);
    assert.ok(
      refused.status === PutMessageStatus.MESSAGE_ILLEGAL ||
        refused.status === PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
      `status ${refused.status}`,
    );
    assert.ok(refused.reason.includes('32767'), refused.reason);
    assert.ok(refused.reason.includes(String(long.length)), refused.reason);
    assert.equal(small.store.watermarks.wrote, end, 'nothing of it is in the log');
    const normal = await small.send({ body: 'after' });
    assert.equal(normal.wroteOffset, end);
    assert.equal(normal.queueOffset, 1);
    small.kill();
    await small.start();
    const records = await small.expectQueue(0, 2);
    assert.deepEqual(
      records.map((record) => record.body.toString()),
      ['before', 'after'],
    );
  });
});

describe('B13: the dispatcher dies quietly', () => {
  for (const code of ['IO', 'DISK_FULL'] as const) {
    for (const times of [1, Number.POSITIVE_INFINITY]) {
      it(`an index write that fails ${times === 1 ? 'once' : 'for ten seconds'} with ${code}`, async () => {
        const small = await SmallStore.create();
        const faults = (['open', 'write', 'createSized'] as const).map((operation) =>
          small.fs.fail({ operation, path: '/index', times, code }),
        );
        const sent: PutResult[] = [];
        for (let n = 0; n < 200; n++) {
          sent.push(small.put({ keys: `k${n}` }));
          while ((await small.world.complete()) || (await small.world.soon()));
          await small.world.advance(50);
        }
        for (const one of sent) assert.equal(one.status, PutMessageStatus.PUT_OK, one.reason);
        await small.acknowledged(sent.at(-1)!);
        await small.world.until(() => small.store.maxOffsetInQueue('T', 0) === 200, 'the ConsumeQueue is not held up');
        for (const fault of faults) fault.clear();
        await small.world.advance(20_000);
        await small.world.until(
          () => small.store.watermarks.dispatched === small.store.watermarks.wrote,
          'dispatch has caught up',
        );
        for (const key of ['k0', 'k100', 'k199']) {
          const found = await small.world.settle(
            small.store.queryMessage('T', key, 32, 0, Number.MAX_SAFE_INTEGER, 'K'),
            'a query ends',
          );
          assert.equal(found.records.length, 1, `messages with key ${key}`);
        }
        await small.stop();
      });
    }
  }
});

describe('B13: an index file that could not be synced', () => {
  it('is built again: at the next start at the latest every key is found', async () => {
    const small = await SmallStore.create();
    await small.sendMany(30, (n) => ({ keys: `k${n}` }));
    small.fs.fail({ operation: 'sync', path: '/index', times: Number.POSITIVE_INFINITY });
    await small.sendMany(70, (n) => ({ keys: `k${30 + n}` }));
    await small.world.advance(120_000);
    await small.sendMany(30, (n) => ({ keys: `k${100 + n}` }));
    await small.stop();
    small.powerCut();
    await small.start();
    for (let n = 0; n < 130; n++) {
      const found = await small.world.settle(
        small.store.queryMessage('T', `k${n}`, 32, 0, Number.MAX_SAFE_INTEGER, 'K'),
        'a query ends',
      );
      assert.equal(found.records.length, 1, `messages with key k${n}`);
    }
  });
});

describe('B26: consumers see what is not yet durable', () => {
  it('nothing is served before its sync, and the next message is delivered', async () => {
    const small = await SmallStore.create();
    await small.send({ topic: 'Other' });
    const arrivals: number[] = [];
    small.store.onArrival((topic, _queueId, maxOffset) => {
      if (topic === 'T') arrivals.push(maxOffset);
    });
    small.store.watch('T', 0, true);
    small.fs.hold('sync', 'commitlog');
    const a = small.put({ body: 'A' });
    assert.equal(a.status, PutMessageStatus.PUT_OK);
    let answered = false;
    small.store.whenDurable(a.wroteOffset + a.wroteBytes, true, () => {
      answered = true;
    });
    for (let i = 0; i < 50; i++) {
      await small.world.advance(10);
      while ((await small.world.complete()) || (await small.world.soon()));
      assert.equal(small.store.maxOffsetInQueue('T', 0), 0);
    }
    const polled = await pull(small.world, small.store, 'T', 0, 0);
    assert.notEqual(polled.status, GetMessageStatus.FOUND);
    assert.deepEqual(arrivals, []);
    assert.equal(answered, false);
    small.powerCut();
    await small.start();
    const b = await small.send({ body: 'B' });
    assert.equal(b.queueOffset, 0);
    const records = await small.expectQueue(0, 1);
    assert.equal(records[0]!.body.toString(), 'B');
  });

  it('a kill instead of a power cut: what the start serves is durable', async () => {
    const small = await SmallStore.create();
    small.fs.hold('sync', 'commitlog');
    const a = small.put({ body: 'A' });
    assert.equal(a.status, PutMessageStatus.PUT_OK);
    await small.world.until(() => small.store.watermarks.committed === small.store.watermarks.wrote, 'A is written');
    small.kill();
    await small.start();
    const served = await small.drain();
    small.powerCut();
    await small.start();
    const records = await small.drain();
    assert.deepEqual(
      records.map((record) => record.body.toString()),
      served.map((record) => record.body.toString()),
    );
  });
});

describe('B29: "broker busy" with an empty queue, and a refused message that appears anyway', () => {
  it('a stalled disk: answers of 0 are stored, refusals are not, and service comes back', async () => {
    const small = await SmallStore.create({ flushDiskType: 'ASYNC_FLUSH', osPageCacheBusyTimeOutMills: 300 });
    await small.send({ body: 'before' });
    // A write that takes long on the loop; the ones behind it do not come back at all.
    small.world.stall('write', 'commitlog', 50);
    await small.send({ body: 'slow' });
    const hold = small.fs.hold('write', 'commitlog');
    const accepted: string[] = ['before', 'slow'];
    let refusals = 0;
    const answers: number[] = [];
    const send = (body: string): PutResult => {
      const result = small.put({ body });
      if (result.status === PutMessageStatus.PUT_OK) {
        accepted.push(body);
        small.store.whenDurable(result.wroteOffset + result.wroteBytes, true, (status) => answers.push(status));
      }
      return result;
    };
    for (let n = 0; n < 300; n++) {
      const result = send(`during ${n}`);
      if (result.status !== PutMessageStatus.PUT_OK) {
        refusals++;
        assert.equal(result.status, PutMessageStatus.OS_PAGE_CACHE_BUSY, result.reason);
        assert.match(result.reason, /\d/, 'the measured wait is told');
      }
      await small.world.soon();
      await small.world.complete();
      if (n % 3 === 0) await small.world.advance(10);
    }
    assert.ok(refusals > 0, 'the stall was long enough to refuse');
    assert.ok(accepted.length > 2, 'and short enough to accept at first');
    hold.end();
    const before = small.world.clock.now();
    await small.world.until(
      () => small.store.watermarks.committed === small.store.watermarks.wrote,
      'the writes complete after the stall',
    );
    assert.equal(send('after').status, PutMessageStatus.PUT_OK);
    assert.ok(small.world.clock.now() - before <= 500);
    await small.world.until(() => answers.length === accepted.length - 2, 'all are answered');
    assert.ok(answers.every((status) => status === PutMessageStatus.PUT_OK));
    const bodies = async (): Promise<string[]> => (await small.drain()).map((record) => record.body.toString());
    await small.world.until(() => small.store.maxOffsetInQueue('T', 0) === accepted.length, 'all are dispatched');
    assert.deepEqual(await bodies(), accepted);
    small.kill();
    await small.start();
    assert.deepEqual(await bodies(), accepted);
  });
});
