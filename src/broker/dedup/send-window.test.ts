import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SeededRandom } from '../../common/index.ts';
import { SendWindow } from './send-window.ts';

const MIB = 1024 * 1024;

function windowOf(options: { windowMs?: number; maxBytes?: number } = {}): SendWindow {
  return new SendWindow({ windowMs: 600_000, maxBytes: 64 * MIB, seed: 7, ...options });
}

/** Sends `key` at `now`: the offset of the first one, or undefined if this is it; then it is kept at `offset`. */
function send(window: SendWindow, key: string, offset: number, now: number, topic = 'T'): number | undefined {
  const bytes = Buffer.from(key);
  const first = window.find(topic, bytes, 0, bytes.length, now);
  if (first === undefined) window.keep(offset, 10, offset / 10, 3, now);
  return first?.physicalOffset;
}

describe('the window of sends', () => {
  it('finds the first place of a key, per topic, as long as the window lasts', () => {
    const window = windowOf();
    assert.equal(send(window, 'a', 100, 1_000), undefined);
    assert.equal(send(window, 'a', 110, 1_000, 'U'), undefined);
    assert.deepEqual(window.find('T', Buffer.from('xay'), 1, 2, 600_999), {
      physicalOffset: 100,
      bytes: 10,
      queueOffset: 10,
      queueId: 3,
    });
    assert.equal(send(window, 'a', 120, 600_999, 'U'), 110);
    assert.equal(send(window, 'a', 130, 601_000), undefined, 'its time is over');
    assert.equal(send(window, 'a', 140, 601_001), 130);
  });

  it('10 minutes at 1,000 messages a second take less than 64 MB, and 100 % of duplicates are found', () => {
    const window = windowOf();
    const id = (i: number): string => i.toString(16).toUpperCase().padStart(32, '0');
    let most = 0;
    for (let i = 0; i < 660_000; i++) {
      assert.equal(send(window, id(i), 10 * i, i), undefined);
      most = Math.max(most, window.bytes);
    }
    assert.ok(most <= 64_000_000, `${most} bytes`);
    const now = 660_000;
    for (let i = now - 599_999; i < now; i += 7) assert.equal(send(window, id(i), -1, now), 10 * i);
    assert.equal(send(window, id(now - 600_000), 1e9, now), undefined);
  });

  it('forgets the oldest where there is no room, and never takes more', () => {
    const window = windowOf({ maxBytes: MIB });
    for (let i = 0; i < 50_000; i++) {
      assert.equal(send(window, `key ${i} ${'k'.repeat(i % 400)}`, i, i), undefined);
      assert.ok(window.bytes <= 2 * MIB, `${window.bytes} bytes`);
    }
    assert.ok(window.size > 1_000 && window.size < 10_000);
    assert.equal(send(window, `key 49999 ${'k'.repeat(49_999 % 400)}`, 1e6, 50_000), 49_999);
  });

  it('a deleted topic is another one when it comes again', () => {
    const window = windowOf();
    send(window, 'a', 100, 1);
    window.forgetTopic('T');
    assert.equal(send(window, 'a', 110, 2), undefined);
    assert.equal(send(window, 'a', 120, 3), 110);
  });

  it('answers as a map would, with the end given up and the front expired at random', () => {
    const random = new SeededRandom(3);
    const window = windowOf({ windowMs: 1_500 });
    let kept: Array<{ key: string; offset: number; time: number }> = [];
    let offset = 0;
    for (let now = 0; now < 12_000; now++) {
      const key = `k${random.int(2_500)}`;
      const known = kept.findLast((each) => each.key === key && each.time > now - 1_500);
      assert.equal(send(window, key, offset, now), known?.offset, `at ${now}`);
      if (known === undefined) kept.push({ key, offset, time: now });
      offset += 10;
      if (kept.length > 2_000) kept = kept.slice(-1_600);
      if (random.int(500) === 0) {
        const from = Math.max(0, offset - 10 * random.int(2_500));
        window.forgetFrom(from);
        kept = kept.filter((each) => each.offset < from);
        offset = Math.max(from, 0);
      }
    }
    window.forgetFrom(0);
    assert.equal(window.size, 0);
    assert.equal(send(window, 'a', 0, 70_000), undefined);
    assert.equal(send(window, 'a', 10, 70_000), 0);
  });
});
