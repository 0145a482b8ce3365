// What the Java client does beside sending and consuming: requests with replies.

import assert from 'node:assert/strict';
import type { Suite } from '../runner.ts';

export const javaRest: Suite = {
  name: 'java-rest',
  needs: ['java'],
  shared: 'small files',
  scenarios: [
    {
      name: 'request and reply, synchronous and with a callback; a request that nobody answers times out',
      async run(env) {
        const topic = 'RestRequest';
        const rows = await env.java.run('request-reply', {
          namesrv: env.broker.namesrvAddr,
          topic,
          group: `G-${topic}`,
          count: 3,
        });
        for (const mode of ['sync', 'async']) {
          const answers = rows.filter((row) => row['answer'] === mode);
          answers.sort((a, b) => Number(a['index']) - Number(b['index']));
          assert.deepEqual(
            answers.map((row) => [row['body'], row['type'], row['pushed']]),
            [0, 1, 2].map((i) => [`re:${mode}${i}`, 'reply', true]),
          );
        }
        const replies = rows.filter((row) => row['replied'] !== undefined);
        assert.deepEqual(new Set(replies.map((row) => row['status'])), new Set(['SEND_OK']));
        assert.equal(rows.find((row) => row['silent'] !== undefined)?.['silent'], 'RequestTimeoutException');
      },
    },
  ],
};
