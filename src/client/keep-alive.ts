// Timers of the clock do not keep a process alive, and while a broker is away there is no socket either. A client that is started and
// not yet closed must not let the process end meanwhile: it holds one open message port.

/** Keeps the event loop alive from construction until `release`. */
export class KeepAlive {
  readonly #channel = new MessageChannel();

  constructor() {
    this.#channel.port1.on('message', () => {});
  }

  /** Lets the process end. May be called twice. */
  release(): void {
    this.#channel.port1.close();
  }
}
