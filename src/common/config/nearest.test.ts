import assert from 'node:assert/strict';
import { test } from 'node:test';
import { editDistance, nearestName } from './nearest.ts';

test('the distance counts insertions, deletions, replacements and swaps, and no case', () => {
  assert.equal(editDistance('brokerIp1', 'brokerIP1'), 0);
  assert.equal(editDistance('flsuh', 'flush'), 1);
  assert.equal(editDistance('listenPorts', 'listenPort'), 1);
  assert.equal(editDistance('kitten', 'sitting'), 3);
  assert.equal(editDistance('', 'abc'), 3);
});

test('the nearest name is given only when it is near', () => {
  const names = ['brokerIP1', 'brokerIP2', 'listenPort', 'haListenPort'];
  assert.equal(nearestName('brokerIp1', names), 'brokerIP1');
  assert.equal(nearestName('listenport', names), 'listenPort');
  assert.equal(nearestName('something', names), undefined);
});
