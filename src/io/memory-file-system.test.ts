import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FakeClock, GantryError, SeededRandom } from '../common/index.ts';
import { MemoryFileSystem, readWhole, saveDurably } from './index.ts';

function text(fs: MemoryFileSystem, path: string): string | undefined {
  const bytes = readWhole(fs, path);
  return bytes === undefined ? undefined : Buffer.from(bytes).toString('latin1');
}

function put(fs: MemoryFileSystem, path: string, content: string, position = 0, sync = false): void {
  const file = fs.open(path, 'create');
  const bytes = Buffer.from(content, 'latin1');
  file.writeSync(bytes, 0, bytes.length, position);
  if (sync) file.syncSync();
  file.close();
}

function hasCode(code: string): (error: unknown) => boolean {
  return (error) => error instanceof GantryError && error.code === code;
}

/** A disk whose completions wait in `tasks` until the test runs them. */
function heldDisk(): { fs: MemoryFileSystem; tasks: Array<() => void>; runAll: () => void } {
  const tasks: Array<() => void> = [];
  const fs = new MemoryFileSystem({
    directories: ['/d'],
    schedule: (task) => tasks.push(task),
    clock: new FakeClock(),
  });
  return {
    fs,
    tasks,
    runAll: () => {
      for (let task = tasks.shift(); task !== undefined; task = tasks.shift()) task();
    },
  };
}

/** What can be left of a prepared disk after a power cut, over many seeds. */
function outcomes(prepare: (fs: MemoryFileSystem) => void, look: (fs: MemoryFileSystem) => string): Set<string> {
  const seen = new Set<string>();
  for (let seed = 0; seed < 400; seed++) {
    const fs = new MemoryFileSystem({ directories: ['/d'] });
    prepare(fs);
    fs.powerCut(new SeededRandom(seed));
    seen.add(look(fs));
  }
  return seen;
}

