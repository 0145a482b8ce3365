import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Outcome, parseReport, summary, table } from './public-e2e-report.ts';

const report = (...cases: string[]): string =>
  `<?xml version="1.0"?><testsuite name="x" tests="9">${cases.join('\n')}</testsuite>`;
const one = (name: string, body?: string): string => {
  const head = `<testcase name="${name}" classname="org.apache.rocketmq.pull.PullTest" time="1.5"`;
  return body === undefined ? `${head}/>` : `${head}>\n${body}\n</testcase>`;
};

test('a case passes, fails, is skipped, or passes at its second try, wherever that is written', () => {
  const cases = new Map<string, Outcome>();
  const failure = '<failure type="E"><![CDATA[E: no]]></failure><system-out>x</system-out>';
  const xml = report(
    one('a'),
    one('b', failure),
    one('c', '<skipped/>'),
    one('d', '<flakyError type="E"/>'),
    one('e()'),
  );
  parseReport(xml, cases);
  parseReport(report(one('f', failure), one('b', '<error/>')), cases);
  parseReport(report(one('f')), cases);
  assert.deepEqual(Object.fromEntries(cases), {
    'PullTest.a': 'pass',
    'PullTest.b': 'fail',
    'PullTest.c': 'skipped',
    'PullTest.d': 'flaky',
    'PullTest.e': 'pass',
    'PullTest.f': 'flaky',
  });
});

test('a comparison counts what passes on both, what differs, and what is worse on Gantry', () => {
  const java = new Map<string, Outcome>([
    ['a', 'pass'],
    ['b', 'flaky'],
    ['c', 'fail'],
    ['d', 'fail'],
    ['e', 'skipped'],
  ]);
  const gantry = new Map<string, Outcome>([
    ['a', 'flaky'],
    ['c', 'pass'],
    ['d', 'fail'],
    ['e', 'skipped'],
  ]);
  assert.deepEqual(summary(java, gantry), { both: 1, differ: 2, worse: 1 });
  assert.deepEqual(
    table([
      ['java', java],
      ['gantry', gantry],
    ]).slice(0, 3),
    ['case  java    gantry', 'a     pass    flaky', 'b     flaky   absent'],
  );
});
