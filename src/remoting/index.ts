export { addressText, hostBytes, ipBytes, plainIp, splitAddress } from './address.ts';
export { decodeBinaryHeader, encodeBinaryHeader } from './binary-header.ts';
export { refuseBody, withBodyLimit } from './body-limit.ts';
export { COPY_LIMIT } from './channel-output.ts';
export {
  FLAG_ONEWAY,
  FLAG_RESPONSE,
  FRAME_LIMIT,
  LANGUAGE_NAMES,
  LanguageCode,
  MQ_VERSION,
  PeerVersion,
  RequestCode,
  ResponseCode,
  SerializeType,
} from './codes.ts';
export { type ConnectionLimits, DEFAULT_LIMITS } from './connection-hub.ts';
export { decodeFrame } from './frame.ts';
export { FrameWriter } from './frame-writer.ts';
export { decodeJsonHeader } from './header-scanner.ts';
export { HeaderView, missingText, notANumberText } from './header-view.ts';
export { type JsonObject, type JsonValue, type ParseJsonOptions, parseJson } from './json.ts';
export { unescapeInto, unescapeText } from './json-unescape.ts';
export { toJson, toJsonBytes } from './json-writer.ts';
export { KeptBody } from './kept-body.ts';
export { RemotingClient, type RemotingClientOptions } from './remoting-client.ts';
export { type HeldInput, RemotingServer, type RemotingServerOptions } from './server.ts';
export { SlabPool } from './slab-pool.ts';
export type {
  Channel,
  ExtFields,
  HeldRequest,
  RemotingResponse,
  Request,
  RequestHandler,
  Responder,
  ResponseCallback,
} from './types.ts';
