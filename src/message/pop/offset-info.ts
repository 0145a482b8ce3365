// What the answer to a pop says about its messages: three texts of items, one a queue. RocketMQ: ExtraInfoUtil.
//
//   startOffsetInfo   retryFlag queueId startOffset                 joined by ";"
//   msgOffsetInfo     retryFlag queueId offset,offset,...           in the order of the messages
//   orderCountInfo    retryFlag queueId count, and retryFlag qo<queueId>%<offset> count

import { isSafeLong } from './java-numbers.ts';
import { retryFlagOf } from './pop-names.ts';

/** `info` and one more item. */
export function addItem(info: string, item: string): string {
  return info === '' ? item : `${info};${item}`;
}

export function startOffsetItem(topic: string, queueId: number, startOffset: number): string {
  return `${retryFlagOf(topic)} ${queueId} ${startOffset}`;
}

/** `offsets`: the first `count` of them. */
export function messageOffsetsItem(topic: string, queueId: number, offsets: ArrayLike<number>, count: number): string {
  let item = `${retryFlagOf(topic)} ${queueId} `;
  for (let i = 0; i < count; i++) item += i === 0 ? offsets[i]! : `,${offsets[i]}`;
  return item;
}

export function queueOrderCountItem(topic: string, queueId: number, count: number): string {
  return `${retryFlagOf(topic)} ${queueId} ${count}`;
}

export function offsetOrderCountItem(topic: string, queueId: number, offset: number, count: number): string {
  return `${retryFlagOf(topic)} qo${queueId}%${offset} ${count}`;
}

/** The items of a text by `retryFlag@queueId` (or `retryFlag@qo...`); undefined if it is none. */
function parseInfo(info: string | undefined): Map<string, string> | undefined {
  const items = new Map<string, string>();
  if (info === undefined || info === '') return items;
  for (const item of info.split(';')) {
    const parts = item.split(' ');
    const key = `${parts[0]}@${parts[1]}`;
    if (parts.length !== 3 || items.has(key)) return undefined;
    items.set(key, parts[2]!);
  }
  return items;
}

/** startOffsetInfo or orderCountInfo; undefined if the text is none. */
export function parseNumberInfo(info: string | undefined): Map<string, number> | undefined {
  const numbers = new Map<string, number>();
  const items = parseInfo(info);
  if (items === undefined) return undefined;
  for (const [key, text] of items) {
    if (!isSafeLong(text)) return undefined;
    numbers.set(key, Number(text));
  }
  return numbers;
}

/** msgOffsetInfo; undefined if the text is none. */
export function parseMessageOffsets(info: string | undefined): Map<string, number[]> | undefined {
  const offsets = new Map<string, number[]>();
  const items = parseInfo(info);
  if (items === undefined) return undefined;
  for (const [key, text] of items) {
    const list = text.split(',');
    if (!list.every(isSafeLong)) return undefined;
    offsets.set(key, list.map(Number));
  }
  return offsets;
}

/** The key of a queue's item. */
export function infoKey(topic: string, queueId: number): string {
  return `${retryFlagOf(topic)}@${queueId}`;
}
