import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { GantryError } from '../common/index.ts';
import { encodeBinaryHeader } from './binary-header.ts';
import { FLAG_RESPONSE, FRAME_LIMIT, MQ_VERSION, SerializeType } from './codes.ts';
import { decodeFrame } from './frame.ts';
import { FrameReader } from './frame-reader.ts';
import { FrameWriter } from './frame-writer.ts';
import { HeaderView } from './header-view.ts';

const FIXTURES = 'test/fixtures/frames';

interface GoldenFrame {
  kind: string;
  headerType: 'JSON' | 'ROCKETMQ';
  bodyLength: number;
  java: {
    code: number;
    language: string;
    version: number;
    opaque: number;
    flag: number;
    remark: string | null;
    extFields: Record<string, string | null> | null;
  };
  frame: string;
}

interface Contents {
  code: number;
  language: string;
  version: number;
  opaque: number;
  flag: number;
  remark: string | undefined;
  ext: Record<string, string>;
  body: Buffer;
}

function decode(frame: Buffer): Contents {
  const view = new HeaderView();
  const bodyStart = decodeFrame(frame, 4, frame.length, view);
  const { code, language, version, opaque, flag, remark } = view;
  return { code, language, version, opaque, flag, remark, ext: view.toObject(), body: frame.subarray(bodyStart) };
}

/** Codes that a binary header carries without their upper half. */
const TRUNCATED = new Map([3442, 3443, 3444, 3445, 3446, 3447, 3448, 3543].map((code) => [code, code + 196_608]));

function expected(golden: GoldenFrame): Omit<Contents, 'body'> {
  const { code, language, version, opaque, flag, remark, extFields } = golden.java;
  const known = golden.headerType === 'ROCKETMQ' && golden.kind !== 'response' ? TRUNCATED.get(code) : undefined;
  const fields = Object.entries(extFields ?? {}).filter((entry): entry is [string, string] => entry[1] !== null);
  return {
    code: known ?? code,
    language,
    version,
    opaque,
    flag,
    remark: remark ?? undefined,
    ext: Object.fromEntries(fields),
  };
}

describe('golden frames', () => {
  for (const kind of readdirSync(FIXTURES).filter((name) => !name.endsWith('.md'))) {
    for (const file of readdirSync(join(FIXTURES, kind))) {
      it(`${kind}/${file} decodes to what Java makes of it, and again after encoding`, () => {
        const lines = readFileSync(join(FIXTURES, kind, file), 'utf8')
          .trim()
          .split('\n');
        assert.ok(lines.length > 0);
        for (const line of lines) {
          const golden = JSON.parse(line) as GoldenFrame;
          const frame = Buffer.from(golden.frame, 'base64');
          const { body, ...header } = decode(frame);
          assert.deepEqual(header, expected(golden));
          assert.equal(body.length, golden.bodyLength);

          const writer = new FrameWriter();
          writer.begin(header.code, header.opaque, header.flag);
          writer.fields(header.ext);
          writer.endHeader(header.remark);
          writer.body(body);
          writer.endFrame();
          const again = decode(writer.take().bytes);
          assert.deepEqual(again, { ...header, language: 'JAVA', version: MQ_VERSION, body });

          const { code, opaque, flag, remark, ext } = header;
          const binary = encodeBinaryHeader(code, opaque, flag, remark, ext);
          const view = new HeaderView();
          const word = Buffer.from([SerializeType.ROCKETMQ, 0, binary.length >> 8, binary.length]);
          decodeFrame(Buffer.concat([word, binary]), 0, 4 + binary.length, view);
          // A value of length 0 does not survive a binary header.
          const filled = Object.entries(ext).filter(([, value]) => value !== '');
          assert.deepEqual(view.toObject(), Object.fromEntries(filled));
          assert.equal(view.code, code);
        }
      });
    }
  }
});

describe('the worked example of docs/formats/remoting.md', () => {
  const page = readFileSync('docs/formats/remoting.md', 'utf8');
  /** The code blocks of the section: hexadecimal digits up to a comment, or a line of JSON. */
  const [, section = ''] = page.split('## Worked example');
  const blocks = [...section.split('\n## ')[0]!.matchAll(/```\n([\s\S]*?)```/g)].map(([, block]) =>
    Buffer.concat(
      block!
        .trim()
        .split('\n')
        .map((line) => (line.startsWith('{') ? Buffer.from(line) : hex(line))),
    ),
  );

  function hex(line: string): Buffer {
    return Buffer.from(line.split('   ')[0]!.replaceAll(' ', ''), 'hex');
  }

  it('is what we write and read', () => {
    const [json, binary, answer] = blocks;
    const writer = new FrameWriter();
    writer.begin(30, 7, 0);
    writer.fields({ topic: 'T', queueId: 3 });
    writer.endHeader();
    writer.endFrame();
    assert.deepEqual(Buffer.from(writer.take().bytes), json);
    const header = encodeBinaryHeader(30, 7, 0, null, { topic: 'T', queueId: 3 });
    assert.deepEqual(header, binary!.subarray(8));
    assert.deepEqual(decode(binary!), decode(json!));
    writer.response(0, 7, null, { offset: 5 });
    assert.deepEqual(Buffer.from(writer.take().bytes), answer);
  });
});

