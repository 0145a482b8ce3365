// gantry consume TOPIC --group G: messages out, one a line. What was printed counts as consumed, and nothing else does.

import { setTimeout as delay } from 'node:timers/promises';
import { type ConsumeStatus, PushConsumer, type ReceivedMessage, SimpleConsumer } from '../client/index.ts';
import { errorText } from '../common/index.ts';
import { clientAddress, quietLogger, stdoutClosed } from './client-side.ts';
import { ExitCode } from './exit.ts';
import { untilSignal } from './signals.ts';

export interface ConsumeOptions {
  namesrvAddr?: string;
  group: string;
  fromStart?: boolean;
  tags?: string;
  count?: number;
  json?: boolean;
  pop?: boolean;
}

/** Most messages of one pop. */
const POP_BATCH = 32;
const RETRY_MS = 1000;

/** Runs until `--count` messages were printed, or a signal comes. */
export async function consume(topic: string, options: ConsumeOptions): Promise<number> {
  // From the first moment on: messages may be printed before the consumer has started altogether.
  const interrupted = Promise.race([untilSignal(), stdoutClosed()]);
  if (options.pop === true) return consumeByPops(topic, options, interrupted);
  const printed = countdown(options.count ?? Number.POSITIVE_INFINITY);
  let ending = false;
  // What is in hand at the end comes again, which is as it should be and nothing to warn about.
  const warn = (text: string): void => {
    if (!ending) quietLogger.warn(text);
  };
  const consumer = new PushConsumer({
    namesrvAddr: clientAddress(options.namesrvAddr),
    group: options.group,
    consumeFromWhere: options.fromStart === true ? 'CONSUME_FROM_FIRST_OFFSET' : 'CONSUME_FROM_LAST_OFFSET',
    // One after the other, so that --count is exact and the output is in order within a queue.
    concurrency: 1,
    closeTimeoutMs: 1,
    // A topic that does not exist yet is soon found.
    pollNameServerIntervalMs: 1000,
    logger: { ...quietLogger, warn },
    listener: async (messages): Promise<ConsumeStatus> => {
      for (const message of messages) {
        // What comes after the last one stays unconsumed.
        if (printed.reached) await new Promise<never>(() => {});
        await print(message, options);
        printed.step();
      }
      return 'CONSUME_SUCCESS';
    },
  });
  consumer.subscribe(topic, options.tags ?? '*');
  await consumer.start();
  await Promise.race([printed.done, interrupted]);
  ending = true;
  await consumer.close();
  return ExitCode.OK;
}

/** The same by pops: whatever queue has something, and an acknowledgement for each line. */
async function consumeByPops(topic: string, options: ConsumeOptions, interrupted: Promise<unknown>): Promise<number> {
  let ending = false;
  const consumer = new SimpleConsumer({
    namesrvAddr: clientAddress(options.namesrvAddr),
    group: options.group,
    consumeFromWhere: options.fromStart === true ? 'CONSUME_FROM_FIRST_OFFSET' : 'CONSUME_FROM_LAST_OFFSET',
    logger: quietLogger,
  });
  void interrupted.then(async () => {
    ending = true;
    await consumer.close();
  });
  await consumer.start();
  await consumer.subscribe(topic, options.tags ?? '*');
  let left = options.count ?? Number.POSITIVE_INFINITY;
  while (left > 0 && !ending) {
    try {
      const messages = await consumer.receive(Math.min(POP_BATCH, left));
      for (const message of messages) {
        if (ending) break;
        await print(message, options);
        await consumer.ack(message);
        left--;
      }
    } catch (error) {
      if (ending) break;
      quietLogger.warn(errorText(error));
      await delay(RETRY_MS);
    }
  }
  await consumer.close();
  return ExitCode.OK;
}

interface Countdown {
  readonly reached: boolean;
  readonly done: Promise<void>;
  step(): void;
}

function countdown(from: number): Countdown {
  let left = from;
  let finish = (): void => {};
  const done = new Promise<void>((resolve) => {
    finish = resolve;
  });
  return {
    get reached() {
      return left <= 0;
    },
    done,
    step() {
      left--;
      // After the listener has answered, so that the last message counts as consumed.
      if (left <= 0) setImmediate(finish);
    },
  };
}

function print(message: ReceivedMessage, { json }: ConsumeOptions): Promise<void> {
  return write(json === true ? `${JSON.stringify(toJson(message))}\n` : withLineBreak(message.body));
}

function withLineBreak(body: Uint8Array): Uint8Array {
  return Buffer.concat([body, Buffer.from('\n')]);
}

function toJson(message: ReceivedMessage): object {
  const text = message.text();
  const exact = Buffer.from(text, 'utf8').equals(message.body);
  return {
    topic: message.topic,
    ...(exact ? { body: text } : { bodyBase64: Buffer.from(message.body).toString('base64') }),
    tags: message.tags,
    keys: message.keys,
    msgId: message.msgId,
    offsetMsgId: message.offsetMsgId,
    brokerName: message.queue.brokerName,
    queueId: message.queue.queueId,
    queueOffset: message.queueOffset,
    reconsumeTimes: message.reconsumeTimes,
    bornTimestamp: message.bornTimestamp,
    storeTimestamp: message.storeTimestamp,
    bornHost: message.bornHost,
    properties: Object.fromEntries(message.properties),
  };
}

/** Waits until stdout takes more, so that a slow reader slows the consumer down and nothing piles up. */
async function write(chunk: string | Uint8Array): Promise<void> {
  if (process.stdout.write(chunk)) return;
  await new Promise<void>((resolve) => process.stdout.once('drain', resolve));
}
