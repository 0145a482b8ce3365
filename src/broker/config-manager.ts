// The base of what lives in `<store>/config/*.json`: tables that are primary data, kept in memory, read once at the start and saved whole.
//
// Reading: the file itself, or its `.bak` with one warning when the file is missing, empty, cut short, followed by old bytes or full of
// zeros. A file that is there but bad is set aside (`.damaged`) once its `.bak` has been read, so that no later save can push
// the bad one over the good one. Both bad is an error that names both: nothing is ever silently reset to empty.
//
// Saving: a new file, fsync, rename of the old one to `.bak`, rename into place, fsync of the folder. `persist` does that before it
// returns (an administrator's change of a group: rare, and the answer says that it is done). What is saved now and then, and tables that
// grow long (`persistInSlices`), are built in pieces between other work, and written and synced off the loop; `saved` waits for such a save.
//
// RocketMQ: ConfigManager. It takes any file that parses, trailing bytes included, starts with nothing if both files are empty, and
// writes in place after the rename, so that between the two only `.bak` exists.

import { type Clock, type ErrorCode, errorText, GantryError, type Logger } from '../common/index.ts';
import { type FileHandle, type FileSystem, readWhole, saveDurably } from '../io/index.ts';
import { type JsonObject, parseJson } from '../remoting/index.ts';

/** What a manager of a config file is handed. */
export interface ConfigEnvironment {
  readonly fs: FileSystem;
  readonly clock: Clock;
  readonly logger: Logger;
  /** `<storePathRootDir>/config`; made if it is not there. */
  readonly folder: string;
}

/** Where `load` found the table. */
export type ConfigSource = 'file' | 'backup' | 'defaults';

/** Ms of building and bytes of text after which a sliced save lets other work run. */
const SLICE_MS = 2;
const SLICE_CHARS = 64 * 1024;

export abstract class ConfigManager {
  readonly path: string;
  protected readonly environment: ConfigEnvironment;
  /** Grows with every change; a save covers the changes up to the value at which it began. */
  #changes = 0;
  #saved = 0;
  #sliced: SlicedSave | undefined;
  /** Told when the sliced save that is under way has ended. */
  readonly #waiting: Array<(failure: GantryError | undefined) => void> = [];
  /** The last save has been asked for. */
  #isClosed = false;

  constructor(environment: ConfigEnvironment, fileName: string) {
    this.environment = environment;
    this.path = `${environment.folder}/${fileName}`;
  }

  /** The whole file as text, in pieces of which each is quickly made. */
  protected abstract encode(): Iterable<string>;

  /** Replaces the table by what a file holds, wholly or not at all. @throws on content that is no such table. */
  protected abstract decode(json: JsonObject): void;

  /** True while a change has not been saved. */
  get changed(): boolean {
    return this.#changes !== this.#saved;
  }

  /** Numbers the last change. */
  protected get lastChange(): number {
    return this.#changes;
  }

  /** Told when all changes up to that number are durable. */
  protected savedTo(_change: number): void {}

  /** The table as it would be saved now. */
  text(): string {
    return [...this.encode()].join('');
  }

  /**
   * Reads the table at the start.
   * @throws GantryError CONFIG_FILE when files exist but none can be read; it names them.
   */
  load(): ConfigSource {
    const { fs, logger } = this.environment;
    const { main, second, backup } = this.#readBoth();
    if (main.outcome === 'read') return 'file';
    if (second.outcome !== 'read') return 'defaults';
    logger.warn(`${this.path} ${main.reason}: ${backup} is used instead`, { file: this.path });
    if (main.outcome === 'bad') {
      if (main.length === 0) fs.remove(this.path);
      else fs.rename(this.path, `${this.path}.damaged`);
    }
    // The backup stays as it is: with no file in place, a save does not touch it.
    saveDurably(fs, this.path, second.bytes);
    return 'backup';
  }

  /** Reads as `load` does and changes nothing on disk. @throws GantryError CONFIG_FILE, as `load`. */
  check(): void {
    this.#readBoth();
  }

