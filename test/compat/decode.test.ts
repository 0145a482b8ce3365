// Every record of every file-based store, read by walking the CommitLog files, must be what Java's decoder made of it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { viewOf } from '../../src/common/index.ts';
import {
  MAGIC_BLANK,
  propertiesTextInJavaOrder,
  RecordOutcome,
  RecordView,
  readRecord,
  type StoredMessage,
  toMessage,
  Verify,
} from '../../src/message/index.ts';
import { FILE_STORES, type GoldenMessage, goldenFiles, goldenManifest, sha256 } from './golden.ts';

interface Walk {
  messages: Array<{ message: StoredMessage; record: Uint8Array }>;
  blanks: Array<{ offset: number; size: number }>;
  endOfData: number;
}

function walk(files: ReadonlyMap<string, Uint8Array>, verify: Verify): Walk {
  const walk: Walk = { messages: [], blanks: [], endOfData: 0 };
  const view = new RecordView();
  for (const [path, bytes] of [...files].sort()) {
    const name = /^commitlog\/(\d{20})$/.exec(path)?.[1];
    if (name === undefined) continue;
    const base = Number(name);
    const dataView = viewOf(bytes);
    let at = 0;
    for (;;) {
      const outcome = readRecord(bytes, dataView, at, bytes.length, verify, view);
      if (outcome === RecordOutcome.BLANK) {
        walk.blanks.push({ offset: base + at, size: view.totalSize });
        assert.equal(dataView.getInt32(at + 4), MAGIC_BLANK);
        break;
      }
      if (outcome !== RecordOutcome.RECORD) break;
      walk.messages.push({ message: toMessage(bytes, view), record: bytes.subarray(at, at + view.totalSize) });
      at += view.totalSize;
      walk.endOfData = base + at;
    }
  }
  return walk;
}

/** `address|port` of the manifest as `address:port`; Java does not shorten runs of zeros in IPv6. */
function host(text: string): string {
  const [address, port] = text.split('|');
  return address!.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}

function compare(message: StoredMessage, record: Uint8Array, golden: GoldenMessage): void {
  const at = `at ${golden.physicalOffset}`;
  assert.equal(sha256(record), golden.recordSha256, at);
  assert.deepEqual(Object.fromEntries(message.properties), golden.properties, at);
  assert.equal(sha256(message.body), golden.bodySha256, at);
  assert.deepEqual(
    {
      topic: message.topic,
      queueId: message.queueId,
      queueOffset: message.queueOffset,
      physicalOffset: message.physicalOffset,
      storeSize: message.storeSize,
      magic: viewOf(record).getInt32(4),
      offsetMsgId: message.offsetMessageId,
      uniqKey: message.properties.get('UNIQ_KEY') ?? null,
      tags: message.properties.get('TAGS') ?? null,
      keys: message.properties.get('KEYS') ?? null,
      sysFlag: message.sysFlag,
      flag: message.flag,
      bornTimestamp: message.bornTimestamp,
      storeTimestamp: message.storeTimestamp,
      bornHost: message.bornHost,
      storeHost: message.storeHost,
      bodyCRC: message.bodyCrc,
      reconsumeTimes: message.reconsumeTimes,
      preparedTransactionOffset: message.preparedTransactionOffset,
      bodyLength: message.body.length,
    },
    {
      topic: golden.topic,
      queueId: golden.queueId,
      queueOffset: golden.queueOffset,
      physicalOffset: golden.physicalOffset,
      storeSize: golden.storeSize,
      magic: golden.magic,
      offsetMsgId: golden.offsetMsgId,
      uniqKey: golden.uniqKey,
      tags: golden.tags,
      keys: golden.keys,
      sysFlag: golden.sysFlag,
      flag: golden.flag,
      bornTimestamp: golden.bornTimestamp,
      storeTimestamp: golden.storeTimestamp,
      bornHost: host(golden.bornHost),
      storeHost: host(golden.storeHost),
      bodyCRC: golden.bodyCRC,
      reconsumeTimes: golden.reconsumeTimes,
      preparedTransactionOffset: golden.preparedTransactionOffset,
      bodyLength: golden.bodyLength,
    },
    at,
  );
}

for (const name of FILE_STORES) {
  test(`${name}: every record decodes to what Java read`, () => {
    const manifest = goldenManifest(name);
    const propertyCrc = manifest.brokerConf['enabledAppendPropCRC'] === 'true';
    const found = walk(goldenFiles(name), propertyCrc ? Verify.PROPERTY_CRC : Verify.BODY_CRC);
    assert.equal(found.messages.length, manifest.messages.length);
    found.messages.forEach(({ message, record }, i) => {
      compare(message, record, manifest.messages[i]!);
    });
    assert.deepEqual(found.blanks, manifest.blanks);
    assert.equal(found.endOfData, manifest.endOfData);
  });
}

test('550-plain-clean: single sends store their properties in the order of a Java map', () => {
  const files = goldenFiles('550-plain-clean');
  let checked = 0;
  for (const { message, record } of walk(files, Verify.STRUCTURE).messages) {
    // Members of client batches keep the client's own order (capacity 16), and have no CLUSTER.
    if (!message.properties.has('CLUSTER') || message.topic !== 'GoldenOne') continue;
    const text = propertiesTextInJavaOrder(message.properties);
    const stored = Buffer.from(record.subarray(record.length - Buffer.byteLength(text))).toString('utf8');
    assert.equal(stored, text, `at ${message.physicalOffset}`);
    checked++;
  }
  assert.ok(checked > 200, `${checked} records checked`);
});
