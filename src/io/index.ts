export type { DoneMapping, FileMapper, MapOptions, Mapping } from './file-mapper.ts';
export type { Done, DoneBytes, FileHandle, FileStat, FileSystem, OpenMode, SyncLane } from './file-system.ts';
export type { FaultRule, Hold, InjectedFault, Operation } from './memory-faults.ts';
export { MemoryFileSystem, type MemoryFileSystemOptions } from './memory-file-system.ts';
export { nodeFileSystem } from './node-file-system.ts';
export { makeDirectoryDurably, readWhole, saveDurably, writeWhole } from './whole-file.ts';
