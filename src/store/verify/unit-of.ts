// What a record says of its unit in a queue.

/** One object, filled anew for each record. */
export class UnitOf {
  offset = 0;
  size = 0;
  tagsCode = 0;
  storeTimestamp = 0;
  /** Its tagsCode is the time of its delivery, which messageDelayLevel decides: as it is now, that would be `tagsCode`. */
  isDelayed = false;
  /** Delayed messages whose time is another one, but may be that of other levels. */
  otherDelays = 0;
}

/**
 * What is wrong with a tagsCode; undefined: nothing. Levels are whole seconds, and no flipped bit changes a time by such: what is another number of
 * them was written with other levels.
 */
export function tagsCodeFault(found: number, record: UnitOf): string | undefined {
  const { tagsCode, storeTimestamp, isDelayed } = record;
  if (found === tagsCode) return undefined;
  if (!isDelayed) return `its tagsCode is ${found}, that of the record ${tagsCode}`;
  const delay = found - storeTimestamp;
  if (Number.isSafeInteger(found) && delay >= 0 && delay % 1000 === 0) {
    record.otherDelays++;
    return undefined;
  }
  return `its time of delivery is ${found}, ${delay} ms behind the record's store time; by its level it must be ${tagsCode}`;
}