describe('FrameWriter', () => {
  it('writes what Java 5.5 writes, byte for byte', () => {
    const writer = new FrameWriter();
    writer.response(0, 17, null, null, null);
    writer.response(17, -3, 'No "route" é\n', { b: 'x', n: 5, t: true, no: null, not: undefined }, Buffer.from('body'));
    writer.response(206, 0, undefined, {});
    const { bytes } = writer.take();
    const first = '{"code":0,"flag":1,"language":"JAVA","opaque":17,"serializeTypeCurrentRPC":"JSON","version":513}';
    const second =
      '{"code":17,"extFields":{"b":"x","n":"5","t":"true"},"flag":1,"language":"JAVA","opaque":-3,' +
      '"remark":"No \\"route\\" é\\n","serializeTypeCurrentRPC":"JSON","version":513}';
    const third =
      '{"code":206,"extFields":{},"flag":1,"language":"JAVA","opaque":0,"serializeTypeCurrentRPC":"JSON","version":513}';
    const frames = [first, second, third].map((text, i) => {
      const header = Buffer.from(text);
      const body = Buffer.from(i === 1 ? 'body' : '');
      const head = Buffer.alloc(8);
      head.writeInt32BE(4 + header.length + body.length, 0);
      head.writeInt32BE(header.length, 4);
      return Buffer.concat([head, header, body]);
    });
    assert.equal(bytes.toString(), Buffer.concat(frames).toString());
  });

  it('numbers, pieces encoded before, reserved bodies and abandoned frames', () => {
    const writer = new FrameWriter();
    writer.begin(1, 1);
    writer.field('lost', 'x');
    writer.abandon();
    writer.begin(0, 9);
    writer.numberField('offset', Number.MAX_SAFE_INTEGER);
    writer.fieldText(Buffer.from('"MSG_REGION":"DefaultRegion","TRACE_ON":"true"'));
    writer.numberField('low', -1_234_567_890_123);
    writer.numberField('zero', 0);
    writer.endHeader('FOUND');
    const at = writer.reserve(100_000);
    writer.bytes.fill(7, at, at + 100_000);
    writer.body(Buffer.from('tail'));
    writer.endFrame();
    const { ext, body, remark, flag } = decode(writer.take().bytes);
    assert.deepEqual(ext, {
      offset: '9007199254740991',
      MSG_REGION: 'DefaultRegion',
      TRACE_ON: 'true',
      low: '-1234567890123',
      zero: '0',
    });
    assert.equal(remark, 'FOUND');
    assert.equal(flag, FLAG_RESPONSE);
    assert.equal(body.length, 100_004);
    assert.equal(body[99_999], 7);
  });

  it('reads back as it was written, whatever the text', () => {
    const text = fc.string({ unit: 'binary', maxLength: 300 });
    const ext = fc.dictionary(
      fc.stringMatching(/^[a-zA-Z_]{1,12}$/),
      fc.oneof(text, fc.maxSafeInteger(), fc.boolean()),
    );
    fc.assert(
      fc.property(fc.integer(), fc.integer(), text, ext, fc.uint8Array(), (code, opaque, remark, fields, body) => {
        const writer = new FrameWriter();
        writer.response(code, opaque, remark, fields, body);
        const read = decode(writer.take().bytes);
        assert.equal(read.code, code);
        assert.equal(read.opaque, opaque);
        assert.equal(read.remark, remark);
        assert.deepEqual(
          read.ext,
          Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, String(value)])),
        );
        assert.deepEqual(read.body, Buffer.from(body));
      }),
    );
  });
});

describe('binary header', () => {
  const ext = { topic: 'T', properties: 'a\u0001b\u0002', queueId: 3 };

  function decodeBinary(header: Buffer): HeaderView {
    const view = new HeaderView();
    const word = Buffer.alloc(4);
    word.writeInt32BE((SerializeType.ROCKETMQ << 24) | header.length);
    decodeFrame(Buffer.concat([word, header]), 0, 4 + header.length, view);
    return view;
  }

  it('every truncation and every changed byte raises nothing but our own error', () => {
    const whole = encodeBinaryHeader(310, 5, 0, 'remark', ext);
    for (let end = 0; end < whole.length; end++) {
      assert.throws(() => decodeBinary(whole.subarray(0, end)), GantryError);
    }
    fc.assert(
      fc.property(fc.nat(whole.length - 1), fc.nat(255), fc.nat(whole.length - 1), fc.nat(255), (i, a, k, b) => {
        const bytes = Buffer.from(whole);
        bytes[i] = a;
        bytes[k] = b;
        try {
          decodeBinary(bytes).toObject();
        } catch (error) {
          assert.ok(error instanceof GantryError, String(error));
        }
      }),
    );
  });

  it('lets the last of duplicate keys win, also when it is absent', () => {
    const twice = (first: string, second: string): HeaderView => {
      const header = encodeBinaryHeader(1, 1, 0, null, { a: first, b: second });
      header[header.lastIndexOf('b', header.length - 1 - second.length)] = 0x61;
      return decodeBinary(header);
    };
    assert.equal(twice('x', 'y').get('a'), 'y');
    assert.equal(twice('x', '').get('a'), undefined);
    assert.deepEqual(twice('x', '').toObject(), {});
  });

  it('takes more fields than there are ranges', () => {
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`k${i}`, `v${i}`]));
    assert.deepEqual(decodeBinary(encodeBinaryHeader(1, 1, 0, null, many)).toObject(), many);
  });

  it('knows the POP codes that arrive truncated, in requests only', () => {
    assert.equal(decodeBinary(encodeBinaryHeader(200_050, 1, 0, null, null)).code, 200_050);
    assert.equal(decodeBinary(encodeBinaryHeader(200_151, 1, 0, null, null)).code, 200_151);
    assert.equal(decodeBinary(encodeBinaryHeader(3442, 1, FLAG_RESPONSE, null, null)).code, 3442);
  });
});