  #readBoth(): { main: ReadOutcome; second: ReadOutcome; backup: string } {
    const backup = `${this.path}.bak`;
    const main = this.#read(this.path);
    const second: ReadOutcome = main.outcome === 'read' ? main : this.#read(backup);
    if (second.outcome !== 'read' && (second.outcome !== 'absent' || main.outcome !== 'absent')) {
      throw new GantryError(
        'CONFIG_FILE',
        `${this.path} ${main.reason} and ${backup} ${second.reason}: nothing is started from an empty table. ` +
          'Restore one of the two from a copy, or remove both to begin with defaults',
      );
    }
    return { main, second, backup };
  }

  /** Saves the table; it is durable on return. @throws GantryError IO or DISK_FULL; the change is then kept for the next save. */
  persist(): void {
    this.#sliced?.cancel();
    const covered = this.#changes;
    this.#makeFolder();
    saveDurably(this.environment.fs, this.path, this.text());
    this.#saved = covered;
    this.savedTo(covered);
  }

  /** As `persist`, when something has changed. A failure is logged and tried again with the next call. */
  persistIfChanged(): void {
    if (!this.changed) return;
    try {
      this.persist();
    } catch (error) {
      this.#complain(error);
    }
  }

  /** Saves a changed table between other work; a failure is logged and tried again with the next call. */
  persistInSlices(done: (failure: GantryError | undefined) => void = () => {}): void {
    if (this.#sliced !== undefined) this.#waiting.push(done);
    else if (!this.changed || this.#isClosed) done(undefined);
    else {
      this.#waiting.push(done);
      this.#startSliced();
    }
  }

  /** What has changed until now is durable when this resolves, saved between other work. @throws GantryError IO or DISK_FULL, as `persist`. */
  async saved(): Promise<void> {
    const wanted = this.#changes;
    while (this.#saved < wanted) {
      if (this.#isClosed) return this.persist();
      const failure = await new Promise<GantryError | undefined>((resolve) => this.persistInSlices(resolve));
      if (failure !== undefined) throw failure;
    }
  }

  /** The last save, for the end: when this resolves, nothing touches the file any more. A failure is logged. */
  async persistLast(): Promise<void> {
    this.#isClosed = true;
    this.persistIfChanged();
    if (this.#sliced !== undefined) await new Promise((resolve) => this.#waiting.push(resolve));
  }

  #startSliced(): void {
    const covered = this.#changes;
    const finished = (failure: GantryError | undefined, overtaken: boolean): void => {
      this.#sliced = undefined;
      if (failure !== undefined) this.#complain(failure);
      else if (!overtaken) {
        this.#saved = Math.max(this.#saved, covered);
        this.savedTo(this.#saved);
      }
      for (const done of this.#waiting.splice(0)) done(failure);
    };
    try {
      this.#makeFolder();
    } catch (error) {
      finished(asIoError(error), false);
      return;
    }
    const save = new SlicedSave(this.environment, this.path, this.encode()[Symbol.iterator](), finished);
    this.#sliced = save;
    save.start();
  }

  /** Marks the table as different from what is saved. */
  protected markChanged(): void {
    this.#changes++;
  }

  #read(path: string): ReadOutcome {
    let bytes: Uint8Array | undefined;
    try {
      bytes = readWhole(this.environment.fs, path);
    } catch (error) {
      return { outcome: 'bad', reason: `cannot be read (${errorText(error)})`, length: -1 };
    }
    if (bytes === undefined) return { outcome: 'absent', reason: 'does not exist' };
    if (bytes.length === 0) return { outcome: 'bad', reason: 'is empty', length: 0 };
    try {
      const json = parseJson(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
      if (json === null || typeof json !== 'object' || Array.isArray(json)) throw new Error('it holds no JSON object');
      this.decode(json as JsonObject);
      return { outcome: 'read', bytes };
    } catch (error) {
      return { outcome: 'bad', reason: `cannot be understood (${errorText(error)})`, length: bytes.length };
    }
  }

  #makeFolder(): void {
    const { fs, folder } = this.environment;
    if (fs.stat(folder) !== undefined) return;
    fs.makeDirectory(folder);
    fs.syncDirectory(folder.slice(0, folder.lastIndexOf('/')) || '/');
  }

  #complain(error: unknown): void {
    const code: ErrorCode = error instanceof GantryError ? error.code : 'IO';
    this.environment.logger.error(`${this.path} could not be saved (${errorText(error)}); it is tried again`, { code });
  }
}

/** Saves what has changed of some tables, one after the other and between other work. Never rejects: a failure is logged. */
export async function saveInTurn(tables: readonly ConfigManager[]): Promise<void> {
  for (const table of tables) await new Promise((resolve) => table.persistInSlices(resolve));
}

function asIoError(error: unknown): GantryError {
  return error instanceof GantryError ? error : new GantryError('IO', errorText(error), { cause: error });
}

type ReadOutcome =
  | { outcome: 'read'; bytes: Uint8Array; reason?: undefined }
  | { outcome: 'absent'; reason: string }
  | { outcome: 'bad'; reason: string; length: number };

type SliceDone = (error: GantryError | undefined, overtaken: boolean) => void;

/** One save that is spread over loop turns. Its temporary file is its own, so that a whole save may overtake it; `done` runs once in any case. */
class SlicedSave {
  readonly #environment: ConfigEnvironment;
  readonly #path: string;
  readonly #pieces: Iterator<string>;
  readonly #done: SliceDone;
  #file: FileHandle | undefined;
  #position = 0;
  #cancelled = false;

  constructor(environment: ConfigEnvironment, path: string, pieces: Iterator<string>, done: SliceDone) {
    this.#environment = environment;
    this.#path = path;
    this.#pieces = pieces;
    this.#done = done;
  }

  start(): void {
    try {
      this.#file = this.#environment.fs.open(this.#fresh, 'create');
      this.#file.truncateSync(0);
    } catch (error) {
      this.#written(asIoError(error));
      return;
    }
    this.#next();
  }

  /** What was written so far is left to be overwritten. */
  cancel(): void {
    this.#cancelled = true;
  }

  get #fresh(): string {
    return `${this.#path}.next`;
  }

  #next(): void {
    const { clock } = this.#environment;
    const until = clock.monotonic() + SLICE_MS;
    let text = '';
    let ended = false;
    try {
      while (!ended && text.length < SLICE_CHARS) {
        const piece = this.#pieces.next();
        if (piece.done === true) ended = true;
        else text += piece.value;
        if (clock.monotonic() > until) break;
      }
    } catch (error) {
      this.#written(asIoError(error));
      return;
    }
    const file = this.#file!;
    const bytes = Buffer.from(text, 'utf8');
    file.write(bytes, 0, bytes.length, this.#position, (error) => {
      this.#position += bytes.length;
      if (error !== undefined || this.#cancelled) this.#written(error);
      else if (ended) file.sync((syncError) => this.#written(syncError));
      else clock.soon(() => this.#next());
    });
  }

  /** The new file is there, and takes its place unless it failed or was overtaken. */
  #written(error: GantryError | undefined): void {
    this.#file?.close();
    this.#file = undefined;
    if (error !== undefined || this.#cancelled) {
      this.#done(this.#cancelled ? undefined : error, this.#cancelled);
      return;
    }
    const { fs, folder } = this.#environment;
    try {
      if (fs.stat(this.#path) !== undefined) fs.rename(this.#path, `${this.#path}.bak`);
      fs.rename(this.#fresh, this.#path);
    } catch (thrown) {
      this.#done(asIoError(thrown), false);
      return;
    }
    // Overtaken from here on, its names are synced with those of the save that overtook it, or are told to have failed with it.
    fs.syncDirectoryLater(folder, (failure) => this.#done(failure, this.#cancelled));
  }
}
