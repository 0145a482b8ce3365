// Frames that no client would send: what Java clients sent once, with fields and bytes changed, and what was never anybody's. A seed
// gives the same frames again. Names that are legal come from short lists, so that what a broker keeps of them stays small.

import { readdirSync, readFileSync } from 'node:fs';
import type { Random } from '../../src/common/index.ts';
import { encodeBatch } from '../../src/message/index.ts';
import { RequestCode } from '../../src/remoting/index.ts';
import { SOUND } from './bad-fields.ts';
import {
  BODIES,
  CODES,
  NAMES,
  ODD_CODES,
  ONLY_BROKEN,
  PROPERTY_PIECES,
  SQL_PIECES,
  UNANSWERED,
  VALUES,
} from './hostile-values.ts';
import { binaryRequest, type Fields, frameOf, jsonRequest, ONEWAY, RESPONSE, sendFields } from './wire-peer.ts';

/** What the server owes a frame. */
export type Due =
  /** An answer with this frame's opaque. */
  | 'answer'
  /** Nothing that is waited for: it is one-way, an answer itself, or may be answered by nothing. */
  | 'nothing'
  /** An answer, nothing, or the end of the connection: its bytes were changed at random. */
  | 'anything'
  /** The end of the connection. */
  | 'close';

export interface HostileFrame {
  bytes: Buffer;
  opaque: number;
  due: Due;
  /** What it is, to find it again. */
  kind: string;
}

interface Golden {
  code: number;
  ext: Fields;
  body: Buffer;
}

const root = import.meta.dirname.replace(/\/(dist|\.build\/[^/]+)\/test\/e2e$/, '');

/** All requests of the recorded scenarios. */
function loadGolden(): Golden[] {
  const golden: Golden[] = [];
  for (const folder of ['json', 'binary']) {
    for (const name of readdirSync(`${root}/test/fixtures/frames/${folder}`)) {
      for (const line of readFileSync(`${root}/test/fixtures/frames/${folder}/${name}`, 'utf8').trim().split('\n')) {
        const record = JSON.parse(line) as {
          kind: string;
          code: number;
          bodyLength: number;
          frame: string;
          java: { extFields: Fields | null };
        };
        if (record.kind === 'response') continue;
        const frame = Buffer.from(record.frame, 'base64');
        golden.push({
          code: record.code,
          ext: record.java.extFields ?? {},
          body: frame.subarray(frame.length - record.bodyLength),
        });
      }
    }
  }
  // Every request that is served, also those that no recorded client has sent.
  for (const [name, { fields, body }] of Object.entries(SOUND)) {
    const ext = Object.fromEntries(Object.entries(fields).map(([field, [, value]]) => [field, value]));
    golden.push({ code: RequestCode[name as keyof typeof RequestCode], ext, body: Buffer.from(body ?? '') });
  }
  return golden;
}

/** One frame's worth of badness after another. */
export class HostileFrames {
  readonly #random: Random;
  readonly #golden: readonly Golden[];
  /** Those with bodies of JSON. */
  readonly #json: readonly Golden[];
  readonly #batch: Buffer;
  #batchCut = 0;

  constructor(random: Random) {
    this.#random = random;
    this.#golden = loadGolden().filter((each) => !ONLY_BROKEN.has(each.code));
    this.#json = this.#golden.filter((each) => each.body[0] === 0x7b);
    this.#batch = this.#golden.find((each) => each.code === RequestCode.SEND_BATCH_MESSAGE)!.body;
  }

  /** `opaque` becomes the frame's; `closing` asks for one after which the connection is, or may be, of no use. */
  next(opaque: number, closing: boolean): HostileFrame {
    if (closing) return this.#random.int(2) === 0 ? this.#changedBytes(opaque) : this.#closing(opaque);
    const dice = this.#random.int(110);
    if (dice < 40) return this.#changedField(opaque);
    if (dice < 55) return this.#randomHeader(opaque);
    if (dice < 65) return this.#changedBody(opaque);
    if (dice < 75) return this.#cutBatch(opaque);
    if (dice < 80) return this.#oneway(opaque);
    if (dice < 85) return this.#strayAnswer(opaque);
    if (dice < 90) return this.#oddTypes(opaque);
    if (dice < 96) return this.#oddProperties(opaque);
    if (dice < 103) return this.#oddExpression(opaque);
    return this.#oddJson(opaque);
  }

