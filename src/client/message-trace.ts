// Notes of what became of messages, for tools that show a message's way (mqadmin queryMsgTraceById): gathered for up to 5 s or 10 of them and
// sent as messages to the trace topic. RocketMQ: AsyncTraceDispatcher, TraceDataEncoder and its hooks. A note is a line of fields, 0x01
// between them and 0x02 behind; what is not there is written "null":
//
//   Pub            time region group topic msgId tags keys broker bodyLength costMs messageType offsetMsgId success
//   SubBefore      time region group requestId msgId retryTimes keys
//   SubAfter       requestId msgId costMs success keys resultCode time group
//   EndTransaction time region group topic msgId tags keys broker messageType transactionId state fromCheck

import { errorText, type Timer } from '../common/index.ts';
import { PropertyName, parseProperties } from '../message/index.ts';
import type { RemotingResponse } from '../remoting/index.ts';
import type { ClientInstance } from './client-instance.ts';
import { type EncodedMessage, encodeMessage } from './message-encoder.ts';
import type { ReceivedMessage, SendResult } from './message-types.ts';
import { SendKernel } from './send-kernel.ts';

/** Settings of the trace, of producers and consumers. */
export interface TraceOptions {
  /** Sends notes of each message that was sent or consumed to the trace topic. Default false. */
  enableMsgTrace?: boolean;
  /** The topic for them. Default RMQ_SYS_TRACE_TOPIC. */
  customizedTraceTopic?: string;
}

/** How a listener call ended. RocketMQ: the ordinals of ConsumeReturnType. */
export const TraceResult = { SUCCESS: 0, TIME_OUT: 1, EXCEPTION: 2, RETURNNULL: 3, FAILED: 4 } as const;

/** Messages that a listener was given, and when. */
export interface TracedCall {
  messages: readonly ReceivedMessage[];
  requestId: string;
  region: string;
  since: number;
}

/** RocketMQ: the ordinals of MessageType. */
const MESSAGE_TYPE = { NORMAL: 0, HALF: 1, COMMIT: 2, DELAY: 3 } as const;
const DEFAULT_TOPIC = 'RMQ_SYS_TRACE_TOPIC';
const DEFAULT_REGION = 'DefaultRegion';
const FLUSH_MS = 5000;
const BATCH = 10;
/** Notes beyond this are dropped: the trace must not hold up what it describes. */
const MAX_WAITING = 2048;
const SEND_TIMEOUT_MS = 5000;
/** A trace message is closed at this many bytes. */
const MAX_BODY = 128_000;
const LIMITS = { maxMessageSize: 4_194_304, compressOverBytes: 4096 };
const DELAYS = [
  PropertyName.DELAY,
  PropertyName.TIMER_DELAY_MS,
  PropertyName.TIMER_DELAY_SEC,
  PropertyName.TIMER_DELIVER_MS,
];

interface Note {
  /** The topic of the messages: notes of one topic travel together. */
  topic: string;
  keys: string[];
  text: string;
}

/** The notes of one producer or consumer. */
export class MessageTrace {
  readonly #client: ClientInstance;
  readonly #group: string;
  readonly #topic: string;
  readonly #kernel: SendKernel;
  #notes: Note[] = [];
  #dropped = 0;
  #timer: Timer | undefined;
  readonly #sending = new Set<Promise<void>>();

  private constructor(client: ClientInstance, group: string, kind: 'PRODUCE' | 'CONSUME', topic: string) {
    this.#client = client;
    this.#group = group;
    this.#topic = topic;
    const traceGroup = `_INNER_TRACE_PRODUCER-${group}-${kind}-1`;
    this.#kernel = new SendKernel(client, { group: traceGroup, sendTimeoutMs: SEND_TIMEOUT_MS });
  }

  /** The trace that the options ask for, if they do. */
  static of(
    client: ClientInstance,
    group: string,
    kind: 'PRODUCE' | 'CONSUME',
    options: TraceOptions,
  ): MessageTrace | undefined {
    if (options.enableMsgTrace !== true) return undefined;
    return new MessageTrace(client, group, kind, options.customizedTraceTopic ?? DEFAULT_TOPIC);
  }

