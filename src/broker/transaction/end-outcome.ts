// What a producer is told of the put that its commit asked for. RocketMQ: EndTransactionProcessor#sendFinalMessage.

import { ResponseCode } from '../../remoting/index.ts';
import { PutMessageStatus } from '../../store/index.ts';

/** Code and remark when the message is not stored. */
export function refusalOf(status: PutMessageStatus, maxMessageSize: number): { code: number; remark: string } {
  switch (status) {
    case PutMessageStatus.CREATE_MAPPED_FILE_FAILED:
      return { code: ResponseCode.SYSTEM_ERROR, remark: 'Create mapped file failed.' };
    case PutMessageStatus.MESSAGE_ILLEGAL:
    case PutMessageStatus.PROPERTIES_SIZE_EXCEEDED:
      return {
        code: ResponseCode.MESSAGE_ILLEGAL,
        remark:
          'The message is illegal, maybe msg body or properties length not matched. ' +
          `msg body length limit ${maxMessageSize}B, msg properties length limit 32KB.`,
      };
    case PutMessageStatus.SERVICE_NOT_AVAILABLE:
      return { code: ResponseCode.SERVICE_NOT_AVAILABLE, remark: 'Service not available now.' };
    case PutMessageStatus.OS_PAGE_CACHE_BUSY:
      return { code: ResponseCode.SYSTEM_ERROR, remark: 'OS page cache busy, please try another machine' };
    case PutMessageStatus.UNKNOWN_ERROR:
      return { code: ResponseCode.SYSTEM_ERROR, remark: 'UNKNOWN_ERROR' };
    default:
      return { code: ResponseCode.SYSTEM_ERROR, remark: 'UNKNOWN_ERROR DEFAULT' };
  }
}
