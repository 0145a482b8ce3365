// The errors of the client, all GantryError: match on `code`. What a broker or name server answered is a BrokerError.

import { GantryError } from '../common/index.ts';
import { type RemotingResponse, ResponseCode } from '../remoting/index.ts';

/** RocketMQ's name of a response code, or the number. */
export function responseName(code: number): string {
  for (const [name, value] of Object.entries(ResponseCode)) if (value === code) return name;
  return String(code);
}

/** A broker or name server answered with an error code. `code` is `RESPONSE`; `responseCode` is its number (a ResponseCode). */
export class BrokerError extends GantryError {
  /** The peer's own words; empty if it gave none. */
  readonly remark: string;
  /** `ip:port` of the peer. */
  readonly address: string;

  constructor(what: string, address: string, response: RemotingResponse) {
    const remark = response.remark ?? '';
    const name = responseName(response.code);
    super('RESPONSE', `${what}: ${address} answered ${response.code} ${name}${remark === '' ? '' : `: ${remark}`}`, {
      responseCode: response.code,
    });
    this.name = 'BrokerError';
    this.remark = remark;
    this.address = address;
  }
}

/** The response if its code is 0. @throws BrokerError otherwise. */
export function expectSuccess(what: string, address: string, response: RemotingResponse): RemotingResponse {
  if (response.code !== ResponseCode.SUCCESS) throw new BrokerError(what, address, response);
  return response;
}

/** Whether `error` is what a peer answered with this response code. */
export function isResponse(error: unknown, responseCode: number): boolean {
  return error instanceof BrokerError && error.responseCode === responseCode;
}

/** Whether the peer could not be reached or did not answer: another peer may do better. */
export function isNetworkError(error: unknown): boolean {
  return (
    error instanceof GantryError &&
    (error.code === 'REMOTING_CONNECT' || error.code === 'REMOTING_TIMEOUT' || error.code === 'REMOTING_CLOSED')
  );
}
