// How the members of a group share the queues of a topic without talking to each other: each sorts the same two lists and takes its
// slice. Everything depends on all members computing the same; this is AllocateMessageQueueAveragely of the Java client, by result.

import { compareQueues, compareText, type MessageQueue } from './queues.ts';

/**
 * The queues of one member: as even as possible, neighbours together, the first members get one more.
 * A member that is not in the list gets none. Inputs need not be sorted and are not changed.
 */
export function allocateAveragely(
  clientId: string,
  queues: readonly MessageQueue[],
  clientIds: readonly string[],
): MessageQueue[] {
  const sortedIds = [...clientIds].sort(compareText);
  const sortedQueues = [...queues].sort(compareQueues);
  const index = sortedIds.indexOf(clientId);
  if (index < 0) return [];
  const share = Math.floor(sortedQueues.length / sortedIds.length);
  const rest = sortedQueues.length % sortedIds.length;
  const start = index * share + Math.min(index, rest);
  return sortedQueues.slice(start, start + share + (index < rest ? 1 : 0));
}