  /** A message was sent, beginning at `since` (wall clock). */
  sent(message: EncodedMessage, address: string, response: RemotingResponse, result: SendResult, since: number): void {
    if (message.topic.startsWith(this.#topic) || response.ext['TRACE_ON'] === 'false') return;
    const properties = parseProperties(message.properties);
    const keys = properties.get(PropertyName.KEYS);
    const type = properties.has(PropertyName.TRAN_MSG)
      ? MESSAGE_TYPE.HALF
      : DELAYS.some((name) => properties.has(name))
        ? MESSAGE_TYPE.DELAY
        : MESSAGE_TYPE.NORMAL;
    const region = response.ext['MSG_REGION'] || DEFAULT_REGION;
    const head = [
      'Pub',
      since,
      region,
      this.#group,
      message.topic,
      message.msgId,
      properties.get(PropertyName.TAGS),
      keys,
    ];
    const cost = this.#client.clock.now() - since;
    const text = line([
      ...head,
      address,
      message.body.length,
      cost,
      type,
      result.offsetMsgId,
      result.status === 'SEND_OK',
    ]);
    this.#add({ topic: message.topic, keys: allKeys(message.msgId, keys), text });
  }

  /** A verdict on a transaction has been given, at the start or when a broker asked. */
  ended(
    message: { topic: string; msgId: string; tags: string | undefined; keys: string | undefined },
    address: string,
    transactionId: string,
    state: string,
    fromCheck: boolean,
  ): void {
    const { topic, msgId, tags, keys } = message;
    const time = this.#client.clock.now();
    const head = ['EndTransaction', time, DEFAULT_REGION, this.#group, topic, msgId, tags, keys];
    const text = line([...head, address, MESSAGE_TYPE.COMMIT, transactionId, state, fromCheck]);
    this.#add({ topic, keys: allKeys(msgId, keys), text });
  }

  /** A listener is given messages. Undefined if none of them is to be traced. */
  before(messages: readonly ReceivedMessage[]): TracedCall | undefined {
    const traced = messages.filter(({ properties }) => properties.get(PropertyName.TRACE_ON) !== 'false');
    // RocketMQ: notes without a region go nowhere, so members of batches are not traced.
    const region = traced.at(-1)?.properties.get(PropertyName.MSG_REGION);
    if (region === undefined) return undefined;
    const call = { messages: traced, requestId: this.#client.nextMessageId(), region, since: this.#client.clock.now() };
    const head = ['SubBefore', call.since, region, this.#group, call.requestId];
    this.#addAll(call, (message, keys) => line([...head, message.msgId, message.reconsumeTimes, keys]));
    return call;
  }

  /** The listener has ended, with a TraceResult. */
  after(call: TracedCall, result: number): void {
    const now = this.#client.clock.now();
    const cost = Math.trunc((now - call.since) / call.messages.length);
    const tail = [result, now, this.#group];
    const success = result === TraceResult.SUCCESS;
    this.#addAll(call, (message, keys) =>
      line(['SubAfter', call.requestId, message.msgId, cost, success, keys, ...tail]),
    );
  }

  /** Sends what there is; resolves when it has gone, or failed. */
  async close(): Promise<void> {
    this.#flush();
    await Promise.all(this.#sending);
  }

  #addAll(call: TracedCall, write: (message: ReceivedMessage, keys: string | undefined) => string): void {
    const keys = new Set<string>();
    let text = '';
    for (const message of call.messages) {
      const own = message.properties.get(PropertyName.KEYS);
      for (const key of allKeys(message.msgId, own)) keys.add(key);
      text += write(message, own);
    }
    this.#add({ topic: call.messages[0]!.topic, keys: [...keys], text });
  }

  #add(note: Note): void {
    if (this.#notes.length >= MAX_WAITING) {
      this.#dropped++;
      return;
    }
    this.#notes.push(note);
    if (this.#notes.length >= BATCH) this.#flush();
    else this.#timer ??= this.#client.clock.after(FLUSH_MS, () => this.#flush());
  }

  #flush(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#dropped > 0)
      this.#client.logger.warn(`${this.#group}: ${this.#dropped} notes of the message trace were dropped`);
    this.#dropped = 0;
    const byTopic = new Map<string, Note[]>();
    for (const note of this.#notes) {
      const some = byTopic.get(note.topic);
      if (some === undefined) byTopic.set(note.topic, [note]);
      else some.push(note);
    }
    this.#notes = [];
    for (const notes of byTopic.values()) {
      let body = '';
      let keys = new Set<string>();
      for (const note of notes) {
        body += note.text;
        for (const key of note.keys) keys.add(key);
        if (body.length < MAX_BODY) continue;
        this.#send(body, keys);
        body = '';
        keys = new Set();
      }
      if (body !== '') this.#send(body, keys);
    }
  }

  #send(body: string, keys: ReadonlySet<string>): void {
    const message = { topic: this.#topic, body, keys: [...keys] };
    const sending = encodeMessage(message, this.#client.nextMessageId(), LIMITS)
      .then((encoded) => this.#kernel.send(encoded))
      .then(
        () => {},
        (error) => {
          this.#client.repeated.warn(
            `trace ${this.#group}`,
            `the message trace of ${this.#group} failed: ${errorText(error)}`,
          );
        },
      )
      .finally(() => this.#sending.delete(sending));
    this.#sending.add(sending);
  }
}

/** What a trace message is found by. */
function allKeys(msgId: string, keys: string | undefined): string[] {
  return [msgId, ...(keys ?? '').split(' ').filter((key) => key !== '')];
}

function line(fields: ReadonlyArray<string | number | boolean | undefined>): string {
  return `${fields.map((field) => (field === undefined ? 'null' : String(field))).join('\u0001')}\u0002`;
}