  #pieces(pieces: readonly string[], between: string): string {
    return Array.from({ length: this.#random.int(this.#random.int(20) === 0 ? 200 : 12) }, () =>
      this.#pick(pieces),
    ).join(between);
  }

  /** A message, or a batch of one, whose properties were put together at random. */
  #oddProperties(opaque: number): HostileFrame {
    const properties = this.#pieces(PROPERTY_PIECES, this.#pick(['', '\u0001', '\u0002']));
    const place = { a: 'P', b: this.#pick(['HostileTopic', 'Hostile-2']), c: 'TBW102', d: '4', e: '0', f: '0', g: '1' };
    const ext = { ...place, h: '0', i: properties, j: '0', k: 'false', m: 'false' };
    if (this.#random.int(3) > 0) {
      return this.#encoded(RequestCode.SEND_MESSAGE_V2, opaque, ext, Buffer.from('x'), 'odd properties');
    }
    const batch = encodeBatch([
      { flag: 0, body: Buffer.from('x'), properties: Buffer.from('KEYS\u0001k\u0002') },
      { flag: this.#random.int(9), body: this.#noise(this.#random.int(9)), properties: Buffer.from(properties) },
    ]);
    const body = Buffer.from(batch);
    return this.#encoded(RequestCode.SEND_BATCH_MESSAGE, opaque, { ...ext, i: '', m: 'true' }, body, 'odd batch');
  }

  /** A filter expression of random tokens: in a pull, a heartbeat, or a client's question whether it is one. */
  #oddExpression(opaque: number): HostileFrame {
    const expression = this.#pieces(SQL_PIECES, this.#pick([' ', ' ', '']));
    const expressionType = this.#pick(['SQL92', 'SQL92', 'SQL92', 'TAG', 'sql', '']);
    const data = { topic: 'HostileTopic', subString: expression, expressionType, subVersion: this.#random.int(9) };
    const kind = 'odd expression';
    switch (this.#random.int(3)) {
      case 0: {
        const wants = { consumerGroup: 'HostileGroup', topic: 'HostileTopic', queueId: '0', queueOffset: '0' };
        const how = { maxMsgNums: '32', sysFlag: '4', commitOffset: '0', suspendTimeoutMillis: '0', subVersion: '0' };
        const ext = { ...wants, ...how, subscription: expression, expressionType };
        return this.#encoded(RequestCode.PULL_MESSAGE, opaque, ext, Buffer.alloc(0), kind);
      }
      case 1: {
        const consumer = { groupName: 'HostileGroup', subscriptionDataSet: [data] };
        const beat = Buffer.from(JSON.stringify({ clientID: 'c', producerDataSet: [], consumerDataSet: [consumer] }));
        return this.#encoded(RequestCode.HEART_BEAT, opaque, {}, beat, kind);
      }
      default: {
        const asked = Buffer.from(JSON.stringify({ clientId: 'c', group: 'HostileGroup', subscriptionData: data }));
        return this.#encoded(RequestCode.CHECK_CLIENT_CONFIG, opaque, {}, asked, kind);
      }
    }
  }

  /** A body that is JSON, with some of its values exchanged for others. */
  #oddJson(opaque: number): HostileFrame {
    const { code, ext, body } = this.#pick(this.#json);
    let text = body.toString('utf8');
    for (let left = 1 + this.#random.int(3); left > 0; left--) {
      const values = [...text.matchAll(/:\s*("(?:[^"\\]|\\.)*"|-?\d+|true|false|null|\[\]|\{\})/g)];
      if (values.length === 0) break;
      const { index, 0: old } = this.#pick(values);
      text = `${text.slice(0, index)}:${JSON.stringify(this.#value())}${text.slice(index + old.length)}`;
    }
    return this.#encoded(code, opaque, shortHold({ ...ext }), Buffer.from(text), 'odd body');
  }

  #pick<T>(list: readonly T[]): T {
    return list[this.#random.int(list.length)]!;
  }

  #value(): unknown {
    return this.#pick(VALUES);
  }

