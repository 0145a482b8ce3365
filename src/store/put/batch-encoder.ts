// A client batch as records of the log: first every member is checked and the sum taken, so that a batch is stored whole or not at all,
// then the records are written. Both can be done in shares, member by member. RocketMQ: MessageExtEncoder#encode for a batch, and the
// append callback of CommitLog#asyncPutMessages.

import {
  BatchMember,
  MAX_PROPERTIES_BYTES,
  placeRecord,
  propertiesBytes,
  RecordSource,
  readBatchMember,
  recordBytes,
  recordVersion,
  SysFlag,
  sysFlagWithHosts,
  writeRecord,
} from '../../message/index.ts';
import type { MessageStoreConfig } from '../store-config.ts';
import { PutMessageStatus, type PutRequest } from './put.ts';

/** What a member costs beside its bytes, in bytes. */
const MEMBER_COST = 256;

export class BatchEncoder {
  /** For a refusal: the reason in words. */
  reason = '';
  /** Bytes of all records that were checked. */
  total = 0;
  /** Where each checked record starts, counted from the first one. */
  readonly starts: number[] = [];

  readonly #config: MessageStoreConfig;
  readonly #member = new BatchMember();
  readonly #source = new RecordSource();
  #body: DataView = this.#source.bodyView;
  #bodyStart = 0;
  #bodyEnd = 0;
  #version: 1 | 2 = 1;
  #sysFlag = 0;
  /** Position of the next member, and its number. */
  #at = 0;
  #next = 0;

  constructor(config: MessageStoreConfig) {
    this.#config = config;
  }

  get count(): number {
    return this.starts.length;
  }

  /** Takes on a batch; the bytes that the request points to are borrowed until the last share. PUT_OK, or why it cannot be stored. */
  begin(request: PutRequest): PutMessageStatus {
    const { maxMessageSize, autoMessageVersionOnTopicLen } = this.#config;
    this.total = 0;
    this.starts.length = 0;
    const wireBytes = request.bodyEnd - request.bodyStart;
    if (wireBytes > maxMessageSize)
      return this.#refuse(`the batch has ${wireBytes} bytes, the limit maxMessageSize is ${maxMessageSize}`);
    if ((request.sysFlag & SysFlag.TRANSACTION_MASK) !== 0) return this.#refuse('a batch cannot be transactional');
    const source = this.#source;
    source.topic = request.topic;
    source.topicBytes = request.topicBytes;
    source.queueId = request.queueId;
    source.sysFlag = request.sysFlag;
    source.bornTimestamp = request.bornTimestamp;
    source.bornHost = request.bornHost;
    source.storeHost = request.storeHost;
    source.reconsumeTimes = request.reconsumeTimes;
    source.preparedTransactionOffset = 0;
    source.body = request.body;
    source.properties = request.body;
    this.#body = source.bodyView;
    this.#bodyStart = request.bodyStart;
    this.#bodyEnd = request.bodyEnd;
    this.#at = request.bodyStart;
    this.#version = recordVersion(request.topic, autoMessageVersionOnTopicLen);
    this.#sysFlag = sysFlagWithHosts(request);
    return PutMessageStatus.PUT_OK;
  }

  /** Why a batch is refused whose records do not fit into a file of the log. */
  get doesNotFit(): string {
    return `the batch's records have ${this.total} bytes and do not fit into a file of ${this.#config.mappedFileSizeCommitLog}`;
  }

  /** Whether the share that was done last came to the end of the batch. */
  get isAtEnd(): boolean {
    return this.#at >= this.#bodyEnd;
  }

  /** Checks members that cost about `budget` bytes. Behind the last one it begins anew, with writing. */
  check(budget: number): PutMessageStatus {
    const { enabledAppendPropCRC } = this.#config;
    const member = this.#member;
    const source = this.#source;
    for (let left = budget; left > 0 && this.#at < this.#bodyEnd; ) {
      const fault = readBatchMember(this.#body, this.#at, this.#bodyEnd, member);
      if (fault !== undefined) return this.#refuse(`batch member ${this.count}: ${fault}`);
      this.#take(member);
      const propertyBytes = propertiesBytes(source, enabledAppendPropCRC, false);
      if (propertyBytes > MAX_PROPERTIES_BYTES) {
        const limit = `beyond the limit of ${MAX_PROPERTIES_BYTES}`;
        return this.#refuse(`batch member ${this.count}: properties of ${propertyBytes} bytes are ${limit}`);
      }
      this.starts.push(this.total);
      this.total += recordBytes(source, this.#version, propertyBytes);
      left -= member.end - this.#at + MEMBER_COST;
      this.#at = member.end;
    }
    if (!this.isAtEnd) return PutMessageStatus.PUT_OK;
    if (this.count === 0) return this.#refuse('the batch has no member');
    return PutMessageStatus.PUT_OK;
  }

  /** Goes back to the first member, to write. */
  rewind(): void {
    this.#at = this.#bodyStart;
    this.#next = 0;
  }

  /**
   * Writes the records of members that cost about `budget` bytes; the batch's first record starts at `target[at]` (`view` covers exactly
   * `target`) and has this queue offset and physical offset. Requires that all were checked.
   */
  write(
    target: Uint8Array,
    view: DataView,
    at: number,
    queueOffset: number,
    physicalOffset: number,
    storeTimestamp: number,
    budget: number,
  ): void {
    const { enabledAppendPropCRC } = this.#config;
    const member = this.#member;
    const source = this.#source;
    for (let left = budget; left > 0 && this.#at < this.#bodyEnd; this.#next++) {
      readBatchMember(this.#body, this.#at, this.#bodyEnd, member);
      this.#take(member);
      const propertyBytes = propertiesBytes(source, enabledAppendPropCRC, false);
      const start = this.starts[this.#next]!;
      writeRecord(
        target,
        view,
        at + start,
        source,
        this.#sysFlag,
        this.#version,
        recordBytes(source, this.#version, propertyBytes),
        propertyBytes,
        enabledAppendPropCRC,
        queueOffset + this.#next,
        physicalOffset + start,
        storeTimestamp,
      );
      left -= member.end - this.#at + MEMBER_COST;
      this.#at = member.end;
    }
  }

  /** Gives all written records, whose first lies at the beginning of `target`, other places and another time. */
  place(target: Uint8Array, view: DataView, queueOffset: number, physicalOffset: number, storeTimestamp: number): void {
    const { enabledAppendPropCRC } = this.#config;
    const bornHostBytes = this.#source.bornHost.length;
    for (let i = 0; i < this.starts.length; i++) {
      const start = this.starts[i]!;
      const size = (this.starts[i + 1] ?? this.total) - start;
      const offset = physicalOffset + start;
      placeRecord(
        target,
        view,
        start,
        size,
        bornHostBytes,
        enabledAppendPropCRC,
        queueOffset + i,
        offset,
        storeTimestamp,
      );
    }
  }

  #refuse(reason: string): PutMessageStatus {
    this.reason = reason;
    return PutMessageStatus.MESSAGE_ILLEGAL;
  }

  #take(member: BatchMember): void {
    const source = this.#source;
    source.flag = member.flag;
    source.bodyStart = member.bodyStart;
    source.bodyEnd = member.bodyEnd;
    source.propertiesStart = member.propertiesStart;
    source.propertiesEnd = member.propertiesEnd;
  }
}
