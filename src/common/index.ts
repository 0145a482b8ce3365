export { assert, InvariantError } from './assert.ts';
export { copyBytes, peekI64, readI64, sameBytes, toHex, viewOf, writeI64 } from './bytes.ts';
export { type Clock, FakeClock, systemClock, type Timer } from './clock.ts';
export { crc32 } from './crc32.ts';
export { ErrorCode, errorText, GantryError } from './errors.ts';
export { javaHashUtf8, javaStringHash } from './java-hash.ts';
export { CollectingLogger, type Logger, silentLogger } from './logger.ts';
export { advance, type PhysicalOffset, physicalOffset, type QueueOffset, queueOffset } from './offsets.ts';
export { type Random, SeededRandom, systemRandom } from './random.ts';
