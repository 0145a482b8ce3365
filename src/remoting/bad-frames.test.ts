// What strangers send to an open port.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { CollectingLogger, FakeClock } from '../common/index.ts';
import { FRAME_LIMIT, RequestCode } from './codes.ts';
import { RawPeer, requestFrame, until } from './raw-peer.test.support.ts';
import { RemotingServer } from './server.ts';

interface Fixture {
  port: number;
  logger: CollectingLogger;
  handled: string[];
}

async function withServer(run: (fixture: Fixture) => Promise<void>): Promise<void> {
  const logger = new CollectingLogger();
  const handled: string[] = [];
  const server = new RemotingServer({ clock: new FakeClock(), logger });
  server.setDefault((request) => {
    handled.push(`${request.code} ${Buffer.from(request.bodyCopy()).toString('latin1')}`);
    request.respond(0);
  });
  const port = await server.listen('127.0.0.1', 0);
  await run({ port, logger, handled });
  await server.close(0);
}

function frame(word: number, header: string | Buffer, body = ''): Buffer {
  const head = Buffer.alloc(8);
  head.writeInt32BE(4 + Buffer.byteLength(header) + body.length, 0);
  head.writeUInt32BE(word, 4);
  return Buffer.concat([head, Buffer.from(header), Buffer.from(body)]);
}

function jsonFrame(header: string, body = ''): Buffer {
  return frame(Buffer.byteLength(header), header, body);
}

function length(value: number, rest = ''): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return Buffer.concat([bytes, Buffer.from(rest)]);
}

const BAD: Array<[name: string, bytes: Buffer, reason: RegExp]> = [
  ['a length of 0', length(0), /a frame of 0 bytes is too short/],
  ['a length of 1', length(1, 'x'), /a frame of 1 bytes is too short/],
  ['a length of 2', length(2, 'xx'), /a frame of 2 bytes is too short/],
  ['a length of 3', length(3, 'xxx'), /a frame of 3 bytes is too short/],
  ['a negative length', length(-1), /a frame length of -1 is outside/],
  ['a frame of 16 MiB and 1', length(FRAME_LIMIT - 3), /a frame length of 16777213 is outside/],
  ['an unknown serialize type', frame(0x07000010, 'x'.repeat(16)), /unknown serialize type 7/],
  ['a header longer than its frame', frame(100, '{}'), /a header of 100 bytes in a frame of 6/],
  ['a header that is null', jsonFrame('null'), /not a JSON object/],
  ['a header that is a list', jsonFrame('[]'), /not a JSON object/],
  ['a header with a code that is no number', jsonFrame('{"code":"x"}'), /code is not a 32-bit number/],
  ['an opaque beyond 32 bits', jsonFrame('{"code":1,"opaque":4294967296}'), /opaque is not a 32-bit number/],
  ['a header nested 10,000 deep', jsonFrame(`${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`), /deeper than/],
  ['a list nested 10,000 deep', jsonFrame(`{"extFields":{"a":${'['.repeat(10_000)}`), /deeper than/],
  ['a header that is no JSON', jsonFrame('hello'), /the header is not JSON/],
  ['a torn binary header', frame(0x01000005, '12345'), /the binary header is malformed/],
  ['an HTTP GET', Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'), /the bytes are "GET ": not a RocketMQ client/],
  ['a TLS hello', Buffer.from('16030100c4010000c00303', 'hex'), /TLS hello, and TLS is not supported/],
  ['a PROXY line without end', Buffer.from(`PROXY TCP4 ${'1'.repeat(120)}`), /PROXY line does not end/],
  ['a PROXY line that says nothing', Buffer.from('PROXY TCP4 x y z w\r\n'), /PROXY line cannot be read/],
  [
    'a PROXY header of version 3',
    Buffer.from('0d0a0d0a000d0a515549540a31110000', 'hex'),
    /PROXY header cannot be read/,
  ],
];

describe('B67 short frames and unknown serialisation types', () => {
  for (const [name, bytes, reason] of BAD) {
    it(`${name}: that connection is closed with one line, others go on`, () =>
      withServer(async ({ port, logger, handled }) => {
        const other = await RawPeer.open(port);
        await other.call(1, 1);
        const peer = await RawPeer.open(port);
        const good =
          bytes[0] === 0x16 || bytes[0]! > 1 ? Buffer.alloc(0) : requestFrame(2, 2, null, Buffer.from('good'));
        peer.write(Buffer.concat([good, bytes, requestFrame(3, 3)]));
        await until(() => peer.closed || peer.ended);
        await other.call(1, 4);
        const lines = logger.texts('warn');
        assert.equal(lines.length, 1, lines.join('\n'));
        assert.match(lines[0]!, reason);
        assert.ok(lines[0]!.includes(peer.address));
        assert.deepEqual(handled, good.length > 0 ? ['1 ', '2 good', '1 '] : ['1 ', '1 ']);
        await peer.close();
        await other.close();
      }));
  }

  it('every prefix of a send, then the end: nothing reaches a handler, nobody else is disturbed', () =>
    withServer(async ({ port, logger, handled }) => {
      const line = readFileSync('test/fixtures/frames/json/producer.jsonl', 'utf8')
        .split('\n')
        .find((each) => each.includes('"requestCode":310') && each.includes('"kind":"request"'))!;
      const send = Buffer.from((JSON.parse(line) as { frame: string }).frame, 'base64');
      const other = await RawPeer.open(port);
      for (let end = 0; end < send.length; end++) {
        const peer = await RawPeer.open(port);
        peer.socket.end(send.subarray(0, end));
        await until(() => peer.ended || peer.closed);
        await peer.close();
      }
      assert.deepEqual(handled, []);
      const lines = logger.texts('warn');
      assert.equal(lines.length, 20);
      assert.match(lines[0]!, /it ended in the middle of a frame, after 1 bytes/);
      assert.match(lines[9]!, new RegExp(`after 10 of ${send.length} bytes`));
      other.write(send);
      await until(() => handled.length === 1);
      assert.match(handled[0]!, new RegExp(`^${RequestCode.SEND_MESSAGE_V2} `));
      await other.close();
    }));
});
