import assert from 'node:assert/strict';
import { test } from 'node:test';
import { prettyEntry, prettyJson } from './pretty-json.ts';

// The expected texts were printed by RocketMQ 5.5.0's RemotingSerializable.toJson(object, true).

test('a bean: sorted fields, nulls left out, nested beans, one TAB a level', () => {
  const text = prettyJson({
    type: 'CUSTOMIZED',
    exponentialRetryPolicy: undefined,
    customizedRetryPolicy: { next: [1000, 5000] },
  });
  assert.equal(text, '{\n\t"customizedRetryPolicy":{\n\t\t"next":[1000,5000]\n\t},\n\t"type":"CUSTOMIZED"\n}');
});

test('maps: empty ones on one line, integer keys bare and one a line', () => {
  const text = prettyJson({
    offsetTable: new Map<string, ReadonlyMap<number, number>>([
      ['T@G2', new Map()],
      [
        'T@G',
        new Map([
          [0, 5],
          [1, 6],
        ]),
      ],
    ]),
  });
  assert.equal(text, '{\n\t"offsetTable":{\n\t\t"T@G2":{},\n\t\t"T@G":{\n\t\t\t0:5,\n\t\t\t1:6\n\t\t}\n\t}\n}');
});

test('lists: beans and texts one a line, an empty one keeps its TABs', () => {
  const one = { expression: 'a"\\\n\u0001é', topic: 'T2', version: 2 };
  assert.equal(
    prettyEntry('subscriptionDataSet', [one], 2),
    '"subscriptionDataSet":[\n\t\t\t{\n\t\t\t\t"expression":"a\\"\\\\\\n\\u0001é",\n\t\t\t\t"topic":"T2",\n\t\t\t\t"version":2\n\t\t\t}\n\t\t]',
  );
  assert.equal(prettyEntry('G', ['A', 'B'], 2), '"G":[\n\t\t\t"A",\n\t\t\t"B"\n\t\t]');
  assert.equal(prettyEntry('subscriptionDataSet', [], 1), '"subscriptionDataSet":[\n\t\t\n\t]');
});
