// What tests put into a store.

import { hostField } from '../../message/index.ts';
import { PutRequest } from './put.ts';

/** Where messages of tests are born and stored. */
const TEST_HOST: Uint8Array = hostField('127.0.0.1', 10_911);

/** A put of one message without properties. */
export function putRequest(topic: string, body: Uint8Array | string): PutRequest {
  const put = new PutRequest();
  put.topic = topic;
  put.topicBytes = Buffer.from(topic);
  put.bornHost = TEST_HOST;
  put.storeHost = TEST_HOST;
  put.body = typeof body === 'string' ? Buffer.from(body) : body;
  put.bodyEnd = put.body.length;
  return put;
}
