// What a sync lane and its thread share: three 32-bit words.
//
//   0 REQUEST     number of the last request, from 1 up; below 0: end. The thread sleeps on it
//   1 DESCRIPTOR  file descriptor of that request
//   2 STATE       how far it has come, should the thread die with it

export const LaneWord = { REQUEST: 0, DESCRIPTOR: 1, STATE: 2 } as const;
export const LANE_WORDS = 3;

export const LaneState = { WAITING: 0, SYNCING: 1, SYNCED: 2, FAILED: 3 } as const;
