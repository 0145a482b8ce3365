// A message queue by name, as clients speak of it: topic, broker name, queue id. Order and hash decide which member of a group gets
// which queue, so both follow Java's MessageQueue#compareTo: mixed groups of Java and Gantry consumers must come to one answer.

/** One queue of a topic on one broker. RocketMQ: MessageQueue. */
export interface MessageQueue {
  readonly topic: string;
  readonly brokerName: string;
  readonly queueId: number;
}

/** The key of a queue in a Map. Neither topics nor queue ids contain `@`, so that no two queues share one. */
export function queueKey(queue: MessageQueue): string {
  return `${queue.topic}@${queue.queueId}@${queue.brokerName}`;
}

/** Java's order of strings: by UTF-16 units, which is what `<` does. Never localeCompare. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** RocketMQ: MessageQueue#compareTo: topic, broker name, queue id. */
export function compareQueues(a: MessageQueue, b: MessageQueue): number {
  return compareText(a.topic, b.topic) || compareText(a.brokerName, b.brokerName) || a.queueId - b.queueId;
}

/** The queue object that peers read and write in JSON. */
export function plainQueue(queue: MessageQueue): MessageQueue {
  return { brokerName: queue.brokerName, queueId: queue.queueId, topic: queue.topic };
}

/** How a queue is written in log lines and errors. */
export function queueText(queue: MessageQueue): string {
  return `${queue.topic} queue ${queue.queueId} on ${queue.brokerName}`;
}
