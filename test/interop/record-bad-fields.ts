// Asks a Java broker and name server every broken request of test/e2e/bad-fields.ts, and writes what they answered:
//
//   node dist/test/interop/record-bad-fields.js test/fixtures/bad-fields.json

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { askAll, prepare } from '../e2e/bad-fields.ts';
import { WirePeer } from '../e2e/wire-peer.ts';
import { JavaSystem } from './java-system.ts';
import { Ports } from './ports.ts';
import { prepareJava } from './toolchain.ts';

const dir = mkdtempSync(join(tmpdir(), 'gantry-record-'));
const java = new JavaSystem(prepareJava(console.log), new Ports(), dir);
const storeDir = join(dir, 'store');
mkdirSync(storeDir);
const broker = await java.startBroker({ storeDir });
try {
  const peer = await WirePeer.open(broker.brokerAddr);
  await prepare(peer);
  await peer.close();
  const answers = await askAll({ broker: broker.brokerAddr, namesrv: broker.namesrvAddr }, 4_000);
  const lines = [...answers].map(([name, answer]) => `${JSON.stringify(name)}:${JSON.stringify(answer)}`);
  writeFileSync(process.argv[2]!, `{\n${lines.join(',\n')}\n}\n`);
  console.log(`${answers.size} answers`);
} finally {
  await broker.kill();
  rmSync(dir, { recursive: true, force: true });
}
