// How processors offer their handlers. The server is one registry; a test, or a proxy in the same process, can be another.

import { errorText, GantryError } from '../../common/index.ts';
import { type Request, type RequestHandler, type Responder, ResponseCode } from '../../remoting/index.ts';

export interface HandlerRegistry {
  /** Sets the handler of a request code. */
  register(code: number, handler: RequestHandler): void;
}

/** RocketMQ: what some answers say, most of them successful, because their handlers set a code and no remark. */
export const NO_REMARK_SET = 'not set any response code';

/**
 * Answers a request after waiting for something. `work` must have read all that it needs of the request before its first await; what it
 * throws is answered as the server answers a handler's throw.
 */
export function answerLater(request: Request, work: (responder: Responder) => Promise<void>): void {
  const responder = request.defer();
  work(responder).catch((error: unknown) => {
    const code = error instanceof GantryError ? (error.responseCode ?? ResponseCode.SYSTEM_ERROR) : undefined;
    responder.respond(code ?? ResponseCode.SYSTEM_ERROR, errorText(error));
  });
}
