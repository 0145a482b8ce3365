// What a body is parsed into takes the loop for a while: a JSON text of 16 MiB up to a second. Requests whose bodies are parsed have a
// limit each, far above what any sound peer sends.

import { ResponseCode } from './codes.ts';
import type { Request, RequestHandler } from './types.ts';

/** Answers a request whose body is longer than `limit` bytes, with SYSTEM_ERROR; false if it is not. */
export function refuseBody(request: Request, limit: number): boolean {
  const bytes = request.bodyEnd - request.bodyStart;
  if (bytes <= limit) return false;
  request.respond(
    ResponseCode.SYSTEM_ERROR,
    `the body of request ${request.code} has ${bytes} bytes, the limit is ${limit}`,
  );
  return true;
}

/** The handler for bodies of up to `limit` bytes; longer ones are refused. */
export function withBodyLimit(handler: RequestHandler, limit: number): RequestHandler {
  return (request) => {
    if (!refuseBody(request, limit)) handler(request);
  };
}
