// What the broker's tests stand on: a context over a real store on a disk in memory, with a clock that stands still, and requests and
// connections without sockets.

import { setImmediate } from 'node:timers/promises';
import { CollectingLogger, FakeClock, SeededRandom } from '../common/index.ts';
import { MemoryFileSystem } from '../io/index.ts';
import { hostField } from '../message/index.ts';
import {
  type Channel,
  decodeFrame,
  type ExtFields,
  FrameWriter,
  HeaderView,
  type HeldRequest,
  KeptBody,
  type RemotingResponse,
  type Request,
  type RequestHandler,
  type Responder,
  SlabPool,
} from '../remoting/index.ts';
import { MessageStore, type MessageStoreConfig, type PutResult } from '../store/index.ts';
import { type BrokerConfig, defaultBrokerConfig } from './broker-config.ts';
import { type BrokerContext, type BrokerContextOptions, createBrokerContext } from './broker-context.ts';
import type { ConsumerFilterManager } from './filter/consumer-filter-manager.ts';
import { type InternalMessage, putInternal } from './internal-put.ts';
import type { TopicConfig } from './topic/topic-config.ts';

/** A connection that keeps what is sent. */
export class FakeChannel implements Channel {
  static #ids = 0;
  readonly id: number = ++FakeChannel.#ids;
  readonly remoteAddress: string;
  readonly remoteHost: Uint8Array;
  readonly localAddress = '127.0.0.1:10911';
  isOpen = true;
  language = 'JAVA';
  version = 513;
  readonly slabs: SlabPool = new SlabPool(0);
  readonly sent: Array<{ code: number; ext: ExtFields }> = [];
  closedFor: string | undefined;
  unsentBytes = 0;
  /** Answers `invoke`. */
  answer: (code: number, ext: ExtFields, body: Uint8Array | null) => Promise<RemotingResponse> = () =>
    Promise.reject(new Error('nobody answers'));
  readonly #onClose: Array<() => void> = [];

  constructor(port = 50_000) {
    this.remoteAddress = `127.0.0.1:${port}`;
    this.remoteHost = hostField('127.0.0.1', port);
  }

  sendOneway(code: number, ext?: ExtFields | null): void {
    this.sent.push({ code, ext: ext ?? {} });
  }

  invoke(code: number, ext: ExtFields | null, body: Uint8Array | null): Promise<RemotingResponse> {
    return this.answer(code, ext ?? {}, body);
  }

  holdInput(): void {}

  resumeInput(): void {}

  close(reason: string): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.closedFor = reason;
    for (const fn of this.#onClose) fn();
  }

  onClose(fn: () => void): void {
    this.#onClose.push(fn);
  }

  get inFlight(): number {
    return 0;
  }

  request(): void {
    throw new Error('nobody answers');
  }

  /** Requests that were taken over: what is sent answers them. */
  readonly takenOver: FakeRequest[] = [];

  send(bytes: Uint8Array): void {
    const frames = Buffer.from(bytes);
    for (let at = 0; at < frames.length; ) {
      const end = at + 4 + frames.readInt32BE(at);
      const header = new HeaderView();
      const bodyStart = decodeFrame(frames, at + 4, end, header);
      const ext = header.toObject();
      const index = this.takenOver.findIndex(({ opaque }) => opaque === header.opaque);
      const [request] = index < 0 ? [] : this.takenOver.splice(index, 1);
      request?.respond(header.code, header.remark ?? null, ext, frames.subarray(bodyStart, end));
      at = end;
    }
  }

  drop(): void {}
}

/** What a handler answered. */
export interface Answer {
  code: number;
  remark: string | null;
  ext: Record<string, string>;
  body: Uint8Array;
}

/** A message of T in its queue 0, but for what `fields` says. */
export function messageWith(fields: Partial<InternalMessage>): InternalMessage {
  return {
    topic: 'T',
    queueId: 0,
    flag: 0,
    sysFlag: 0,
    bornTimestamp: 1,
    bornHost: new FakeChannel().remoteHost,
    reconsumeTimes: 0,
    preparedTransactionOffset: 0,
    body: Buffer.from('x'),
    properties: new Map(),
    waitStoreMsgOK: true,
    ...fields,
  };
}

type Reach = NonNullable<BrokerContextOptions['reach']>;

/** A broker without sockets. */
export class BrokerFixture {
  readonly fs: MemoryFileSystem;
  readonly clock: FakeClock;
  readonly logger: CollectingLogger;
  readonly context: BrokerContext;
  /** Names of the topics that name servers were told of. */
  readonly registered: string[] = [];
  readonly handlers: Map<number, RequestHandler> = new Map();
  /** Run behind each request that was held and is handled anew. */
  readonly turnEnds: Array<() => void> = [];

  private constructor(
    parts: { fs: MemoryFileSystem; clock: FakeClock; logger: CollectingLogger },
    store: MessageStore,
    config: BrokerConfig,
    filters: ConsumerFilterManager | undefined,
    reach: Reach | undefined,
  ) {
    this.fs = parts.fs;
    this.clock = parts.clock;
    this.logger = parts.logger;
    this.context = createBrokerContext({
      ...parts,
      config,
      random: new SeededRandom(1),
      store,
      ...(filters === undefined ? {} : { filters }),
      ...(reach === undefined ? {} : { reach }),
      storeHost: hostField(config.brokerIP1, config.listenPort),
      registerTopics: (topics: readonly TopicConfig[]) => {
        for (const topic of topics) this.registered.push(topic.topicName);
      },
    });
  }