  /** Golden requests with 1 to 3 fields changed, left out or added. */
  #changedFields(): Golden {
    const { code, ext, body } = this.#pick(this.#golden);
    const fields: Fields = { ...ext };
    const names = Object.keys(fields);
    for (let changes = 1 + this.#random.int(3); changes > 0; changes--) {
      const name = names.length === 0 || this.#random.int(8) === 0 ? this.#pick(NAMES) : this.#pick(names);
      if (this.#random.int(6) === 0) delete fields[name];
      else
        Object.defineProperty(fields, name, {
          value: this.#value(),
          enumerable: true,
          configurable: true,
          writable: true,
        });
    }
    return { code, ext: shortHold(fields), body };
  }

  #encoded(code: number, opaque: number, ext: Fields, body: Buffer, kind: string, flag = 0): HostileFrame {
    const binary = this.#random.int(4) === 0;
    const bytes = binary ? binaryRequest(code, opaque, ext, body, flag) : jsonRequest(code, opaque, ext, body, flag);
    const due = (flag & (ONEWAY | RESPONSE)) === 0 && code !== UNANSWERED ? 'answer' : 'nothing';
    return { bytes, opaque, due, kind: `${kind} ${code}${binary ? ' binary' : ''}` };
  }

  #changedField(opaque: number): HostileFrame {
    const { code, ext, body } = this.#changedFields();
    return this.#encoded(code, opaque, ext, body, 'changed fields');
  }

  #randomHeader(opaque: number): HostileFrame {
    const code = this.#random.int(5) === 0 ? this.#pick(ODD_CODES) : this.#pick(CODES);
    const ext: Fields = {};
    for (let left = this.#random.int(this.#random.int(20) === 0 ? 90 : 12); left > 0; left--) {
      const name = this.#random.int(10) === 0 ? `n${left}` : this.#pick(NAMES);
      Object.defineProperty(ext, name, { value: this.#value(), enumerable: true, configurable: true, writable: true });
    }
    // Longer ones end the connection where they are not written as clients write them; a test of its own shows that.
    const fields = JSON.stringify(ext).length > 100_000 ? {} : shortHold(ext);
    return this.#encoded(code, opaque, fields, Buffer.from(this.#pick(BODIES)), 'random header');
  }

  #changedBody(opaque: number): HostileFrame {
    const { code, ext, body } = this.#pick(this.#golden);
    let changed: Buffer = Buffer.from(body);
    switch (this.#random.int(5)) {
      case 0:
        changed = changed.subarray(0, this.#random.int(changed.length + 1));
        break;
      case 1:
        changed = Buffer.concat([changed, this.#noise(1 + this.#random.int(200))]);
        break;
      case 2:
        changed = this.#noise(this.#random.int(400));
        break;
      case 3:
        changed = Buffer.from(this.#pick(BODIES));
        break;
      default:
        for (let left = 1 + this.#random.int(4); left > 0 && changed.length > 0; left--) {
          changed[this.#random.int(changed.length)] = this.#random.int(256);
        }
    }
    return this.#encoded(code, opaque, shortHold({ ...ext }), changed, 'changed body');
  }

  /** A batch that ends at each of its bytes in turn, or whose lengths lie. */
  #cutBatch(opaque: number): HostileFrame {
    let body = Buffer.from(this.#batch.subarray(0, this.#batchCut++ % (this.#batch.length + 1)));
    if (this.#random.int(3) === 0 && body.length >= 22) {
      body.writeInt32BE(
        this.#pick([-1, 0, 1, 2_147_483_647, -2_147_483_648, body.length, 65_536]),
        this.#pick([0, 16]),
      );
    }
    if (this.#random.int(200) === 0) {
      body = Buffer.concat(Array.from({ length: 2_000 }, () => this.#batch));
    }
    const topic = this.#pick(['HostileTopic', 'Hostile-2']);
    const ext = sendFields(topic, { m: this.#pick(['true', 'true', 'TRUE', 'false']) });
    return this.#encoded(RequestCode.SEND_BATCH_MESSAGE, opaque, ext, body, 'cut batch');
  }

  #oneway(opaque: number): HostileFrame {
    const { code, ext, body } = this.#changedFields();
    return this.#encoded(code, opaque, ext, body, 'one-way', ONEWAY);
  }

  /** An answer to what nobody asked, or to what somebody else was asked. */
  #strayAnswer(opaque: number): HostileFrame {
    const { ext, body } = this.#changedFields();
    const asked = this.#pick([opaque, 0x4000_0001, 0x4000_0002, -1, 0]);
    const frame = this.#encoded(this.#random.int(3), asked, ext, body, 'stray answer', RESPONSE | this.#random.int(4));
    return { ...frame, opaque };
  }

  /** JSON that is legal and unlike what clients write: blanks, escaped keys, doubles, duplicate keys. */
  #oddTypes(opaque: number): HostileFrame {
    const { code, ext, body } = this.#changedFields();
    const fields = JSON.stringify(ext);
    const text = this.#pick([
      `\t{ "code" : ${code} , "opaque":${opaque}, "flag":0, "extFields" : ${fields} }\n`,
      `{"code":"${code}","opaque":"${opaque}","flag":"0","extFields":${fields}}`,
      `{"c\\u006fde":${code},"opaque":${opaque},"extFields":${fields}}`,
      `{"code":1,"code":${code},"opaque":5,"opaque":${opaque},"flag":1,"flag":0,"extFields":{"topic":"x"},"extFields":${fields}}`,
      `{"code":${code},"opaque":${opaque},"language":"KLINGON","version":99999,"extFields":${fields},"more":[{"a":[]}]}`,
      `{"code":${code},"opaque":${opaque},"language":12,"remark":"\\ud800","extFields":${fields}}`,
    ]);
    return {
      bytes: frameOf(0, Buffer.from(text), body),
      opaque,
      due: code === UNANSWERED ? 'nothing' : 'answer',
      kind: `odd JSON ${code}`,
    };
  }

  /** A whole frame with some of its bytes changed, its length field apart. */
  #changedBytes(opaque: number): HostileFrame {
    const { code, ext, body } = this.#pick(this.#golden);
    const { bytes } = this.#encoded(code, opaque, shortHold({ ...ext }), body, '');
    for (let left = 1 + this.#random.int(5); left > 0; left--) {
      bytes[4 + this.#random.int(bytes.length - 4)] = this.#random.int(256);
    }
    return { bytes, opaque, due: 'anything', kind: `changed bytes ${code}` };
  }

  #closing(opaque: number): HostileFrame {
    const lengths = [0, 1, 2, 3, -1, -2_147_483_648, 2_147_483_647, 16_777_213, 0x47455420, 0x16030100];
    const close = (bytes: Buffer, kind: string): HostileFrame => ({ bytes, opaque, due: 'close', kind });
    switch (this.#random.int(6)) {
      case 0: {
        const bytes = Buffer.alloc(4 + this.#random.int(20), this.#random.int(256));
        bytes.writeInt32BE(this.#pick(lengths));
        return close(bytes, `length ${bytes.readInt32BE(0)}`);
      }
      case 1:
        return close(frameOf(2 + this.#random.int(254), this.#noise(40)), 'unknown type');
      case 2: {
        const bytes = frameOf(0, Buffer.from('{}'));
        bytes.writeUInt32BE(this.#pick([3, 100, 0xffffff]), 4);
        return close(bytes, 'a header longer than its frame');
      }
      case 3:
        return close(
          frameOf(
            0,
            Buffer.from(this.#pick(['null', '[]', '7', '{"code":"x"}', '{"opaque":1e99}', '{"extFields":[1]}'])),
          ),
          'no header',
        );
      case 4:
        return close(frameOf(1, this.#noise(this.#random.int(20))), 'a short binary header');
      default: {
        const bytes = binaryRequest(10, opaque, { topic: 'x' });
        bytes.writeInt32BE(this.#pick([-1, 2_147_483_647, 1_000]), 8 + 13 + 4 * this.#random.int(2));
        return close(bytes, 'a binary header whose lengths lie');
      }
    }
  }

  #noise(length: number): Buffer {
    const bytes = Buffer.alloc(length);
    for (let i = 0; i < length; i++) bytes[i] = this.#random.int(256);
    return bytes;
  }
}

/** No pull of these runs waits longer than a second, or their ends would wait for it. */
function shortHold(ext: Fields): Fields {
  const wait = Number(ext['suspendTimeoutMillis']);
  if (wait > 1_000) ext['suspendTimeoutMillis'] = '1000';
  // A broker that says that it falls silent soon is taken at its word, and its connection closed.
  if (Number(ext['heartbeatTimeoutMillis']) < 120_000) delete ext['heartbeatTimeoutMillis'];
  return ext;
}
