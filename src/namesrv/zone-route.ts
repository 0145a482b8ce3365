// Routes for clients that want the brokers of their own zone. (RocketMQ: ZoneRouteRPCHook.)

import { MASTER_ID, type TopicRouteData } from './route-data.ts';

/**
 * Leaves out brokers of other zones, with their queues and filter servers. A broker whose master is gone stays, whatever its
 * zone: being served from far away is better than not at all.
 */
export function filterByZone(route: TopicRouteData, zoneName: string): TopicRouteData {
  const wanted = zoneName.toLowerCase();
  const removed = new Set<string>();
  const removedAddrs = new Set<string>();
  for (const broker of route.brokerDatas) {
    const masterThere = broker.brokerAddrs[MASTER_ID] !== undefined;
    if (!masterThere || broker.zoneName?.toLowerCase() === wanted) continue;
    removed.add(broker.brokerName);
    for (const addr of Object.values(broker.brokerAddrs)) removedAddrs.add(addr);
  }
  const filterServers = Object.entries(route.filterServerTable).filter(([addr]) => !removedAddrs.has(addr));
  return {
    ...route,
    brokerDatas: route.brokerDatas.filter((broker) => !removed.has(broker.brokerName)),
    filterServerTable: Object.fromEntries(filterServers),
    queueDatas: route.queueDatas.filter((queue) => !removed.has(queue.brokerName)),
  };
}
