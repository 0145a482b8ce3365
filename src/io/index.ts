export type { Done, DoneBytes, FileHandle, FileStat, FileSystem, OpenMode } from './file-system.ts';
export { nodeFileSystem } from './node-file-system.ts';
export { readWhole, saveDurably, writeWhole } from './whole-file.ts';
