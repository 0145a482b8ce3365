export { ReadCache, type Ready } from './read-cache.ts';
export {
  cutSegments,
  loadSegments,
  SegmentFile,
  type SegmentFolder,
  segmentAt,
  segmentName,
  zeroBytes,
} from './segment-directory.ts';
