// One request, one answer, over the remoting protocol: enough to ask a name server or a broker whether it is ready, without
// the client that is itself under test. Frame: length, header length (type JSON in the top byte), header, body.

import { connect } from 'node:net';

/** A decoded answer. */
export interface Answer {
  code: number;
  remark: string | undefined;
  fields: Record<string, string>;
  body: Buffer;
}

/** Sends one request to `addr` and waits for its answer. Rejects when the connection fails, ends, or stays silent. */
export async function call(
  addr: string,
  code: number,
  fields: Record<string, string> = {},
  body: Buffer = Buffer.alloc(0),
  limitMs = 10_000,
): Promise<Answer> {
  const [host, port] = splitAddress(addr);
  return await new Promise((resolve, reject) => {
    const socket = connect({ host, port });
    let received = Buffer.alloc(0);
    const fail = (error: Error) => {
      socket.destroy();
      reject(error);
    };
    socket.setTimeout(limitMs, () => fail(new Error(`${addr} did not answer code ${code}`)));
    socket.once('error', fail);
    socket.once('close', () => fail(new Error(`${addr} closed the connection`)));
    socket.once('connect', () => socket.write(encode(code, fields, body)));
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 4 || received.length < 4 + received.readInt32BE(0)) return;
      socket.removeAllListeners('close');
      socket.destroy();
      resolve(decode(received));
    });
  });
}

/** Host and port of `host:port`. */
export function splitAddress(addr: string): [string, number] {
  const colon = addr.lastIndexOf(':');
  return [addr.slice(0, colon), Number(addr.slice(colon + 1))];
}

function encode(code: number, fields: Record<string, string>, body: Buffer): Buffer {
  const header = Buffer.from(
    JSON.stringify({
      code,
      language: 'JAVA',
      version: 513,
      opaque: 1,
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

function decode(frame: Buffer): Answer {
  const headerLength = frame.readInt32BE(4) & 0xffffff;
  const header = JSON.parse(frame.toString('utf8', 8, 8 + headerLength)) as {
    code: number;
    remark?: string;
    extFields?: Record<string, string>;
  };
  const body = frame.subarray(8 + headerLength, 4 + frame.readInt32BE(0));
  return { code: header.code, remark: header.remark, fields: header.extFields ?? {}, body };
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