describe('FrameReader', () => {
  function frames(): Buffer {
    const writer = new FrameWriter();
    for (let i = 0; i < 4; i++) writer.response(0, i, null, { i }, Buffer.alloc(40 * i, i));
    return Buffer.from(writer.take().bytes);
  }

  function readInPieces(bytes: Buffer, cuts: readonly number[]): Buffer[] {
    const reader = new FrameReader(FRAME_LIMIT);
    const found: Buffer[] = [];
    let start = 0;
    for (const cut of [...cuts, bytes.length]) {
      // Each piece lies in a buffer of its own that is overwritten afterwards, as the shared one is.
      const piece = Buffer.from(bytes.subarray(start, cut));
      const stopped = reader.read(piece, 0, piece.length, (buffer, from, to) => {
        found.push(Buffer.from(buffer.subarray(from, to)));
        return true;
      });
      assert.equal(stopped, piece.length);
      piece.fill(0xff);
      start = cut;
    }
    assert.equal(reader.carried, 0);
    return found;
  }

  it('finds the same frames wherever the bytes are cut', () => {
    const bytes = frames();
    const whole = readInPieces(bytes, []);
    assert.equal(whole.length, 4);
    for (let cut = 0; cut <= bytes.length; cut++) assert.deepEqual(readInPieces(bytes, [cut]), whole);
    assert.deepEqual(
      readInPieces(
        bytes,
        Array.from({ length: bytes.length }, (_, i) => i),
      ),
      whole,
    );
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length), { maxLength: 12 }), (cuts) => {
        assert.deepEqual(
          readInPieces(
            bytes,
            cuts.sort((a, b) => a - b),
          ),
          whole,
        );
      }),
    );
  });

  it('stops behind the frame at which the sink says so, and goes on from there', () => {
    const bytes = frames();
    const reader = new FrameReader(FRAME_LIMIT);
    let count = 0;
    let at = 0;
    while (at < bytes.length) {
      at = reader.read(bytes, at, bytes.length, () => {
        count++;
        return false;
      });
    }
    assert.equal(count, 4);
  });

  it('refuses lengths that cannot be', () => {
    for (const length of [-1, 0, 1, 2, 3, FRAME_LIMIT - 3, 0x7fffffff, -0x80000000]) {
      const bytes = Buffer.alloc(4);
      bytes.writeInt32BE(length);
      for (const cut of [0, 1, 2, 3]) {
        const reader = new FrameReader(FRAME_LIMIT);
        assert.throws(
          () => {
            reader.read(bytes, 0, cut, () => true);
            reader.read(bytes, cut, 4, () => true);
          },
          (error: unknown) => error instanceof GantryError && error.code === 'FRAME',
        );
      }
    }
    const largest = Buffer.alloc(4);
    largest.writeInt32BE(FRAME_LIMIT - 4);
    new FrameReader(FRAME_LIMIT).read(largest, 0, 4, () => true);
  });

  it('random bytes raise nothing but our own error', () => {
    const frame = fc
      .tuple(
        fc.constantFrom(0, 1, 2, 255),
        fc.nat(80),
        fc.oneof(fc.uint8Array({ maxLength: 80 }), fc.json().map(Buffer.from)),
      )
      .map(([type, headerLength, rest]) => {
        const head = Buffer.alloc(8);
        head.writeInt32BE(4 + rest.length, 0);
        head.writeUInt32BE(type * 0x1000000 + headerLength, 4);
        return Buffer.concat([head, rest]);
      });
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc.array(frame, { maxLength: 4 }).map((list) => Buffer.concat(list)),
    );
    const header = new HeaderView();
    fc.assert(
      fc.property(bytes, (source) => {
        try {
          const buffer = Buffer.from(source);
          new FrameReader(FRAME_LIMIT).read(buffer, 0, buffer.length, (at, start, end) => {
            decodeFrame(at, start, end, header);
            return true;
          });
        } catch (error) {
          assert.ok(error instanceof GantryError, String(error));
        }
      }),
      { numRuns: 2000 },
    );
  });
});