  /** Opens a small store at `/store`, or what `fs` holds there. */
  static async open(
    options: {
      fs?: MemoryFileSystem;
      clock?: FakeClock;
      broker?: Partial<BrokerConfig>;
      store?: Partial<MessageStoreConfig>;
      /** Whose bits the store writes. */
      filters?: ConsumerFilterManager;
      /** How other brokers are reached. */
      reach?: Reach;
    } = {},
  ): Promise<BrokerFixture> {
    const clock = options.clock ?? new FakeClock();
    const fs = options.fs ?? new MemoryFileSystem({ clock, directories: ['/store/config'] });
    const logger = new CollectingLogger();
    const store = await MessageStore.open(
      {
        storePathRootDir: '/store',
        mappedFileSizeCommitLog: 256 * 1024,
        mappedFileSizeConsumeQueue: 20_000,
        maxHashSlotNum: 100,
        maxIndexNum: 400,
        ...options.store,
      },
      {
        fs,
        clock,
        logger,
        memoryBytes: 1 << 30,
        processId: 1,
        filterBits: (...record) => options.filters?.bitsOf(...record),
      },
    );
    return new BrokerFixture(
      { fs, clock, logger },
      store,
      { ...defaultBrokerConfig(), ...options.broker },
      options.filters,
      options.reach,
    );
  }

  /** Stores a message past all handlers, and waits until it is as durable as the settings promise. */
  put(message: InternalMessage): Promise<PutResult> {
    const { store, storeHost } = this.context;
    return new Promise((resolve) => putInternal(store, message, storeHost, (_status, result) => resolve(result)));
  }

  /** Waits until the queues have all that the log has. */
  async dispatched(): Promise<void> {
    const { store } = this.context;
    while (store.watermarks.dispatched < store.watermarks.wrote) await setImmediate();
  }

  register(code: number, handler: RequestHandler): void {
    this.handlers.set(code, handler);
  }

  /** Calls the handler of a code and waits for its answer; a throw becomes the answer that the server would give. */
  ask(
    code: number,
    fields: Record<string, string | number | boolean> = {},
    body: string | Uint8Array = '',
    channel: Channel = new FakeChannel(),
  ): Promise<Answer> {
    const handler = this.handlers.get(code);
    if (handler === undefined)
      return Promise.resolve({
        code: 3,
        remark: ` request type ${code} not supported`,
        ext: {},
        body: new Uint8Array(0),
      });
    const request = new FakeRequest(code, fields, body, channel, handler, this.turnEnds);
    request.handle();
    return request.answer;
  }
}

class FakeRequest implements Request, HeldRequest {
  static #opaques = 0;
  readonly channel: Channel;
  readonly code: number;
  readonly opaque: number = ++FakeRequest.#opaques;
  readonly oneway = false;
  readonly header: HeaderView;
  readonly buffer: Buffer;
  readonly bodyStart = 0;
  readonly bodyEnd: number;
  readonly answer: Promise<Answer>;
  readonly bytes = 0;
  readonly #handler: RequestHandler;
  readonly #turnEnds: ReadonlyArray<() => void>;
  #resolve: (answer: Answer) => void = () => {};

  constructor(
    code: number,
    fields: Record<string, string | number | boolean>,
    body: string | Uint8Array,
    channel: Channel,
    handler: RequestHandler,
    turnEnds: ReadonlyArray<() => void>,
  ) {
    this.#handler = handler;
    this.#turnEnds = turnEnds;
    this.code = code;
    this.channel = channel;
    this.buffer = typeof body === 'string' ? Buffer.from(body) : Buffer.from(body);
    this.bodyEnd = this.buffer.length;
    // As it comes over a connection.
    const writer = new FrameWriter();
    writer.begin(code, this.opaque, 0);
    writer.fields(fields);
    writer.endHeader();
    writer.endFrame();
    const { bytes } = writer.take();
    this.header = new HeaderView();
    decodeFrame(bytes, 4, bytes.length, this.header);
    this.header.version = channel.version;
    this.answer = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  respond(code: number, remark?: string | null, ext?: ExtFields | null, body?: Uint8Array | null): void {
    const texts = Object.entries(ext ?? {}).filter(([, value]) => value !== null && value !== undefined);
    this.#resolve({
      code,
      remark: remark ?? null,
      ext: Object.fromEntries(texts.map(([name, value]) => [name, String(value)])),
      body: body ?? new Uint8Array(0),
    });
  }

  again(): void {
    this.handle();
    for (const fn of this.#turnEnds) fn();
  }

  handle(): void {
    try {
      this.#handler(this);
    } catch (error) {
      const responseCode = (error as { responseCode?: number }).responseCode ?? 1;
      this.respond(responseCode, (error as Error).message);
    }
  }

  hold(): HeldRequest {
    return this;
  }

  bodyCopy(): Buffer {
    return Buffer.from(this.buffer);
  }

  keepBody(): KeptBody {
    return new KeptBody(this.bodyCopy());
  }

  defer(): Responder {
    return this;
  }

  begin(): FrameWriter {
    throw new Error('answered by respond only');
  }

  takeOver(): void {
    (this.channel as FakeChannel).takenOver.push(this);
  }
}
