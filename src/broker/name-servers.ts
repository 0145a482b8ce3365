// What a broker asks name servers about others. Each is asked in turn, until one answers.

import { GantryError } from '../common/index.ts';
import {
  type ExtFields,
  type JsonObject,
  parseJson,
  type RemotingResponse,
  RequestCode,
  ResponseCode,
} from '../remoting/index.ts';

/** Sends a request to `host:port`. Rejects with GantryError REMOTING_... */
export type Invoke = (
  address: string,
  code: number,
  ext: ExtFields,
  body: Uint8Array | null,
  timeoutMs: number,
) => Promise<RemotingResponse>;

export interface NameServers {
  readonly invoke: Invoke;
  /** Addresses of the name servers that know this broker now. */
  readonly nameServers: () => readonly string[];
}

/** RocketMQ: GET_TOPIC_ROUTE_TIMEOUT. */
const ROUTE_TIMEOUT_MS = 3000;
/** Queues of one broker in a route that are believed. */
export const MOST_QUEUES = 65_536;

/** The TopicRouteData of a topic; undefined if the first name server that answers has none. @throws GantryError as `askNameServers` */
export function topicRoute(
  servers: NameServers,
  topic: string,
  timeoutMs: number = ROUTE_TIMEOUT_MS,
): Promise<JsonObject | undefined> {
  return askNameServers(servers, RequestCode.GET_ROUTEINFO_BY_TOPIC, { topic }, timeoutMs);
}

/**
 * The object that the first name server answers with; undefined for TOPIC_NOT_EXIST.
 * @param timeoutMs for each of them
 * @throws GantryError REMOTING_..., RESPONSE or JSON when none answers with one: why the last did not
 */
export async function askNameServers(
  { invoke, nameServers }: NameServers,
  code: number,
  ext: ExtFields,
  timeoutMs: number,
): Promise<JsonObject | undefined> {
  let failure: unknown = new GantryError('REMOTING_CONNECT', 'no name server knows this broker', {
    responseCode: ResponseCode.SYSTEM_ERROR,
  });
  for (const address of nameServers()) {
    try {
      const response = await invoke(address, code, ext, null, timeoutMs);
      if (response.code === ResponseCode.TOPIC_NOT_EXIST) return undefined;
      if (response.code === ResponseCode.SUCCESS) return parseJson(response.body) as JsonObject;
      failure = refused(response, `${address}: `);
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

/** What an answer becomes that is not the wanted one. */
export function refused({ code, remark }: RemotingResponse, who = ''): GantryError {
  return new GantryError('RESPONSE', `${who}code ${code}${remark ? `, ${remark}` : ''}`, {
    responseCode: ResponseCode.SYSTEM_ERROR,
  });
}
