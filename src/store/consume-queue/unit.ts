// A unit of a plain ConsumeQueue, byte for byte: docs/formats/consume-queue.md.
//
//   physicalOffset i64 | size i32 | tagsCode i64

import { peekI64 } from '../../common/index.ts';

/** Bytes of a unit. */
export const CQ_UNIT_BYTES = 20;
/** Size field of a unit that only fills a queue's beginning or a gap: there is no message at that ordinal. */
export const FILLER_SIZE = 0x7fffffff;

/** Whether a unit's fields can be one: RocketMQ ends a queue's data at the first unit that is not. */
export function isUnit(view: DataView, at: number): boolean {
  return view.getInt32(at + 8) > 0 && view.getInt32(at) >= 0;
}

export function unitOffset(view: DataView, at: number): number {
  return peekI64(view, at);
}

export function unitSize(view: DataView, at: number): number {
  return view.getInt32(at + 8);
}

/** The low 32 bits of the tagsCode, all that a tag filter looks at. */
export function unitTag(view: DataView, at: number): number {
  return view.getInt32(at + 16);
}
