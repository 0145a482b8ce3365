// The brokers that share one broker name: a master (id 0) and its slaves, at most one id an address.

import { type BrokerData, MASTER_ID } from './route-data.ts';

/** Addresses by broker id, and what the last registration said of the group. */
export interface BrokerGroup {
  readonly cluster: string;
  readonly brokerName: string;
  readonly addrs: Map<number, string>;
  enableActingMaster: boolean;
  zoneName: string | undefined;
}

/** The smallest broker id of a group changed; `notify` are the addresses to tell with NOTIFY_MIN_BROKER_ID_CHANGE. */
export interface MinBrokerChange {
  minBrokerId: number;
  minBrokerAddr: string;
  offlineBrokerAddr: string | undefined;
  haBrokerAddr: string | undefined;
  notify: string[];
}

/** The smallest id; the group must not be empty. */
export function minimumId(group: BrokerGroup): number {
  return Math.min(...group.addrs.keys());
}

/** An address stands for one id only: a slave that has become master gives up its old id. */
export function dropOtherIds(group: BrokerGroup, brokerAddr: string, brokerId: number): void {
  for (const [id, addr] of group.addrs) {
    if (addr === brokerAddr && id !== brokerId) group.addrs.delete(id);
  }
}

/** The group as routes and cluster information show it; with `acting`, its smallest id stands in for a missing master. */
export function brokerData(group: BrokerGroup, acting: boolean): BrokerData {
  const data: BrokerData = {
    brokerAddrs: addresses(group, acting),
    brokerName: group.brokerName,
    cluster: group.cluster,
    enableActingMaster: group.enableActingMaster,
  };
  if (group.zoneName !== undefined) data.zoneName = group.zoneName;
  return data;
}

/** Addresses by id as text. */
export function addresses(group: BrokerGroup, acting: boolean): Record<string, string> {
  const promoted = acting && !group.addrs.has(MASTER_ID) ? minimumId(group) : undefined;
  const addrs: Record<string, string> = {};
  for (const [id, addr] of group.addrs) addrs[id === promoted ? MASTER_ID : id] = addr;
  return addrs;
}

/** What to tell whom after the smallest id changed; `offline` is the address that left, if one did. */
export function minBrokerChange(
  group: BrokerGroup,
  offline: string | undefined,
  haBrokerAddr: string | undefined,
): MinBrokerChange {
  const minBrokerId = minimumId(group);
  const notify: string[] = [];
  for (const [id, addr] of group.addrs) {
    // A group that lost a member is told as a whole; a new smallest member is news to the others only.
    if (offline !== undefined || group.addrs.size === 1 || id !== minBrokerId) notify.push(addr);
  }
  return {
    minBrokerId,
    minBrokerAddr: group.addrs.get(minBrokerId)!,
    offlineBrokerAddr: offline,
    haBrokerAddr,
    notify,
  };
}
