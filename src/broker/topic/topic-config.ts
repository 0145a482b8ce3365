// RocketMQ: TopicConfig and PermName. A TopicConfig is never changed in place: an update puts a new one into the table, so that
// whoever holds one (a connection's header template, say) sees by identity, or by the table's `version`, that it is out of date.

/** Permission bits of a topic or of the whole broker. */
export const Perm = {
  PRIORITY: 8,
  READ: 4,
  WRITE: 2,
  INHERIT: 1,
} as const;

export function isReadable(perm: number): boolean {
  return (perm & Perm.READ) !== 0;
}

export function isWriteable(perm: number): boolean {
  return (perm & Perm.WRITE) !== 0;
}

/** RocketMQ: PermName#perm2String. */
function permText(perm: number): string {
  return `${isReadable(perm) ? 'R' : '-'}${isWriteable(perm) ? 'W' : '-'}${isInherited(perm) ? 'X' : '-'}`;
}

export function isInherited(perm: number): boolean {
  return (perm & Perm.INHERIT) !== 0;
}

/** `topicSysFlag` bits. */
export const TopicSysFlag = { UNIT: 1, UNIT_SUB: 2 } as const;

export function buildTopicSysFlag(unit: boolean, hasUnitSub: boolean): number {
  return (unit ? TopicSysFlag.UNIT : 0) | (hasUnitSub ? TopicSysFlag.UNIT_SUB : 0);
}

/**
 * Most queues that a topic may be given. RocketMQ has no limit; there as here, some requests walk over all queues of a topic, and a
 * name server's route makes every client do so.
 */
export const MAX_QUEUES = 65_536;

/** Why a topic may not have so many queues; undefined if it may. */
export function queueNumsFault(name: string, value: number): string | undefined {
  if (value >= 0 && value <= MAX_QUEUES) return undefined;
  return `${name} is ${value}, a topic has 0 to ${MAX_QUEUES} queues`;
}

/** What may be given when a topic is made; the rest takes RocketMQ's defaults (16 queues, read and write). */
export interface TopicConfigFields {
  readQueueNums?: number;
  writeQueueNums?: number;
  perm?: number;
  topicFilterType?: string;
  topicSysFlag?: number;
  order?: boolean;
  attributes?: ReadonlyMap<string, string>;
}

const NO_ATTRIBUTES: ReadonlyMap<string, string> = new Map();

export class TopicConfig {
  readonly topicName: string;
  /** UTF-8 of the name, as it goes into records. */
  readonly nameBytes: Uint8Array;
  readonly readQueueNums: number;
  readonly writeQueueNums: number;
  readonly perm: number;
  /** SINGLE_TAG or MULTI_TAG. */
  readonly topicFilterType: string;
  readonly topicSysFlag: number;
  readonly order: boolean;
  /** Names without the `+` or `-` of requests. */
  readonly attributes: ReadonlyMap<string, string>;
  /** Whether its queues are batch queues (attribute queue.type). RocketMQ: QueueTypeUtils#isBatchCq. */
  readonly isBatchQueue: boolean;
  /** Whether it is compacted by key (attribute cleanup.policy). RocketMQ: CleanupPolicyUtils#isCompaction. */
  readonly isCompacted: boolean;

  constructor(topicName: string, fields: TopicConfigFields = {}) {
    this.topicName = topicName;
    this.nameBytes = Buffer.from(topicName, 'utf8');
    this.readQueueNums = fields.readQueueNums ?? 16;
    this.writeQueueNums = fields.writeQueueNums ?? 16;
    this.perm = fields.perm ?? Perm.READ | Perm.WRITE;
    this.topicFilterType = fields.topicFilterType ?? 'SINGLE_TAG';
    this.topicSysFlag = fields.topicSysFlag ?? 0;
    this.order = fields.order ?? false;
    this.attributes = fields.attributes ?? NO_ATTRIBUTES;
    this.isBatchQueue = this.attributes.get('queue.type') === 'BatchCQ';
    this.isCompacted = this.attributes.get('cleanup.policy') === 'COMPACTION';
  }

  /** A copy with some fields replaced. */
  with(fields: TopicConfigFields): TopicConfig {
    return new TopicConfig(this.topicName, {
      readQueueNums: fields.readQueueNums ?? this.readQueueNums,
      writeQueueNums: fields.writeQueueNums ?? this.writeQueueNums,
      perm: fields.perm ?? this.perm,
      topicFilterType: fields.topicFilterType ?? this.topicFilterType,
      topicSysFlag: fields.topicSysFlag ?? this.topicSysFlag,
      order: fields.order ?? this.order,
      attributes: fields.attributes ?? this.attributes,
    });
  }

  /** The words that Java's remarks have for a topic. */
  toString(): string {
    const attributes = [...this.attributes].map(([name, value]) => `${name}=${value}`).join(', ');
    return (
      `TopicConfig [topicName=${this.topicName}, readQueueNums=${this.readQueueNums}, ` +
      `writeQueueNums=${this.writeQueueNums}, perm=${permText(this.perm)}, topicFilterType=${this.topicFilterType}, ` +
      `topicSysFlag=${this.topicSysFlag}, order=${this.order}, attributes={${attributes}}]`
    );
  }

  equals(other: TopicConfig): boolean {
    return (
      this.topicName === other.topicName &&
      this.readQueueNums === other.readQueueNums &&
      this.writeQueueNums === other.writeQueueNums &&
      this.perm === other.perm &&
      this.topicFilterType === other.topicFilterType &&
      this.topicSysFlag === other.topicSysFlag &&
      this.order === other.order &&
      sameAttributes(this.attributes, other.attributes)
    );
  }
}

function sameAttributes(a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): boolean {
  if (a.size !== b.size) return false;
  for (const [name, value] of a) if (b.get(name) !== value) return false;
  return true;
}
