// gantry produce TOPIC [BODY|-]: lines in, results out. Sends run ahead of their answers, and results come in the order of the lines.

import { createInterface } from 'node:readline';
import { type Message, Producer, type SendResult } from '../client/index.ts';
import { clientAddress, quietLogger, withHints } from './client-side.ts';
import { CommandFailure, ExitCode } from './exit.ts';

export interface ProduceOptions {
  namesrvAddr?: string;
  tags?: string;
  keys?: string;
  property: string[];
  delayLevel?: number;
  shardingKey?: string;
  group: string;
  json?: boolean;
  quiet?: boolean;
}

/** Sends under way at a time. */
const WINDOW = 64;

/** @throws CommandFailure at the first message that was not stored as asked; those before it are printed. */
export async function produce(topic: string, body: string | undefined, options: ProduceOptions): Promise<number> {
  const namesrvAddr = clientAddress(options.namesrvAddr);
  const producer = new Producer({ namesrvAddr, group: options.group, logger: quietLogger });
  await producer.start();
  try {
    await withHints(namesrvAddr, async () => {
      if (body === undefined || body === '-') await sendLines(producer, topic, options);
      else print(await producer.send(message(topic, body, options)), options);
    });
  } finally {
    await producer.close();
  }
  return ExitCode.OK;
}

async function sendLines(producer: Producer, topic: string, options: ProduceOptions): Promise<void> {
  if (process.stdin.isTTY === true) process.stderr.write('Type a message a line; Ctrl-D ends.\n');
  const pending: Array<Promise<SendResult>> = [];
  const settle = async (): Promise<void> => print(await pending.shift()!, options);
  let empty = 0;
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY })) {
    if (line === '') {
      empty++;
      continue;
    }
    const result = producer.send(message(topic, line, options));
    // A failure is taken up in its turn, which may be after the next loop turn.
    result.catch(() => {});
    pending.push(result);
    if (pending.length >= WINDOW || process.stdin.isTTY === true) await settle();
  }
  while (pending.length > 0) await settle();
  if (empty > 0) process.stderr.write(`gantry: left out empty lines (${empty}): a message has at least one byte\n`);
}

function message(topic: string, body: string, options: ProduceOptions): Message {
  const result: Message = { topic, body };
  if (options.tags !== undefined) result.tags = options.tags;
  if (options.keys !== undefined) result.keys = options.keys.split(/\s+/).filter((key) => key !== '');
  if (options.delayLevel !== undefined) result.delayLevel = options.delayLevel;
  if (options.shardingKey !== undefined) result.shardingKey = options.shardingKey;
  if (options.property.length > 0) {
    result.properties = Object.fromEntries(
      options.property.map((text) => [text.slice(0, text.indexOf('=')), text.slice(text.indexOf('=') + 1)]),
    );
  }
  return result;
}

function print(result: SendResult, options: ProduceOptions): void {
  const { status, msgId, offsetMsgId, queue, queueOffset } = result;
  if (options.json === true) {
    const { topic, brokerName, queueId } = queue;
    process.stdout.write(
      `${JSON.stringify({ status, msgId, offsetMsgId, topic, brokerName, queueId, queueOffset })}\n`,
    );
  } else if (options.quiet !== true) {
    process.stdout.write(`${msgId}  ${queue.brokerName} queue ${queue.queueId} offset ${queueOffset}\n`);
  }
  if (status !== 'SEND_OK') {
    throw new CommandFailure(`message ${msgId} was stored, but not as safely as the broker is told to: ${status}`);
  }
}
