// The settings that a simulated store lives with. Most may change from one life to the next, as an operator changes them; a few are
// drawn once for the whole history, since changing them is an operator's decision to lose something.

import type { Random } from '../../src/common/index.ts';
import type { MessageStoreConfig } from '../../src/store/index.ts';
import { QUEUE_FILE_BYTES } from './engine.ts';

export type FlushDiskType = MessageStoreConfig['flushDiskType'];

/** How the process ended before. */
export type Ending = 'clean' | 'kill' | 'power';

export class SettingsDraw {
  readonly #random: Random;
  readonly #flush: FlushDiskType | undefined;
  /** 0: records without a property CRC; 1: all with one, and recovery may insist on it; 2: it is turned on and off. */
  readonly #propertyCrc: number;
  /** Fixed: turned on later it would not take what was torn, promised to nobody and kept before. */
  readonly #forceCrc: boolean;
  #queueFileBytes = QUEUE_FILE_BYTES;

  /** `flush`: kept for all lives. */
  constructor(random: Random, flush: FlushDiskType | undefined) {
    this.#random = random;
    this.#flush = flush;
    this.#propertyCrc = random.int(3);
    this.#forceCrc = this.#propertyCrc === 1 && random.int(2) === 0;
  }

  /** The settings of the next life; `usual` is what the history began with. */
  next(usual: FlushDiskType, ending: Ending): Partial<MessageStoreConfig> {
    const random = this.#random;
    const other: FlushDiskType = usual === 'SYNC_FLUSH' ? 'ASYNC_FLUSH' : 'SYNC_FLUSH';
    if (random.int(10) === 0) this.#queueFileBytes = [500, 1000, 2000][random.int(3)]!;
    return {
      flushDiskType: this.#flush ?? (random.int(4) === 0 ? other : usual),
      mappedFileSizeConsumeQueue: this.#queueFileBytes,
      messageIndexEnable: random.int(4) > 0,
      readUnCommitted: random.int(8) === 0,
      enabledAppendPropCRC: this.#propertyCrc === 1 || (this.#propertyCrc === 2 && random.int(2) === 0),
      forceVerifyPropCRC: this.#forceCrc,
      // Without it a torn body is taken for a message: only where nothing can be torn.
      checkCRCOnRecover: ending !== 'clean' || random.int(4) > 0,
      // Four blocks at least; so that blocks are evicted.
      gantryReadCacheBytes: random.int(3) === 0 ? 1 : 16 * 1024 * 1024,
    };
  }
}
