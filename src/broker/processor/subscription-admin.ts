// Consumer groups as administrators see them: create, change, delete, show. RocketMQ: AdminBrokerProcessor.

import { type Request, RequestCode, ResponseCode, toJsonBytes } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { bodyObject, objectsOf } from '../client/heartbeat-data.ts';
import { readText } from '../json-fields.ts';
import { bindTopicOf } from '../lite/lite-metadata.ts';
import {
  groupFields,
  readGroupConfig,
  type SubscriptionGroupConfig,
} from '../subscription/subscription-group-config.ts';
import { FORBIDDEN_READ } from '../subscription/subscription-group-manager.ts';
import { queueNumsFault } from '../topic/topic-config.ts';
import { groupNameFault } from '../topic/topic-names.ts';
import type { HandlerRegistry } from './registry.ts';
import { pageStart } from './topic-admin.ts';

export function registerSubscriptionAdmin(registry: HandlerRegistry, context: BrokerContext): void {
  registry.register(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, (request) => {
    if (request.bodyEnd === request.bodyStart) {
      request.respond(ResponseCode.SUCCESS);
      return;
    }
    const json = bodyObject(request.bodyCopy());
    update(context, request, [readGroupConfig(json, readText(json, 'groupName') ?? '')!]);
  });
  registry.register(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, (request) => {
    const list = objectsOf(bodyObject(request.bodyCopy()), 'groupConfigList');
    update(
      context,
      request,
      list.map((json) => readGroupConfig(json, readText(json, 'groupName') ?? '')!),
    );
  });
  registry.register(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, (request) => getAllGroups(context, request));
  registry.register(RequestCode.DELETE_SUBSCRIPTIONGROUP, (request) => {
    // RocketMQ: without cleanOffset a look-up behind the deletion creates the group again. Deleted stays deleted.
    const group = request.header.required('groupName');
    const isLite = bindTopicOf(context.groups.find(group)) !== undefined;
    context.groups.delete(group);
    context.orders.removeGroup(group);
    if (isLite || request.header.bool('cleanOffset', false)) context.offsets.removeGroup(group);
    request.respond(ResponseCode.SUCCESS);
  });
  registry.register(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, (request) => {
    const group = context.groups.find(request.header.required('group'));
    if (group === undefined) {
      // RocketMQ: creates it and answers the defaults, so that a mistyped name stays for ever.
      request.respond(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, 'No group in this broker');
      return;
    }
    request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes(groupFields(group)));
  });
  registry.register(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, (request) => {
    const { header } = request;
    const group = header.required('group');
    const topic = header.required('topic');
    if (header.get('readable') !== undefined) {
      context.groups.setForbidden(group, topic, FORBIDDEN_READ, !header.bool('readable', true));
    }
    const readable = !context.groups.isForbidden(group, topic, FORBIDDEN_READ);
    request.respond(ResponseCode.SUCCESS, '', null, toJsonBytes({ group, readable, topic }));
  });
}

function update(context: BrokerContext, request: Request, wishes: readonly SubscriptionGroupConfig[]): void {
  for (const wish of wishes) {
    // Less than 0 is as good as 0: failed messages are dropped.
    const fault = groupNameFault(wish.groupName) ?? queueNumsFault('retryQueueNums', Math.max(0, wish.retryQueueNums));
    if (fault !== undefined) {
      request.respond(ResponseCode.INVALID_PARAMETER, fault);
      return;
    }
  }
  context.groups.update(wishes);
  request.respond(ResponseCode.SUCCESS);
}

function getAllGroups(context: BrokerContext, request: Request): void {
  const { header } = request;
  const sequence = header.get('groupSeq');
  const most = header.get('maxGroupNum');
  const version = header.get('dataVersion');
  const { groups, config } = context;
  const paged = config.enableSplitMetadata && (sequence !== undefined || most !== undefined || version !== undefined);
  const chosen = paged
    ? groups.page(
        pageStart(groups.dataVersion, header.intOr('groupSeq', 0), version),
        Math.min(config.splitMetadataSize, header.intOr('maxGroupNum', config.splitMetadataSize)),
      )
    : [...groups.all()];
  const body = {
    dataVersion: groups.dataVersion.fields(),
    forbiddenTable: groups.forbiddenTable(paged ? new Set(chosen.map((group) => group.groupName)) : undefined),
    subscriptionGroupTable: new Map(chosen.map((group) => [group.groupName, groupFields(group)])),
  };
  request.respond(ResponseCode.SUCCESS, null, { totalGroupNum: groups.size }, toJsonBytes(body));
}
