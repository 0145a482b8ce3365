// Faults that are put into the engine on purpose, to see that the simulation notices each of them. A mutation replaces texts in the compiled
// code, each of which must be there exactly once: production code carries no switch for it, and a mutation whose place has changed is
// found out at once.

export interface Change {
  /** File below `src`, as compiled. */
  file: string;
  /** Must be in the file exactly once. */
  find: string;
  replace: string;
}

export interface Mutation {
  /** What the engine does wrong. */
  name: string;
  changes: readonly Change[];
  /** Which histories are to notice; default: those of the engine. */
  histories?: '--pop';
  /** The first of the seeds, where what it takes is rare among the first; default 0. */
  from?: number;
}

const LOG_SYNC = 'store/commit-log/log-sync.js';
const STORE = 'store/message-store.js';
const ENGINE = 'store/engine.js';
const TURNS = 'store/turns.js';
const TRUNCATION = 'store/recovery/truncation.js';
const SEGMENTS = 'store/segment/segment-directory.js';
const SAVE = 'io/whole-file.js';
const REVIVE_QUEUE = 'broker/pop/revive/revive-queue.js';

export const MUTATIONS: readonly Mutation[] = [
  {
    name: 'skip the sync',
    changes: [
      { file: LOG_SYNC, find: 'return handle.sync(ended)', replace: 'return clock.soon(() => ended(undefined))' },
      { file: LOG_SYNC, find: 'lane.sync(handle, ended)', replace: 'clock.soon(() => ended(undefined))' },
    ],
  },
  {
    name: 'acknowledge before the sync',
    changes: [{ file: STORE, find: 'flush && this.#syncFlush', replace: 'false' }],
  },
  {
    name: 'acknowledge what an old mark covers after a cut of the log',
    changes: [
      {
        file: TRUNCATION,
        find: 'acks.progress(log.committed, log.flushed);\n        deleted.lowerTo(offset);',
        replace: 'deleted.lowerTo(offset);',
      },
    ],
  },
  {
    name: 'checkpoint early: the queues are vouched for before they are synced',
    changes: [
      {
        file: 'store/flush/derived-flush.js',
        find: 'queues.flush((error) => {',
        replace: '((done) => done(undefined))((error) => {',
      },
    ],
  },
  {
    name: 'checkpoint early: the log is said to be durable when it is written',
    changes: [
      {
        file: TURNS,
        find: 'this.#committedTimestamp = this.#appender.lastStoreTimestamp;\n        if',
        replace:
          'this.#checkpoint.physicMsgTimestamp = this.#committedTimestamp = this.#appender.lastStoreTimestamp;\n        if',
      },
    ],
  },
  {
    name: 'checkpoint late: a cut of the log leaves its claims',
    changes: [
      {
        file: 'store/flush/derived-flush.js',
        find: 'if (checkpoint.logicsPhysicalOffset <= end)',
        replace: 'if (true)',
      },
    ],
  },
  {
    name: 'checkpoint again: a flush claims what the log was cut of',
    from: 700,
    changes: [
      {
        file: 'store/dispatch/dispatcher.js',
        find: 'Math.min(this.lastPhysicalOffset, offset)',
        replace: 'this.lastPhysicalOffset',
      },
    ],
  },
  {
    name: 'cut in memory only',
    changes: [{ file: SEGMENTS, find: 'zeroTail(last, offset - last.base);', replace: '{}' }],
  },
  {
    name: 'cut in the cache only',
    changes: [
      {
        file: SEGMENTS,
        find: 'zeroBytes(handle, position, dirtyEnd - position);\n    handle.syncSync();',
        replace: 'zeroBytes(handle, position, dirtyEnd - position);',
      },
    ],
  },
  {
    name: 'dispatch past the confirm offset',
    changes: [
      {
        file: TURNS,
        find: 'this.#dispatcher.run(this.#log, this.confirmed,',
        replace: 'this.#dispatcher.run(this.#log, this.#log.committed,',
      },
    ],
  },
  {
    name: 'confirm what is not synced',
    changes: [
      {
        file: TURNS,
        find: '? this.#log.flushed : this.#log.committed',
        replace: '? this.#log.committed : this.#log.committed',
      },
    ],
  },
  {
    name: 'no CRC on recovery',
    changes: [{ file: 'store/recovery/recover.js', find: '!config.checkCRCOnRecover', replace: 'true' }],
  },
  {
    name: 'drop a pin: of a file that is being read',
    changes: [
      {
        file: 'store/segment/read-lane.js',
        find: 'file.pin();\n        this.#waiting.push',
        replace: 'this.#waiting.push',
      },
      {
        file: 'store/segment/read-lane.js',
        find: 'file.unpin();\n            this.#reads--',
        replace: 'this.#reads--',
      },
    ],
  },
  {
    name: 'reuse a queue offset: after a start',
    changes: [
      {
        file: 'store/consume-queue/consume-queue.js',
        find: 'this.maxOffset = offset;\n        this.nextOffset = offset;',
        replace: 'this.maxOffset = offset;\n        this.nextOffset = Math.max(0, offset - 1);',
      },
    ],
  },
  {
    name: 'skip a queue offset: a failed write does not give it back',
    changes: [{ file: ENGINE, find: 'this.appender.takeBackOffsets();', replace: '' }],
  },
  {
    name: 'persist consumer offsets without rename: whole',
    changes: [
      {
        file: SAVE,
        find: '.tmp`',
        replace: '`',
      },
      { file: SAVE, find: 'if (fs.stat(path) !== undefined)', replace: 'if (false)' },
      { file: SAVE, find: 'fs.rename(fresh, path);', replace: '' },
    ],
  },
  {
    name: 'persist consumer offsets without rename: in slices',
    changes: [
      { file: 'broker/config-manager.js', find: '.next`', replace: '`' },
      { file: 'broker/config-manager.js', find: 'if (fs.stat(this.#path) !== undefined)', replace: 'if (false)' },
      { file: 'broker/config-manager.js', find: 'fs.rename(this.#fresh, this.#path);', replace: '' },
    ],
  },
  {
    name: "forget the directory's fsync: of a table that is saved",
    changes: [
      {
        file: SAVE,
        find: 'fs.rename(fresh, path);\n    fs.syncDirectory(folder);',
        replace: 'fs.rename(fresh, path);',
      },
    ],
  },
  {
    name: "forget the directory's fsync: of a table that is saved in slices",
    changes: [
      {
        file: 'broker/config-manager.js',
        find: 'fs.syncDirectoryLater(folder, (failure) => this.#done(failure, this.#cancelled));',
        replace: 'this.#done(undefined, this.#cancelled);',
      },
    ],
  },
  {
    name: "forget the directory's fsync: of the marker that says that the store runs",
    changes: [{ file: 'store/load-store.js', find: 'fs.syncDirectory(root);', replace: '{}' }],
  },
  {
    name: "forget the directory's fsync: of queue files",
    changes: [
      {
        file: 'store/consume-queue/unsynced-files.js',
        find: 'fs.syncDirectoryLater(folder, (error) => {',
        replace: '((done) => this.#options.clock.soon(() => done(undefined)))((error) => {',
      },
    ],
  },
  {
    name: 'keep an index that is turned off as it is when the log is cut',
    from: 200,
    changes: [{ file: TRUNCATION, find: 'await cutIdleIndex(offset);', replace: '' }],
  },
  {
    name: 'bring pops back when their time is over, though acknowledgements are still under way',
    histories: '--pop',
    changes: [
      { file: REVIVE_QUEUE, find: 'if (point.reviveMs > this.#knownMs)', replace: 'if (point.reviveMs > now)' },
    ],
  },
  {
    name: 'save the offset of a pop before its check point is synced',
    histories: '--pop',
    changes: [{ file: 'broker/pop/pop-queue.js', find: 'ranges[done].logEnd <= flushed', replace: 'true' }],
  },
];