describe('MemoryFileSystem as a disk without faults', () => {
  it('reads what was written, zeros in holes, and nothing past the end', () => {
    const fs = new MemoryFileSystem({ directories: ['/d'] });
    const file = fs.open('/d/a', 'create');
    const bytes = Buffer.alloc(10_000, 7);
    file.writeSync(bytes, 0, bytes.length, 5000);
    const target = Buffer.alloc(20_000, 9);
    assert.equal(file.readSync(target, 0, 20_000, 0), 15_000);
    assert.deepEqual(target.subarray(0, 5000), Buffer.alloc(5000));
    assert.deepEqual(target.subarray(5000, 15_000), bytes);
    assert.equal(file.readSync(target, 0, 10, 15_000), 0);
    file.truncateSync(6000);
    file.truncateSync(8000);
    file.readSync(target, 0, 8000, 0);
    assert.deepEqual(target.subarray(6000, 8000), Buffer.alloc(2000));
  });

  it('holds a 1 GiB file of holes', async () => {
    const fs = new MemoryFileSystem({ directories: ['/d'] });
    await new Promise<void>((resolve, reject) => {
      fs.createSized('/d/big', 1 << 30, (error) => (error === undefined ? resolve() : reject(error)));
    });
    assert.equal(fs.stat('/d/big')?.size, 1 << 30);
    put(fs, '/d/big', 'end', (1 << 30) - 3);
    fs.settle();
    fs.fillAfter(4096);
    assert.equal(fs.usedFraction('/d'), 0.5, 'one page is all that it uses');
  });

  it('keeps names as a tree', () => {
    const fs = new MemoryFileSystem();
    fs.makeDirectory('/a/b');
    put(fs, '/a/b/f', 'x');
    fs.rename('/a/b/f', '/a/g');
    assert.deepEqual(fs.list('/a').sort(), ['b', 'g']);
    assert.deepEqual(fs.list('/nowhere'), []);
    assert.equal(fs.stat('/a/b')?.isDirectory, true);
    assert.equal(fs.stat('/a/b/f'), undefined);
    fs.removeTree('/a');
    fs.removeTree('/a');
    fs.remove('/a/g');
    assert.deepEqual(fs.list('/'), []);
    assert.throws(() => fs.open('/a/g', 'write'), hasCode('IO'));
    assert.throws(() => fs.open('/a/g', 'create'), hasCode('IO'));
  });

  it('keeps a removed file alive for open handles', () => {
    const fs = new MemoryFileSystem({ directories: ['/d'] });
    put(fs, '/d/f', 'abc');
    const file = fs.open('/d/f', 'read');
    fs.remove('/d/f');
    assert.equal(file.readSync(Buffer.alloc(3), 0, 3, 0), 3);
    assert.throws(() => file.writeSync(Buffer.alloc(1), 0, 1, 0), hasCode('IO'));
    assert.equal(fs.openHandles, 1);
    file.close();
    assert.equal(fs.openHandles, 0);
    assert.throws(() => file.size(), hasCode('IO'));
  });

  it('shows an asynchronous write when it completes, and not before', () => {
    const { fs, runAll } = heldDisk();
    const file = fs.open('/d/f', 'create');
    const calls: unknown[] = [];
    file.write(Buffer.from('abc'), 0, 3, 0, (error) => void calls.push(error));
    assert.equal(file.size(), 0);
    runAll();
    assert.equal(text(fs, '/d/f'), 'abc');
    assert.equal(calls.length, 1);
    const target = Buffer.alloc(3);
    file.read(target, 0, 3, 0, (error, n) => calls.push(error, n));
    runAll();
    assert.deepEqual(calls, [undefined, undefined, 3]);
    assert.equal(target.toString(), 'abc');
  });

  it('copies the bytes of a write', () => {
    const fs = new MemoryFileSystem({ directories: ['/d'] });
    const source = Buffer.from('abc');
    fs.open('/d/f', 'create').writeSync(source, 0, 3, 0);
    source.fill(0);
    fs.settle();
    fs.powerCut(new SeededRandom(1));
    assert.equal(text(fs, '/d/f'), 'abc');
  });

  it('notices a source that changed before its write completed', () => {
    const { fs, runAll } = heldDisk();
    const source = Buffer.from('abc');
    fs.open('/d/f', 'create').write(source, 0, 3, 0, () => {});
    source[1] = 0;
    assert.throws(runAll, /changed before it completed/);
  });
});

