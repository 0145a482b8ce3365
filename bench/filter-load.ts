// How many messages a second one core judges by an SQL92 expression: four terms, one of them a search in a text, one over a property that is not
// there; ten properties a message, as they lie in the log. No broker is asked.

import { Sql92Filter } from '../src/filter/index.ts';

const EXPRESSION =
  "price > 100 AND color IN ('red', 'blue') AND name CONTAINS 'ard' AND (missing IS NULL OR missing = 'x')";
const MESSAGES = 1000;

/** The property texts of the messages, one behind the other, and where each begins. */
function propertyTexts(): { bytes: Buffer; starts: number[] } {
  const texts = Array.from({ length: MESSAGES }, (_, i) => {
    const properties = {
      KEYS: `order-${i}`,
      UNIQ_KEY: `7F0000010A5418B4AAC2${String(i).padStart(12, '0')}`,
      TAGS: 'TagA',
      WAIT: 'true',
      CLUSTER: 'DefaultCluster',
      color: i % 3 === 0 ? 'green' : 'red',
      price: String(50 + (i % 400)),
      name: `standard item ${i}`,
      region: 'eu-west-1',
      customer: `c-${i * 7}`,
    };
    const pairs = Object.entries(properties).map(([name, value]) => `${name}\u0001${value}\u0002`);
    return Buffer.from(pairs.join(''));
  });
  const starts = [0];
  for (const text of texts) starts.push(starts.at(-1)! + text.length);
  return { bytes: Buffer.concat(texts), starts };
}

/** Messages a second. */
export function measureFilter(seconds: number): number {
  const { bytes, starts } = propertyTexts();
  const filter = new Sql92Filter(EXPRESSION);
  let matched = 0;
  let judged = 0;
  const round = (): void => {
    for (let i = 0; i < MESSAGES; i++) if (filter.matches(bytes, starts[i]!, starts[i + 1]!)) matched++;
    judged += MESSAGES;
  };
  for (let i = 0; i < 300; i++) round();
  judged = 0;
  const began = performance.now();
  while (performance.now() - began < seconds * 1000) round();
  if (matched === 0) throw new Error('nothing matched');
  return Math.round(judged / ((performance.now() - began) / 1000));
}
