// Expressions that take long to be made ready, some ms for the longest and ten times that for the first ones of a process: one a turn of the
// loop, and what their sender sends behind them waits, so that a peer with many of them holds up nobody but itself. RocketMQ: does them on its
// threads for heartbeats and pulls.

import type { Clock } from '../../common/index.ts';
import { isTagType, type Sql92Filter, type SubscriptionData } from '../../filter/index.ts';
import type { Channel } from '../../remoting/index.ts';
import type { ConsumerFilterManager } from './consumer-filter-manager.ts';
import { compileExpression } from './expression-filter.ts';

/** Characters of expressions that are made ready without further ado. */
const LIGHT_CHARS = 4096;
const CHARS_PER_MS = 2000;

/** An expression that was made ready, or why it cannot be. */
export type Prepared = ReadonlyMap<string, Sql92Filter | Error>;

/** Of an expression among those that were made ready. */
export function preparedKey(type: string, expression: string): string {
  return `${type}\u0000${expression}`;
}

/** After so many characters for a request of this connection: what it sends behind waits for as long as others waited for it. */
export function restAfter(channel: Channel, clock: Clock, chars: number): void {
  if (chars <= LIGHT_CHARS) return;
  channel.holdInput();
  clock.soon(() => channel.resumeInput(chars / CHARS_PER_MS));
}

/** The expressions of a heartbeat that will have to be made ready, if they are heavy together; else none. */
export function heavyExpressions(
  filters: ConsumerFilterManager,
  groups: ReadonlyArray<{ groupName: string; subscriptions: readonly SubscriptionData[] }>,
): SubscriptionData[] {
  const heavy: SubscriptionData[] = [];
  let chars = 0;
  for (const { groupName, subscriptions } of groups) {
    for (const subscription of subscriptions) {
      if (isTagType(subscription.expressionType) || filters.has(groupName, subscription)) continue;
      heavy.push(subscription);
      chars += subscription.subString.length;
    }
  }
  return chars > LIGHT_CHARS ? heavy : [];
}

/** Makes expressions ready, a share a turn. */
export async function prepareInTurns(clock: Clock, subscriptions: readonly SubscriptionData[]): Promise<Prepared> {
  const prepared = new Map<string, Sql92Filter | Error>();
  let chars = 0;
  for (const { expressionType, subString } of subscriptions) {
    const key = preparedKey(expressionType, subString);
    if (prepared.has(key)) continue;
    if (chars > 0 && chars + subString.length > LIGHT_CHARS) {
      await new Promise<void>((resolve) => clock.soon(resolve));
      chars = 0;
    }
    chars += subString.length;
    try {
      prepared.set(key, compileExpression(expressionType, subString));
    } catch (error) {
      prepared.set(key, error as Error);
    }
  }
  return prepared;
}