describe('MemoryFileSystem: power cut', () => {
  it('keeps every synced byte under a durable name', () => {
    const seen = outcomes(
      (fs) => {
        put(fs, '/d/f', 'synced', 0, true);
        fs.syncDirectory('/d');
      },
      (fs) => String(text(fs, '/d/f')),
    );
    assert.deepEqual([...seen], ['synced']);
  });

  it('keeps unsynced bytes wholly, in part or not at all', () => {
    const seen = outcomes(
      (fs) => {
        put(fs, '/d/f', '....', 0, true);
        fs.syncDirectory('/d');
        put(fs, '/d/f', 'abcd', 0);
      },
      (fs) => String(text(fs, '/d/f')),
    );
    assert.deepEqual([...seen].sort(), ['....', 'a...', 'ab..', 'abc.', 'abcd']);
  });

  it('keeps a later write without an earlier one, and sectors out of the middle of one', () => {
    const one = outcomes(
      (fs) => {
        put(fs, '/d/f', '..', 0, true);
        fs.syncDirectory('/d');
        put(fs, '/d/f', 'a', 0);
        put(fs, '/d/f', 'b', 1);
      },
      (fs) => String(text(fs, '/d/f')),
    );
    assert.deepEqual([...one].sort(), ['..', '.b', 'a.', 'ab']);
    const two = outcomes(
      (fs) => {
        put(fs, '/d/f', '.'.repeat(2048), 0, true);
        fs.syncDirectory('/d');
        put(fs, '/d/f', 'x'.repeat(1536), 256);
      },
      (fs) => [0, 512, 1024].map((at) => text(fs, '/d/f')![at + 300]).join(''),
    );
    for (const pattern of ['...', '.x.', 'x.x', '..x', 'xxx']) assert.ok(two.has(pattern), pattern);
  });

  it('never lays an older write over a newer one', () => {
    const seen = outcomes(
      (fs) => {
        put(fs, '/d/f', '.', 0, true);
        fs.syncDirectory('/d');
        put(fs, '/d/f', 'o', 0);
        put(fs, '/d/f', 'n', 0, true);
        put(fs, '/d/f', 'u', 0);
      },
      (fs) => String(text(fs, '/d/f')),
    );
    assert.deepEqual([...seen].sort(), ['n', 'u']);
  });

  it('may keep a new length without the bytes', () => {
    const seen = outcomes(
      (fs) => {
        put(fs, '/d/f', '', 0, true);
        fs.syncDirectory('/d');
        put(fs, '/d/f', 'ab', 0);
      },
      (fs) => String(text(fs, '/d/f')),
    );
    for (const content of ['', 'a', 'ab', '\0\0']) assert.ok(seen.has(content), JSON.stringify(content));
  });

  it('covers by a sync what completed before it was called, and nothing later', () => {
    const { fs, runAll } = heldDisk();
    const file = fs.open('/d/f', 'create');
    fs.syncDirectory('/d');
    file.writeSync(Buffer.from('a'), 0, 1, 0);
    let synced = false;
    file.sync(() => {
      synced = true;
    });
    file.writeSync(Buffer.from('b'), 0, 1, 1);
    runAll();
    assert.equal(synced, true);
    fs.powerCut({ int: () => 0, fraction: () => 0 });
    assert.equal(text(fs, '/d/f'), 'a');
  });

  it('keeps or loses names that were not synced, each for itself', () => {
    const seen = outcomes(
      (fs) => {
        put(fs, '/d/old', 'o', 0, true);
        put(fs, '/d/gone', 'g', 0, true);
        fs.syncDirectory('/d');
        put(fs, '/d/new', 'n', 0, true);
        fs.remove('/d/gone');
        fs.rename('/d/old', '/d/renamed');
      },
      (fs) => fs.list('/d').sort().join(' '),
    );
    assert.equal(seen.size, 8);
    for (const names of ['gone old', 'gone new old', 'new renamed', 'gone renamed']) assert.ok(seen.has(names), names);
    for (const names of seen) assert.ok(names.includes('old') !== names.includes('renamed'), names);
  });

  it('loses a folder whose own name was not synced, with all that is in it', () => {
    const seen = outcomes(
      (fs) => {
        fs.makeDirectory('/d/sub');
        put(fs, '/d/sub/f', 'x', 0, true);
        fs.syncDirectory('/d/sub');
      },
      (fs) => String(text(fs, '/d/sub/f')),
    );
    assert.deepEqual([...seen].sort(), ['undefined', 'x']);
  });

  it('leaves a file in creation absent, empty, or at full length', () => {
    const seen = outcomes(
      (fs) => fs.createSized('/d/next', 100, () => assert.fail('the process is gone')),
      (fs) => String(fs.stat('/d/next')?.size),
    );
    assert.deepEqual([...seen].sort(), ['0', '100', 'undefined']);
  });

  it('makes handles dead and drops completions', () => {
    const { fs, runAll } = heldDisk();
    const file = fs.open('/d/f', 'create');
    fs.syncDirectory('/d');
    file.write(Buffer.from('a'), 0, 1, 0, () => assert.fail('must not complete'));
    fs.powerCut(new SeededRandom(1));
    runAll();
    assert.throws(() => file.readSync(Buffer.alloc(1), 0, 1, 0), hasCode('IO'));
    let code = '';
    file.sync((error) => {
      code = error!.code;
    });
    runAll();
    assert.equal(code, 'IO');
    assert.equal(fs.open('/d/f', 'read').size() <= 1, true);
  });

  it('saveDurably: a cut after any number of operations leaves the old or the new content', () => {
    for (let seed = 0; seed < 400; seed++) {
      const random = new SeededRandom(seed);
      const fs = new MemoryFileSystem({ directories: ['/d'] });
      saveDurably(fs, '/d/f', 'first');
      saveDurably(fs, '/d/f', 'second content');
      fs.powerOffAfter(random.int(9));
      try {
        saveDurably(fs, '/d/f', 'third');
      } catch {
        assert.equal(fs.isDown, true);
      }
      fs.powerCut(random);
      const found = text(fs, '/d/f') ?? text(fs, '/d/f.bak');
      assert.ok(found === 'second content' || found === 'third', `seed ${seed}: ${found}`);
    }
  });

  it('kill keeps what was written and kills the handles', () => {
    const { fs, runAll } = heldDisk();
    const file = fs.open('/d/f', 'create');
    file.writeSync(Buffer.from('abc'), 0, 3, 0);
    file.write(Buffer.from('d'), 0, 1, 3, () => assert.fail('must not complete'));
    fs.kill(new SeededRandom(3));
    runAll();
    assert.match(String(text(fs, '/d/f')), /^abcd?$/);
    assert.throws(() => file.size(), hasCode('IO'));
  });
});

