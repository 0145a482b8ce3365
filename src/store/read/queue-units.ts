// The units of a queue as they are: for who must know where each message stands and what its tagsCode is, as the delay levels do.

/** Most units of one look. */
const MAX_UNITS = 1024;

/** Units one behind the other; one object per caller, filled anew. */
export class QueueUnits {
  count = 0;
  /** Physical offsets. */
  readonly positions: Float64Array = new Float64Array(MAX_UNITS);
  /** The whole tagsCode; NaN where an ext address is in its place. */
  readonly tags: Float64Array = new Float64Array(MAX_UNITS);
}
