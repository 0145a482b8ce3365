import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger, systemClock } from '../common/index.ts';
import { MemoryFileSystem, readWhole } from '../io/index.ts';
import { RemotingClient, RequestCode, ResponseCode } from '../remoting/index.ts';
import { Broker } from './index.ts';
import { sendHeader } from './processor/sender.test.support.ts';

test('a topic that a send creates is saved before the message is committed: a kill after the answer must not hide it', async (t) => {
  const fs = new MemoryFileSystem({ directories: ['/store/config'] });
  const broker = await Broker.start({
    storeConfig: {
      storePathRootDir: '/store',
      mappedFileSizeCommitLog: 256 * 1024,
      maxHashSlotNum: 100,
      maxIndexNum: 400,
    },
    config: { listenPort: 0, brokerIP1: '127.0.0.1' },
    host: '127.0.0.1',
    deps: { fs, logger: silentLogger },
  });
  t.after(() => broker.stop());
  const savedAtCommit: boolean[] = [];
  fs.onOperation = (operation, path) => {
    if (operation !== 'write' || !path.startsWith('/store/commitlog/')) return;
    const saved = readWhole(fs, '/store/config/topics.json') ?? new Uint8Array();
    savedAtCommit.push(Buffer.from(saved).includes('"Fresh"'));
  };
  const client = new RemotingClient({ clock: systemClock, logger: silentLogger });
  t.after(() => client.close());
  const header = sendHeader({ b: 'Fresh' });
  const address = `127.0.0.1:${broker.port}`;
  const answer = await client.invoke(address, RequestCode.SEND_MESSAGE_V2, header, Buffer.from('x'), 10_000);
  assert.equal(answer.code, ResponseCode.SUCCESS);
  assert.deepEqual(savedAtCommit, [true]);
});
