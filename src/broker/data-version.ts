// RocketMQ: DataVersion. Says which of two copies of a table is newer: first by the state machine's version (controller mode,
// always 0 here), then by the counter, then by the time.

export class DataVersion {
  stateVersion = 0;
  /** Ms since the epoch. */
  timestamp: number;
  counter = 0;

  constructor(nowMs: number) {
    this.timestamp = nowMs;
  }

  /** Marks a change of the table at `nowMs`. */
  next(nowMs: number): void {
    this.timestamp = nowMs;
    this.counter++;
  }

  assign(other: { stateVersion?: number; timestamp?: number; counter?: number }): void {
    this.stateVersion = other.stateVersion ?? 0;
    this.timestamp = other.timestamp ?? 0;
    this.counter = other.counter ?? 0;
  }

  equals(other: { stateVersion?: number; timestamp?: number; counter?: number }): boolean {
    return (
      this.stateVersion === (other.stateVersion ?? 0) &&
      this.timestamp === (other.timestamp ?? 0) &&
      this.counter === (other.counter ?? 0)
    );
  }

  /** The fields alone, as they stand in JSON. */
  fields(): { counter: number; stateVersion: number; timestamp: number } {
    return { counter: this.counter, stateVersion: this.stateVersion, timestamp: this.timestamp };
  }
}
