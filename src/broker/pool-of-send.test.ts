import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger, systemClock } from '../common/index.ts';
import { MemoryFileSystem } from '../io/index.ts';
import { RemotingClient, RequestCode, ResponseCode } from '../remoting/index.ts';
import { Broker } from './index.ts';
import { sendHeader } from './processor/sender.test.support.ts';

test('an exhausted transient store pool is answered as from RocketMQ: code 2, whatever fastFailIfNoBufferInStorePool says', async (t) => {
  for (const fastFailIfNoBufferInStorePool of [false, true]) {
    const fs = new MemoryFileSystem({ directories: ['/store/config'] });
    const broker = await Broker.start({
      storeConfig: {
        storePathRootDir: '/store',
        mappedFileSizeCommitLog: 64 * 1024,
        maxHashSlotNum: 100,
        maxIndexNum: 400,
        transientStorePoolEnable: true,
        transientStorePoolSize: 2,
        fastFailIfNoBufferInStorePool,
      },
      config: { listenPort: 0, brokerIP1: '127.0.0.1' },
      host: '127.0.0.1',
      deps: { fs, logger: silentLogger },
    });
    t.after(() => broker.stop());
    const client = new RemotingClient({ clock: systemClock, logger: silentLogger });
    t.after(() => client.close());
    const hold = fs.hold('write', 'commitlog');
    const header = sendHeader({ b: 'Fresh' });
    const send = () =>
      client.invoke(`127.0.0.1:${broker.port}`, RequestCode.SEND_MESSAGE_V2, header, Buffer.alloc(20_000, 'x'), 10_000);
    let kept = 0;
    let answer = await send();
    for (; answer.code === ResponseCode.SUCCESS; answer = await send()) kept++;
    assert.ok(kept >= 3, `${kept} were kept`);
    assert.equal(answer.code, ResponseCode.SYSTEM_BUSY);
    assert.match(answer.remark ?? '', /^\[REJECTREQUEST\]system busy, start flow control for a while \(.*pool/);
    hold.end();
    while ((await send()).code !== ResponseCode.SUCCESS);
  }
});
