// A connection with many groups that closes, for an operator who looks for such clients. RocketMQ: ConsumerManager#doChannelCloseEvent,
// ProducerManager#doChannelCloseEvent.

import type { Logger } from '../../common/index.ts';
import type { Channel } from '../../remoting/index.ts';

/** RocketMQ: fewer are never told of. */
const LEAST_GROUPS = 5;

export interface ChannelGroupSettings {
  readonly printChannelGroups: boolean;
  readonly printChannelGroupsMinNum: number;
}

/** Tells of a connection that closes, if it belonged to many groups. */
export function tellOfManyGroups(
  { printChannelGroups, printChannelGroupsMinNum }: ChannelGroupSettings,
  logger: Logger,
  channel: Channel,
  groups: ReadonlySet<string>,
  kind: 'consumer' | 'producer',
): void {
  if (!printChannelGroups || groups.size < Math.max(LEAST_GROUPS, printChannelGroupsMinNum)) return;
  logger.warn(`a connection of ${groups.size} ${kind} groups is closed: ${[...groups].join(', ')}`, {
    address: channel.remoteAddress,
  });
}
