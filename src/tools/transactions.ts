// gantry transactions list|commit|rollback|recheck: what is open on the brokers of a cluster, and an operator's word on it. It asks what any
// client may ask, so it serves RocketMQ's brokers too: the half messages from the saved position on, less those that the records of ended ones
// name. Ends of the last seconds stand in no record yet.

import { AdminClient } from '../client/index.ts';
import { systemClock } from '../common/index.ts';
import { decodeMessages, PropertyName, type StoredMessage, SysFlag } from '../message/index.ts';
import { type ExtFields, RemotingClient, type RemotingResponse, RequestCode, ResponseCode } from '../remoting/index.ts';
import { clientAddress, quietLogger, withHints } from './client-side.ts';
import { CommandFailure, ExitCode } from './exit.ts';

const GROUP = 'CID_RMQ_SYS_TRANS';
const HALF_TOPIC = 'RMQ_SYS_TRANS_HALF_TOPIC';
const OP_TOPIC = 'RMQ_SYS_TRANS_OP_HALF_TOPIC';
const PARKED_TOPIC = 'TRANS_CHECK_MAX_TIME_TOPIC';
/** The subscription comes along with a pull. */
const FLAG_SUBSCRIPTION = 4;
const REQUEST_TIMEOUT_MS = 5000;
const PULL_MESSAGES = 32;

export interface TransactionOptions {
  namesrvAddr?: string;
  broker?: string;
  parked?: boolean;
  json?: boolean;
}

export type TransactionAction = 'list' | 'commit' | 'rollback' | 'recheck';

/** A half message that nobody has ended, or that was given up. */
interface Found {
  readonly broker: string;
  readonly message: StoredMessage;
  readonly parked: boolean;
}

/** Does what is asked for; `ids` are unique keys or offset message ids. @throws CommandFailure, GantryError */
export async function transactions(
  action: TransactionAction,
  ids: readonly string[],
  options: TransactionOptions,
): Promise<number> {
  const namesrvAddr = clientAddress(options.namesrvAddr);
  const client = new RemotingClient({ clock: systemClock, logger: quietLogger });
  try {
    return await withHints(namesrvAddr, async () => {
      const brokers = options.broker === undefined ? await masters(namesrvAddr) : [options.broker];
      const parked = options.parked === true || action === 'recheck';
      const found: Found[] = [];
      for (const broker of brokers) {
        const asker = new Asker(client, broker);
        if (options.parked !== true) found.push(...(await asker.open()));
        if (parked) found.push(...(await asker.parked()));
      }
      if (action === 'list') for (const one of found) print(one, options.json === true);
      else for (const id of ids) await act(client, action, id, found, options.json === true);
      return ExitCode.OK;
    });
  } finally {
    await client.close();
  }
}

async function masters(namesrvAddr: string): Promise<string[]> {
  const admin = new AdminClient({ namesrvAddr, logger: quietLogger });
  await admin.start();
  try {
    const { brokers } = await admin.clusterInfo();
    return Object.values(brokers).flatMap(({ brokerAddrs }) => brokerAddrs['0'] ?? []);
  } finally {
    await admin.close();
  }
}

async function act(
  client: RemotingClient,
  action: Exclude<TransactionAction, 'list'>,
  id: string,
  found: readonly Found[],
  json: boolean,
): Promise<void> {
  // The newest copy of a message that was asked about is the last one.
  const one = found.findLast(({ message }) => message.messageId === id || message.offsetMessageId === id);
  if (one === undefined) throw new CommandFailure(`no open transaction ${id}; "gantry transactions list" shows them`);
  const { broker, message } = one;
  const asker = new Asker(client, broker);
  if (action === 'recheck') {
    await asker.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {
      topic: message.properties.get(PropertyName.REAL_TOPIC),
      msgId: message.offsetMessageId,
    });
  } else {
    await asker.ask(RequestCode.END_TRANSACTION, {
      producerGroup: message.properties.get(PropertyName.PGROUP),
      tranStateTableOffset: message.queueOffset,
      commitLogOffset: message.physicalOffset,
      commitOrRollback: action === 'commit' ? SysFlag.TRANSACTION_COMMIT : SysFlag.TRANSACTION_ROLLBACK,
      fromTransactionCheck: true,
      msgId: message.messageId,
      transactionId: message.messageId,
    });
  }
  const line = json ? JSON.stringify({ action, id, broker, done: true }) : `${action}: ${id} on ${broker}`;
  process.stdout.write(`${line}\n`);
}

