// Bodies travel compressed from client to client; brokers keep the bytes as they are. Java producers compress from 4 KiB on, with zlib
// unless told otherwise; the kind stands in the sysFlag (0x700) beside the COMPRESSED bit.

import { promisify } from 'node:util';
import * as zlib from 'node:zlib';
import { errorText, GantryError } from '../common/index.ts';
import { SysFlag } from '../message/index.ts';
import { decodeLz4Frame } from './lz4-frame.ts';

const deflate = promisify(zlib.deflate);

/** RocketMQ: the level that DefaultMQProducerImpl uses. */
const LEVEL = 5;
/** Below this many bytes compressing at once is cheaper than a trip through the thread pool. */
const ASYNC_FROM = 65_536;
/** Most bytes that a compressed body may become; brokers accept 4 MiB compressed, so anything near this is a bomb. */
const MAX_INFLATED_BYTES = 256 * 1024 * 1024;

/** The sysFlag bits of what `compressBody` makes: compressed, zlib. */
export const COMPRESSED_ZLIB: number = SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB;

/** Compresses with zlib, level 5. */
export async function compressBody(body: Uint8Array): Promise<Uint8Array> {
  if (body.length < ASYNC_FROM) return zlib.deflateSync(body, { level: LEVEL });
  return await deflate(body, { level: LEVEL });
}

/** zstd came to node:zlib with Node 22.15; older runtimes have no such function. */
type ZstdDecompress = (body: Uint8Array, options: { maxOutputLength: number }) => Uint8Array;
const zstdDecompress = (zlib as unknown as { zstdDecompressSync?: ZstdDecompress }).zstdDecompressSync;

/**
 * The body as the producer handed it in. Bodies that are not compressed come back as they are.
 * @throws GantryError MESSAGE for zstd where Node lacks it, for unknown kinds and for damaged bytes.
 */
export function decompressBody(body: Uint8Array, sysFlag: number): Uint8Array {
  if ((sysFlag & SysFlag.COMPRESSED) === 0 || body.length === 0) return body;
  const kind = sysFlag & SysFlag.COMPRESSION_MASK;
  try {
    switch (kind) {
      // 0: producers from before the kind was written; they knew zlib only.
      case 0:
      case SysFlag.COMPRESSION_ZLIB:
        return zlib.inflateSync(body, { maxOutputLength: MAX_INFLATED_BYTES });
      case SysFlag.COMPRESSION_ZSTD:
        if (zstdDecompress !== undefined) return zstdDecompress(body, { maxOutputLength: MAX_INFLATED_BYTES });
        break;
      case SysFlag.COMPRESSION_LZ4:
        return decodeLz4Frame(body, MAX_INFLATED_BYTES);
      default:
        break;
    }
  } catch (error) {
    throw new GantryError('MESSAGE', `the body cannot be decompressed: ${errorText(error)}`, { cause: error });
  }
  if (kind === SysFlag.COMPRESSION_ZSTD) {
    throw new GantryError(
      'MESSAGE',
      `the body is compressed with ZSTD, which Node ${process.versions.node} cannot read (22.15 and later can)`,
    );
  }
  throw new GantryError('MESSAGE', `the body is compressed in an unknown way (sysFlag 0x${sysFlag.toString(16)})`);
}
