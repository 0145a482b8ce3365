// The names of lite topics. A lite topic is a light queue of a parent topic; its messages are records of that topic, and nothing else of it
// is on disk.
//
//   %LMQ%$<parent>$<lite>      queue id 0
//
// RocketMQ: LiteUtil, which takes any text for a lite topic. Some texts have no queue: a name with "/" is no folder, a "," ends a name in
// INNER_MULTI_DISPATCH, and a "$" makes a name of three parts whose parent nobody finds.

import { lightQueueOf } from '../topic/topic-names.ts';

const PREFIX = '%LMQ%$';
const SEPARATOR = '$';
/** Bytes of a folder's name that every file system takes. */
const MOST_BYTES = 255;

/** Whether a name is that of a lite topic's queue; only its beginning is looked at. */
export function isLiteQueue(name: string): boolean {
  return name.startsWith(PREFIX);
}

/** Whether it is one of a parent topic's. */
export function isLiteQueueOf(name: string, parent: string): boolean {
  return name.startsWith(`${PREFIX}${parent}${SEPARATOR}`);
}

/** Parent and lite topic of a queue; undefined for any other name. */
export function liteParts(name: string): { parent: string; lite: string } | undefined {
  if (!isLiteQueue(name)) return undefined;
  const at = name.indexOf(SEPARATOR, PREFIX.length);
  if (at === -1 || at === PREFIX.length || at === name.length - 1) return undefined;
  if (name.indexOf(SEPARATOR, at + 1) !== -1) return undefined;
  return { parent: name.slice(PREFIX.length, at), lite: name.slice(at + 1) };
}

/** Why a lite topic of this name can have no queue; undefined if it can. */
export function liteTopicFault(parent: string, lite: string): string | undefined {
  const shown = JSON.stringify(lite);
  for (let i = 0; i < lite.length; i++) {
    const c = lite.charCodeAt(i);
    // Control characters, $ , /
    if (c < 32 || c === 127 || c === 36 || c === 44 || c === 47) {
      return `the lite topic ${shown} may not contain ${JSON.stringify(lite[i])}`;
    }
  }
  const bytes = Buffer.byteLength(lightQueueOf(parent, lite));
  return bytes > MOST_BYTES ? `the lite topic ${shown} is too long: its queue's name has ${bytes} bytes` : undefined;
}
