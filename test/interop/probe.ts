// Requests and answers over the remoting protocol: enough to ask a name server or a broker whether it is ready, or to see how it
// treats a connection, without the client that is itself under test. Frame: length, header length (type JSON in the top byte), header, body.

import { connect, type Socket } from 'node:net';

/** A decoded answer. */
export interface Answer {
  code: number;
  remark: string | undefined;
  fields: Record<string, string>;
  body: Buffer;
}

/** A connection with any number of requests in flight. */
export class RawConnection {
  readonly #socket: Socket;
  readonly #waiting = new Map<number, { resolve: (answer: Answer) => void; reject: (error: Error) => void }>();
  #received: Buffer = Buffer.alloc(0);
  #opaque = 0;
  #failure: Error | undefined;
  /** Answers to requests that had been answered before, or that nobody sent. */
  unexpected = 0;

  constructor(addr: string) {
    const [host, port] = splitAddress(addr);
    this.#socket = connect({ host, port, noDelay: true });
    this.#socket.once('error', (error) => this.#fail(error));
    this.#socket.once('close', () => this.#fail(new Error(`${addr} closed the connection`)));
    this.#socket.on('timeout', () => this.#fail(new Error(`${addr} stays silent`)));
    this.#socket.on('data', (chunk) => this.#data(chunk));
  }

  /** Sends a request; its answer. Rejects when the connection fails, ends, or stays silent for `limitMs`. */
  async request(
    code: number,
    fields: Record<string, string> = {},
    body: Buffer = Buffer.alloc(0),
    limitMs = 10_000,
  ): Promise<Answer> {
    if (this.#failure !== undefined) throw this.#failure;
    this.#socket.setTimeout(limitMs);
    const opaque = ++this.#opaque;
    this.#socket.write(encode(code, opaque, fields, body));
    return await new Promise((resolve, reject) => this.#waiting.set(opaque, { resolve, reject }));
  }

  close(): void {
    this.#socket.removeAllListeners('close');
    this.#socket.destroy();
  }

  #data(chunk: Buffer): void {
    let bytes = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
    while (bytes.length >= 4 && bytes.length >= 4 + bytes.readInt32BE(0)) {
      const end = 4 + bytes.readInt32BE(0);
      const { opaque, answer } = decode(bytes.subarray(0, end));
      const waiting = this.#waiting.get(opaque);
      if (waiting === undefined) this.unexpected++;
      this.#waiting.delete(opaque);
      waiting?.resolve(answer);
      bytes = bytes.subarray(end);
    }
    this.#received = bytes;
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    this.close();
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}

/** Sends one request to `addr` and waits for its answer, on a connection of its own. */
export async function call(
  addr: string,
  code: number,
  fields: Record<string, string> = {},
  body?: Buffer,
  limitMs?: number,
): Promise<Answer> {
  const connection = new RawConnection(addr);
  try {
    return await connection.request(code, fields, body, limitMs);
  } finally {
    connection.close();
  }
}

/** Host and port of `host:port`. */
export function splitAddress(addr: string): [string, number] {
  const colon = addr.lastIndexOf(':');
  return [addr.slice(0, colon), Number(addr.slice(colon + 1))];
}

function encode(code: number, opaque: number, fields: Record<string, string>, body: Buffer): Buffer {
  const header = Buffer.from(
    JSON.stringify({
      code,
      language: 'JAVA',
      version: 513,
      opaque,
      flag: 0,
      serializeTypeCurrentRPC: 'JSON',
      extFields: fields,
    }),
  );
  const head = Buffer.alloc(8);
  head.writeInt32BE(4 + header.length + body.length, 0);
  head.writeInt32BE(header.length, 4);
  return Buffer.concat([head, header, body]);
}

function decode(frame: Buffer): { opaque: number; answer: Answer } {
  const headerLength = frame.readInt32BE(4) & 0xffffff;
  const header = JSON.parse(frame.toString('utf8', 8, 8 + headerLength)) as {
    code: number;
    opaque: number;
    remark?: string;
    extFields?: Record<string, string>;
  };
  const body = frame.subarray(8 + headerLength, 4 + frame.readInt32BE(0));
  const answer = { code: header.code, remark: header.remark, fields: header.extFields ?? {}, body };
  return { opaque: header.opaque, answer };
}

/** The brokers that a name server knows: name to address of the master. */
export async function brokersOf(namesrvAddr: string): Promise<Map<string, string>> {
  const GET_BROKER_CLUSTER_INFO = 106;
  const answer = await call(namesrvAddr, GET_BROKER_CLUSTER_INFO);
  const found = new Map<string, string>();
  // A Java name server writes the broker ids as numbers without quotes.
  const text = answer.body.toString('utf8').replaceAll(/([{,])\s*(\d+)\s*:/g, '$1"$2":');
  const table = (JSON.parse(text) as { brokerAddrTable?: Record<string, { brokerAddrs?: Record<string, string> }> })
    .brokerAddrTable;
  for (const [name, data] of Object.entries(table ?? {})) {
    const master = data.brokerAddrs?.['0'];
    if (master !== undefined) found.set(name, master);
  }
  return found;
}

/** The maximum offset of a queue as the broker answers it. */
export async function maxOffset(brokerAddr: string, topic: string, queueId: number): Promise<number> {
  const GET_MAX_OFFSET = 30;
  const answer = await call(brokerAddr, GET_MAX_OFFSET, { topic, queueId: String(queueId) });
  if (answer.code !== 0) throw new Error(`GET_MAX_OFFSET: code ${answer.code} ${answer.remark ?? ''}`);
  return Number(answer.fields['offset']);
}

/** Messages behind the maximum offsets of a topic's queues. */
export async function storedMessages(brokerAddr: string, topic: string, queues = 4): Promise<number> {
  let total = 0;
  for (let queueId = 0; queueId < queues; queueId++) total += await maxOffset(brokerAddr, topic, queueId);
  return total;
}
