// The records of ended transactions: each names the half messages, by queue offset, that nobody has to be asked about any more. Ends are
// gathered, by half queue, until a record is full or the oldest has waited long enough; with nothing gathered there is no timer.
//
//   topic RMQ_SYS_TRANS_OP_HALF_TOPIC, queue as the half queue, TAGS d, WAIT true, body "12,14,13,"
//
// RocketMQ: TransactionalOpBatchService, MessageQueueOpContext. Its thread never waits again after the first end (B71).

import type { Clock, Logger, Timer } from '../../common/index.ts';
import { PropertyName, propertiesTextInJavaOrder } from '../../message/index.ts';
import { type MessageStore, PutMessageStatus, PutResult, putStatusName } from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { toPutRequest } from '../internal-put.ts';
import { TRANS_OP_HALF_TOPIC } from '../topic/topic-names.ts';

export const REMOVE_TAG = 'd';
const SEPARATOR = ',';
/** Ends that are gathered at most while they cannot be written. */
const MOST_GATHERED = 20_000;
/** Ms until a record that could not be written is tried again. */
const RETRY_MS = 1000;

/** Ends of one half queue that no record tells of yet. */
interface Gathered {
  readonly queueId: number;
  readonly offsets: number[];
  bytes: number;
  lastWriteMs: number;
}

export interface OpParts {
  readonly config: BrokerConfig;
  readonly store: MessageStore;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly storeHost: Uint8Array;
}

export class OpBatches {
  readonly #parts: OpParts;
  readonly #queues = new Map<number, Gathered>();
  readonly #properties: Uint8Array;
  readonly #result = new PutResult();
  #timer: Timer | undefined;
  #complained = false;
  #stopped = false;
  /** Records written since the start. */
  written = 0;
  /** Queue offset behind the last record written, by queue. */
  readonly ends: Map<number, number> = new Map();

  constructor(parts: OpParts) {
    this.#parts = parts;
    const properties = new Map<string, string>([
      [PropertyName.TAGS, REMOVE_TAG],
      [PropertyName.WAIT, 'true'],
    ]);
    this.#properties = Buffer.from(propertiesTextInJavaOrder(properties, 16));
  }

  /** Whether ends are waiting to be written. */
  get waiting(): boolean {
    for (const { offsets } of this.#queues.values()) if (offsets.length > 0) return true;
    return false;
  }

  /** False: too many ends wait to be written, since the store takes none. */
  hasRoom(queueId: number): boolean {
    return (this.#queues.get(queueId)?.offsets.length ?? 0) < MOST_GATHERED;
  }

  /** Notes that the half message at a queue offset has ended. */
  add(queueId: number, offset: number): void {
    const { clock, config } = this.#parts;
    let gathered = this.#queues.get(queueId);
    if (gathered === undefined) {
      gathered = { queueId, offsets: [], bytes: 0, lastWriteMs: clock.now() };
      this.#queues.set(queueId, gathered);
    }
    gathered.offsets.push(offset);
    gathered.bytes += digitsOf(offset) + SEPARATOR.length;
    if (gathered.bytes >= config.transactionOpMsgMaxSize && !this.#complained) this.#write(gathered);
    else this.#wakeIn(gathered.lastWriteMs + config.transactionOpBatchInterval - clock.now());
  }

  /** Writes all that is gathered; false if some of it could not be. */
  flush(): boolean {
    this.#timer?.cancel();
    this.#timer = undefined;
    for (const gathered of this.#queues.values()) {
      while (gathered.offsets.length > 0) if (!this.#write(gathered)) return false;
    }
    return true;
  }

  /** Nothing wakes it any more, whatever is added. */
  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #wakeIn(ms: number): void {
    if (this.#timer !== undefined || this.#stopped) return;
    // A batch whose time is over still takes in what ends in the next moments.
    const waitMs = Math.max(ms, Math.min(100, this.#parts.config.transactionOpBatchInterval));
    this.#timer = this.#parts.clock.after(waitMs, () => {
      this.#timer = undefined;
      this.flush();
    });
  }

  /** Writes one record. */
  #write(gathered: Gathered): boolean {
    const { store, storeHost, clock, config, logger } = this.#parts;
    let body = '';
    let count = 0;
    while (count < gathered.offsets.length && body.length < config.transactionOpMsgMaxSize) {
      body += `${gathered.offsets[count++]}${SEPARATOR}`;
    }
    const request = toPutRequest(
      {
        topic: TRANS_OP_HALF_TOPIC,
        queueId: gathered.queueId,
        flag: 0,
        sysFlag: 0,
        bornTimestamp: clock.now(),
        bornHost: storeHost,
        reconsumeTimes: 0,
        preparedTransactionOffset: 0,
        body: Buffer.from(body),
        properties: new Map(),
        waitStoreMsgOK: false,
      },
      storeHost,
    );
    request.properties = this.#properties;
    request.propertiesEnd = this.#properties.length;
    store.put(request, this.#result);
    if (this.#result.status !== PutMessageStatus.PUT_OK) {
      if (!this.#complained) {
        const why = `${putStatusName(this.#result.status)} ${this.#result.reason}`;
        logger.warn(`${gathered.offsets.length} ended transactions cannot be noted (${why}); it is tried again`);
      }
      this.#complained = true;
      this.#wakeIn(RETRY_MS);
      return false;
    }
    this.#complained = false;
    this.written++;
    this.ends.set(gathered.queueId, this.#result.queueOffset + 1);
    gathered.offsets.splice(0, count);
    gathered.bytes -= body.length;
    gathered.lastWriteMs = clock.now();
    return true;
  }
}

function digitsOf(value: number): number {
  let digits = 1;
  for (let limit = 10; value >= limit; limit *= 10) digits++;
  return digits;
}

const COMMA = 0x2c;
const ZERO = 0x30;
const MOST_DIGITS = 15;

/** The half offsets that the body of such a record names; what is no number is left out, and undefined says that nothing was one. */
export function offsetsIn(body: Uint8Array): number[] | undefined {
  const offsets: number[] = [];
  let value = 0;
  let digits = 0;
  for (let at = 0; at <= body.length; at++) {
    const byte = at === body.length ? COMMA : body[at]!;
    const digit = byte - ZERO;
    if (byte === COMMA) {
      if (digits > 0 && digits <= MOST_DIGITS) offsets.push(value);
      value = 0;
      digits = 0;
    } else if (digit < 0 || digit > 9) digits = MOST_DIGITS + 1;
    else {
      value = value * 10 + digit;
      digits++;
    }
  }
  return offsets.length === 0 ? undefined : offsets;
}
