// What the copies of chosen records share: a record that is left out, and one that is gone.

import { GantryError } from '../../common/index.ts';
import type { Ready } from '../segment/index.ts';
import type { GetResult } from './get.ts';

/** Nothing is chosen yet. */
export function emptyResult(result: GetResult): void {
  result.count = 0;
  result.batched = 0;
  result.totalBytes = 0;
  result.copied = 0;
  result.copiedPart = 0;
  result.suggestPullingFromSlave = false;
  result.firstPosition = -1;
  result.coldBytes = 0;
  result.elsewhere = undefined;
}

/** Takes one record out of those chosen. */
export function removeRecord(result: GetResult, index: number): void {
  result.totalBytes -= result.sizes[index]!;
  result.count--;
  result.positions.copyWithin(index, index + 1, result.count + 1);
  result.ordinals.copyWithin(index, index + 1, result.count + 1);
  result.sizes.copyWithin(index, index + 1, result.count + 1);
}

/** Retention has removed a record since it was chosen. */
export function removed(position: number, ready: Ready): false {
  const error = new GantryError('REMOVED', `the message at ${position} was removed while it was read; pull again`);
  void Promise.resolve().then(() => ready(error));
  return false;
}