describe('MemoryFileSystem: switched faults', () => {
  it('fails the next sync, which loses what it covered even if a later sync succeeds', () => {
    const fs = new MemoryFileSystem({ directories: ['/d'] });
    put(fs, '/d/f', '...', 0, true);
    fs.syncDirectory('/d');
    const fault = fs.fail({ operation: 'sync', path: '/d/f' });
    const file = fs.open('/d/f', 'write');
    file.writeSync(Buffer.from('a'), 0, 1, 0);
    assert.throws(() => file.syncSync(), hasCode('IO'));
    assert.equal(fault.hits, 1);
    file.writeSync(Buffer.from('b'), 0, 1, 1);
    file.syncSync();
    assert.equal(text(fs, '/d/f'), 'ab.');
    fs.powerCut(new SeededRandom(1));
    assert.equal(text(fs, '/d/f'), '.b.');
  });

  it('fails an asynchronous sync through its callback, every time until cleared', () => {
    const { fs, runAll } = heldDisk();
    const fault = fs.fail({ operation: 'sync', path: /commitlog/, times: Number.POSITIVE_INFINITY });
    fs.makeDirectory('/d/commitlog');
    const codes: unknown[] = [];
    const file = fs.open('/d/commitlog/0', 'create');
    for (let i = 0; i < 2; i++) file.sync((error) => codes.push(error?.code));
    fs.open('/d/other', 'create').sync((error) => codes.push(error?.code));
    runAll();
    fault.clear();
    file.sync((error) => codes.push(error?.code));
    runAll();
    assert.deepEqual(codes, ['IO', 'IO', undefined, undefined]);
  });

  it('writes short with an error, or torn without one', () => {
    const fs = new MemoryFileSystem({ directories: ['/d'] });
    fs.fail({ operation: 'write', keepBytes: 2 });
    assert.throws(() => put(fs, '/d/f', 'abcd'), hasCode('IO'));
    assert.equal(text(fs, '/d/f'), 'ab');
    fs.fail({ operation: 'write', keepBytes: 1, silent: true });
    put(fs, '/d/g', 'abcd');
    assert.equal(text(fs, '/d/g'), 'a');
  });

  it('skips, and fails other operations', () => {
    const fs = new MemoryFileSystem({ directories: ['/d'] });
    fs.fail({ operation: 'write', skip: 1, code: 'DISK_FULL' });
    put(fs, '/d/f', 'a');
    assert.throws(() => put(fs, '/d/f', 'b'), hasCode('DISK_FULL'));
    for (const operation of ['open', 'rename', 'remove', 'makeDirectory', 'syncDirectory'] as const) {
      fs.fail({ operation });
    }
    assert.throws(() => fs.open('/d/f', 'read'), hasCode('IO'));
    assert.throws(() => fs.rename('/d/f', '/d/g'), hasCode('IO'));
    assert.throws(() => fs.remove('/d/f'), hasCode('IO'));
    assert.throws(() => fs.makeDirectory('/d/x'), hasCode('IO'));
    assert.throws(() => fs.syncDirectory('/d'), hasCode('IO'));
    assert.deepEqual(fs.list('/d'), ['f']);
  });

  it('fills up after so many bytes, and clears', () => {
    const { fs, runAll } = heldDisk();
    fs.fillAfter(2 * 4096);
    const file = fs.open('/d/f', 'create');
    const bytes = Buffer.alloc(3 * 4096, 1);
    assert.throws(() => file.writeSync(bytes, 0, bytes.length, 0), hasCode('DISK_FULL'));
    assert.equal(file.size(), 2 * 4096);
    assert.equal(fs.usedFraction('/d'), 1);
    file.writeSync(bytes, 0, 4096, 0);
    let code: string | undefined;
    file.write(bytes, 0, 100, 2 * 4096, (error) => {
      code = error?.code;
    });
    runAll();
    assert.equal(code, 'DISK_FULL');
    fs.freeSpace();
    file.writeSync(bytes, 0, bytes.length, 0);
    assert.equal(file.size(), bytes.length);
  });

  it('gives space back when a file is removed', () => {
    const fs = new MemoryFileSystem({ directories: ['/d'] });
    put(fs, '/d/a', 'a');
    fs.fillAfter(0);
    assert.throws(() => put(fs, '/d/b', 'b'), hasCode('DISK_FULL'));
    fs.remove('/d/a');
    put(fs, '/d/b', 'b');
  });

  it('holds completions until they are released', () => {
    const { fs, runAll } = heldDisk();
    const hold = fs.hold('sync', '/d/f');
    const file = fs.open('/d/f', 'create');
    let done = 0;
    for (let i = 0; i < 3; i++) file.sync(() => done++);
    runAll();
    assert.equal(done, 0);
    assert.equal(hold.waiting, 3);
    hold.release(1);
    runAll();
    assert.equal(done, 1);
    hold.end();
    file.sync(() => done++);
    runAll();
    assert.equal(done, 4);
  });

  it('lies about syncs', () => {
    const fs = new MemoryFileSystem({ directories: ['/d'] });
    put(fs, '/d/f', '.', 0, true);
    fs.syncDirectory('/d');
    fs.syncLies = true;
    put(fs, '/d/f', 'a', 0, true);
    fs.powerCut({ int: () => 0, fraction: () => 0 });
    assert.equal(text(fs, '/d/f'), '.');
  });

  it('powers off after a number of changes and refuses all until the cut', () => {
    const fs = new MemoryFileSystem({ directories: ['/d'] });
    fs.powerOffAfter(2);
    const file = fs.open('/d/f', 'create');
    file.writeSync(Buffer.from('a'), 0, 1, 0);
    assert.equal(fs.isDown, false);
    assert.throws(() => file.syncSync(), hasCode('IO'));
    assert.equal(fs.isDown, true);
    assert.throws(() => fs.list('/d'), hasCode('IO'));
    assert.throws(() => file.readSync(Buffer.alloc(1), 0, 1, 0), hasCode('IO'));
    fs.powerCut(new SeededRandom(1));
    assert.equal(fs.isDown, false);
    fs.list('/d');
  });

  it('clones into an independent disk', () => {
    const fs = new MemoryFileSystem({ directories: ['/d'] });
    put(fs, '/d/f', 'a');
    const copy = fs.clone();
    put(fs, '/d/f', 'b');
    copy.powerCut(new SeededRandom(1));
    assert.equal(text(copy, '/d/f'), 'a');
  });

  it('counts operations', () => {
    const fs = new MemoryFileSystem({ directories: ['/d'] });
    const seen: string[] = [];
    fs.onOperation = (operation, path) => seen.push(`${operation} ${path}`);
    put(fs, '/d/f', 'a', 0, true);
    assert.deepEqual(seen, ['open /d/f', 'create /d/f', 'write /d/f', 'sync /d/f']);
  });
});