function print({ broker, message, parked }: Found, json: boolean): void {
  const { properties } = message;
  const row = {
    id: message.messageId,
    offsetMsgId: message.offsetMessageId,
    broker,
    topic: properties.get(PropertyName.REAL_TOPIC) ?? null,
    queueId: Number(properties.get(PropertyName.REAL_QID) ?? -1),
    group: properties.get(PropertyName.PGROUP) ?? null,
    checks: Number(properties.get(PropertyName.TRANSACTION_CHECK_TIMES) ?? 0),
    born: new Date(message.bornTimestamp).toISOString(),
    bornHost: message.bornHost,
    bytes: message.body.length,
    parked,
  };
  const text = `${row.id}\t${row.topic}\t${row.group}\t${row.checks} checks\t${row.born}\t${row.bornHost}\t${broker}`;
  process.stdout.write(`${json ? JSON.stringify(row) : text}${json || !parked ? '' : '\tparked'}\n`);
}

/** One broker. */
class Asker {
  readonly #client: RemotingClient;
  readonly #broker: string;

  constructor(client: RemotingClient, broker: string) {
    this.#client = client;
    this.#broker = broker;
  }

  /** Half messages that no record of ended ones names, the elders of renewed ones left out. */
  async open(): Promise<Found[]> {
    const ended = new Set<number>();
    for (const record of await this.#all(OP_TOPIC, await this.#position(OP_TOPIC))) {
      for (const text of Buffer.from(record.body).toString('latin1').split(',')) {
        if (/^\d{1,15}$/.test(text)) ended.add(Number(text));
      }
    }
    const halves = await this.#all(HALF_TOPIC, await this.#position(HALF_TOPIC));
    return halves
      .filter(({ queueOffset }) => !ended.has(queueOffset))
      .filter(({ properties }) => !ended.has(Number(properties.get(PropertyName.TRAN_PREPARED_QUEUE_OFFSET) ?? -1)))
      .map((message) => ({ broker: this.#broker, message, parked: false }));
  }

  async parked(): Promise<Found[]> {
    const messages = await this.#all(PARKED_TOPIC, 0);
    return messages.map((message) => ({ broker: this.#broker, message, parked: true }));
  }

  /** @throws CommandFailure when the broker refuses. */
  async ask(code: number, ext: ExtFields): Promise<RemotingResponse> {
    const answer = await this.#invoke(code, ext);
    if (answer.code !== ResponseCode.SUCCESS) {
      throw new CommandFailure(`${this.#broker} answers ${answer.code}${answer.remark ? `: ${answer.remark}` : ''}`);
    }
    return answer;
  }

  #invoke(code: number, ext: ExtFields): Promise<RemotingResponse> {
    return this.#client.invoke(this.#broker, code, ext, null, REQUEST_TIMEOUT_MS);
  }

  async #position(topic: string): Promise<number> {
    const saved = await this.#invoke(RequestCode.QUERY_CONSUMER_OFFSET, { consumerGroup: GROUP, topic, queueId: 0 });
    return saved.code === ResponseCode.SUCCESS ? Number(saved.ext['offset']) : 0;
  }

  /** The messages of queue 0 from an offset on. */
  async #all(topic: string, from: number): Promise<StoredMessage[]> {
    const all: StoredMessage[] = [];
    for (let offset = from; ; ) {
      const answer = await this.#invoke(RequestCode.PULL_MESSAGE, {
        consumerGroup: GROUP,
        topic,
        queueId: 0,
        queueOffset: offset,
        maxMsgNums: PULL_MESSAGES,
        sysFlag: FLAG_SUBSCRIPTION,
        commitOffset: 0,
        suspendTimeoutMillis: 0,
        subscription: '*',
        subVersion: 0,
        expressionType: 'TAG',
      });
      if (answer.code === ResponseCode.SUCCESS) all.push(...decodeMessages(answer.body));
      const next = Number(answer.ext['nextBeginOffset'] ?? offset);
      const ended = answer.code !== ResponseCode.SUCCESS && answer.code !== ResponseCode.PULL_OFFSET_MOVED;
      if (next <= offset || ended) return all;
      offset = next;
    }
  }
}
