// The operator's commands about open transactions, as processes, against a broker in this one.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { silentLogger, systemClock } from '../common/index.ts';
import { propertiesText } from '../message/index.ts';
import { RemotingClient, RequestCode } from '../remoting/index.ts';
import { startBroker } from '../testing/index.ts';

const program = new URL('../bin/gantry.js', import.meta.url).pathname;
const run = promisify(execFile);

test('open transactions are listed, committed, rolled back and asked about anew', async () => {
  const server = await startBroker();
  const client = new RemotingClient({ clock: systemClock, logger: silentLogger });
  try {
    const send = (id: string) =>
      client.invoke(
        server.broker.address,
        RequestCode.SEND_MESSAGE,
        {
          producerGroup: 'PG',
          topic: 'T',
          defaultTopic: 'TBW102',
          defaultTopicQueueNums: 1,
          queueId: 0,
          sysFlag: 4,
          bornTimestamp: Date.now(),
          flag: 0,
          properties: propertiesText(
            new Map([
              ['UNIQ_KEY', id],
              ['TRAN_MSG', 'true'],
              ['PGROUP', 'PG'],
            ]),
          ),
          reconsumeTimes: 0,
          unitMode: false,
        },
        Buffer.from('x'),
        5000,
      );
    for (const id of ['u1', 'u2', 'u3']) assert.equal((await send(id)).code, 0);
    const gantry = async (...words: string[]): Promise<string> => {
      const all = ['transactions', ...words, '-n', server.namesrvAddress];
      return (await run(process.execPath, [program, ...all])).stdout;
    };
    const listed = async (): Promise<string[]> => {
      const lines = (await gantry('list', '--json')).split('\n').filter((line) => line !== '');
      return lines.map((line) => (JSON.parse(line) as { id: string }).id);
    };
    assert.deepEqual(await listed(), ['u1', 'u2', 'u3']);
    const [line] = (await gantry('list')).split('\n');
    assert.match(line!, /^u1\tT\tPG\t0 checks\t/);
    assert.match(await gantry('commit', 'u1'), /^commit: u1 on /);
    await gantry('rollback', 'u2', '--json');
    await gantry('recheck', 'u3');
    await assert.rejects(gantry('commit', 'nobody'), /no open transaction nobody/);
    const { transactions, store } = server.broker.context;
    assert.equal(transactions.metrics.count('T'), 1);
    assert.equal(store.maxOffsetInQueue('T', 0), 1);
    await transactions.check();
    assert.deepEqual(await listed(), ['u3']);
  } finally {
    await client.close();
    await server.stop();
  }
});
