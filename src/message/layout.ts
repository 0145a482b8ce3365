// The CommitLog record: where each field lies. docs/formats/commit-log.md is the page behind this file.
//
//   0  TOTALSIZE i32 | 4 MAGIC i32 | 8 BODYCRC i32 | 12 QUEUEID i32 | 16 FLAG i32 | 20 QUEUEOFFSET i64 | 28 PHYSICALOFFSET i64
//   36 SYSFLAG i32 | 40 BORNTIMESTAMP i64 | 48 BORNHOST 8 or 20 | STORETIMESTAMP i64 | STOREHOST 8 or 20 | RECONSUMETIMES i32
//   PREPAREDTRANSACTIONOFFSET i64 | BODYLEN i32 | BODY | TOPICLEN i8 (V1) or i16 (V2) | TOPIC | PROPERTIESLEN i16 | PROPERTIES

/** Magic of a record with a one-byte topic length. */
export const MAGIC_V1: number = 0xdaa320a7 | 0;
/** Magic of a record with a two-byte topic length. */
export const MAGIC_V2: number = 0xdaa320ab | 0;
/** Magic of the filler that closes a file; its size comes first. */
export const MAGIC_BLANK: number = 0xcbd43194 | 0;
/** Bytes that always remain at the end of a file for the filler: size i32, magic i32. */
export const BLANK_BYTES = 8;

export const QUEUE_ID_AT = 12;
export const FLAG_AT = 16;
export const QUEUE_OFFSET_AT = 20;
export const PHYSICAL_OFFSET_AT = 28;
export const SYS_FLAG_AT = 36;
export const BORN_TIMESTAMP_AT = 40;
export const BORN_HOST_AT = 48;

/** Record bytes without hosts, body, topic-length field, topic and properties. */
export const FIXED_BYTES = 72;
/** Bytes of the smallest record (V1, both hosts IPv4, nothing variable). */
export const MIN_RECORD_BYTES = 91;

/** Longest property block: the length field is a signed 16-bit. */
export const MAX_PROPERTIES_BYTES = 32_767;
/** A topic of more UTF-16 units than this needs a V2 record. */
export const MAX_V1_TOPIC_CHARS = 127;

/** RocketMQ: MessageSysFlag. */
export const SysFlag = {
  COMPRESSED: 0x1,
  MULTI_TAGS: 0x2,
  TRANSACTION_MASK: 0xc,
  TRANSACTION_PREPARED: 0x4,
  TRANSACTION_COMMIT: 0x8,
  TRANSACTION_ROLLBACK: 0xc,
  BORNHOST_V6: 0x10,
  STOREHOST_V6: 0x20,
  NEED_UNWRAP: 0x40,
  INNER_BATCH: 0x80,
  COMPRESSION_MASK: 0x700,
  COMPRESSION_LZ4: 0x100,
  COMPRESSION_ZSTD: 0x200,
  COMPRESSION_ZLIB: 0x300,
} as const;

/** Whether a record with these flags takes a place in its queue: a half message and a rollback take none. */
export function isCounted(sysFlag: number): boolean {
  const transaction = sysFlag & SysFlag.TRANSACTION_MASK;
  return transaction === 0 || transaction === SysFlag.TRANSACTION_COMMIT;
}

/** Bytes of the property CRC block at a record's end: name, 0x01, ten digits, 0x02. */
export const CRC_PROPERTY_BYTES = 20;
/** RocketMQ: MessageConst.PROPERTY_CRC32. */
export const CRC_PROPERTY_NAME = '__CRC32#';

export function bornHostBytes(sysFlag: number): number {
  return sysFlag & SysFlag.BORNHOST_V6 ? 20 : 8;
}

export function storeHostBytes(sysFlag: number): number {
  return sysFlag & SysFlag.STOREHOST_V6 ? 20 : 8;
}
