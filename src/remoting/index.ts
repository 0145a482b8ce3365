export type { HeaderView } from './header-view.ts';
export type { Channel, ExtFields, RemotingResponse, Request, RequestHandler, Responder } from './types.ts';
