// I5 on the disk itself, between two lives: what is saved as progress is never ahead of what is durable. After a power cut the claims that
// the disk's checkpoint makes are held against the log and the queues that it holds, by the format pages alone.

import assert from 'node:assert/strict';
import { type FileSystem, readWhole } from '../../src/io/index.ts';
import { ROOT } from './engine.ts';
import { type Model, tagsCode } from './model.ts';
import { type ConsumeQueueUnit, readConsumeQueue, readLog } from './store-files.ts';

interface Claims {
  physicMsgTimestamp: number;
  logicsMsgTimestamp: number;
  logicsPhysicalOffset: number;
}

function readCheckpoint(fs: FileSystem): Claims {
  const page = Buffer.alloc(4096);
  page.set(readWhole(fs, `${ROOT}/checkpoint`) ?? []);
  return {
    physicMsgTimestamp: Number(page.readBigInt64BE(0)),
    logicsMsgTimestamp: Number(page.readBigInt64BE(8)),
    logicsPhysicalOffset: Number(page.readBigInt64BE(40)),
  };
}

/** Requires that the machine has just come back, and that nothing was damaged since the last clean stop. @throws AssertionError */
export function checkProgress(fs: FileSystem, model: Model): void {
  const { physicMsgTimestamp, logicsMsgTimestamp, logicsPhysicalOffset } = readCheckpoint(fs);
  const found = readLog(fs, `${ROOT}/commitlog`);
  const last = found.records.at(-1);
  const logEnd = last === undefined ? found.start : last.position + last.size;
  for (const entry of model.log) {
    // Of those with the very time of the claim only the first needs to be there.
    if (entry.storeTimestamp >= physicMsgTimestamp) break;
    assert.ok(
      entry.position + entry.size <= logEnd,
      `I5: the checkpoint says that the log is durable to time ${physicMsgTimestamp}; message ${entry.id} of ${entry.storeTimestamp} is gone`,
    );
  }
  const units = new Map<string, ConsumeQueueUnit[]>();
  const unitsOf = (key: string): ConsumeQueueUnit[] => {
    if (!units.has(key)) units.set(key, readConsumeQueue(fs, `${ROOT}/consumequeue/${key}`));
    return units.get(key)!;
  };
  for (const [key, entries] of model.queues()) {
    const { topic } = entries[0]!;
    if (model.deleting?.topics.includes(topic)) continue;
    for (const [ordinal, entry] of entries.entries()) {
      const claimed =
        logicsPhysicalOffset > 0 ? entry.position < logicsPhysicalOffset : entry.storeTimestamp < logicsMsgTimestamp;
      if (!claimed) break;
      // Of what was removed as old the units may be gone, too.
      if (entry.position < model.start) continue;
      const held = unitsOf(key);
      const unit = held[ordinal - (held[0]?.queueOffset ?? 0)];
      assert.ok(
        unit !== undefined && unit.position === entry.position && unit.size === entry.size,
        `I5: the checkpoint vouches for the queues up to ${logicsPhysicalOffset} (time ${logicsMsgTimestamp}); ` +
          `unit ${ordinal} of ${key} (message ${entry.id} at ${entry.position}) is ${JSON.stringify(unit)}`,
      );
      assert.equal(unit.tagsCode, tagsCode(entry), `tag hash of unit ${ordinal} of ${key}`);
    }
  }
}
