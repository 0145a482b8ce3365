// How an operator looks at and changes what groups may read of old data, and whether blocks are read ahead. RocketMQ: AdminBrokerProcessor.

import { decodeProperties, parseProperties } from '../../common/config/index.ts';
import { type Request, RequestCode, ResponseCode, toJsonBytes } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import type { HandlerRegistry } from './registry.ts';

/** RocketMQ: the values of madvise, MADV_NORMAL and MADV_RANDOM. */
const READ_AHEAD = 0;
const READ_AT_RANDOM = 1;

export function registerColdDataAdmin(registry: HandlerRegistry, context: BrokerContext): void {
  registry.register(RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, (request) => setThresholds(context, request));
  registry.register(RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, (request) => {
    context.coldData.removeThreshold(Buffer.from(request.bodyCopy()).toString('utf8'));
    request.respond(ResponseCode.SUCCESS);
  });
  registry.register(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO, (request) => {
    request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes(context.coldData.info()));
  });
  registry.register(RequestCode.SET_COMMITLOG_READ_MODE, (request) => setReadMode(context, request));
}

/** Body: `group=bytes`, one a line. RocketMQ leaves out what is no number, and says so in its log only. */
function setThresholds(context: BrokerContext, request: Request): void {
  const from = request.channel.remoteAddress;
  for (const { key, value } of parseProperties(decodeProperties(request.bodyCopy()).text, 'the request')) {
    const bytes = Number(value);
    if (/^-?\d+$/.test(value) && Number.isSafeInteger(bytes)) context.coldData.setThreshold(key, bytes);
    else context.logger.warn(`the threshold of cold reads for ${key} is no number: ${value} (request of ${from})`);
  }
  request.respond(ResponseCode.SUCCESS);
}

function setReadMode(context: BrokerContext, request: Request): void {
  const text = request.header.get('READ_AHEAD_MODE') ?? request.header.get('readAheadMode') ?? '';
  if (!/^-?\d+$/.test(text)) {
    request.respond(ResponseCode.SYSTEM_ERROR, 'set commitlog readahead mode failed');
    return;
  }
  const mode = Number(text);
  if (mode !== READ_AHEAD && mode !== READ_AT_RANDOM) {
    request.respond(ResponseCode.INVALID_PARAMETER, 'set commitlog readahead mode param value error');
    return;
  }
  context.store.config.dataReadAheadEnable = mode === READ_AHEAD;
  request.respond(ResponseCode.SUCCESS, `set commitlog readahead mode success, mode: ${mode}`);
}
