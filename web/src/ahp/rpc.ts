// JSON-RPC over one socket: requests with answers, notifications, and requests of the host.

/** An error that the host answered with. */
export class RpcError extends Error {
  constructor(
    readonly code: number,
    message: string,
    readonly data?: unknown,
  ) {
    super(message);
    this.name = "RpcError";
  }
}

/** The connection ended before the host answered. */
export class ConnectionLost extends Error {
  constructor(message = "the connection to the host was lost") {
    super(message);
    this.name = "ConnectionLost";
  }
}

/** The part of a WebSocket that this library uses. */
export interface Socket {
  send(text: string): void;
  close(): void;
  onopen: (() => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onclose: ((event: { code: number; reason: string }) => void) | null;
}

export interface RpcHandlers {
  notification(method: string, params: unknown): void;
  closed(code: number): void;
}

interface Waiting {
  resolve(result: unknown): void;
  reject(error: Error): void;
  timer?: ReturnType<typeof setTimeout>;
}

/** The code of a method that this side does not have. */
const METHOD_NOT_FOUND = -32601;

export class Rpc {
  private nextId = 1;
  private readonly waiting = new Map<number, Waiting>();
  private ended = false;

  constructor(
    private readonly socket: Socket,
    private readonly handlers: RpcHandlers,
  ) {
    socket.onmessage = (event) => this.receive(event.data);
    socket.onclose = (event) => this.end(event.code);
  }

  request<R>(method: string, params: unknown, timeoutMs?: number): Promise<R> {
    if (this.ended) return Promise.reject(new ConnectionLost());
    const id = this.nextId;
    this.nextId += 1;
    return new Promise<R>((resolve, reject) => {
      const entry: Waiting = { resolve: resolve as (result: unknown) => void, reject };
      if (timeoutMs !== undefined) {
        entry.timer = setTimeout(() => {
          this.waiting.delete(id);
          reject(new ConnectionLost("the host did not answer in time"));
        }, timeoutMs);
      }
      this.waiting.set(id, entry);
      this.socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }

  notify(method: string, params: unknown): void {
    if (!this.ended) this.socket.send(JSON.stringify({ jsonrpc: "2.0", method, params }));
  }

  close(): void {
    this.socket.close();
    // A socket whose network is gone reports its end only after minutes.
    this.end(1006);
  }

  private end(code: number): void {
    if (this.ended) return;
    this.ended = true;
    for (const entry of this.waiting.values()) {
      clearTimeout(entry.timer);
      entry.reject(new ConnectionLost());
    }
    this.waiting.clear();
    this.handlers.closed(code);
  }

  private receive(data: unknown): void {
    if (this.ended || typeof data !== "string") return;
    const message = JSON.parse(data) as Record<string, unknown>;
    if (typeof message.method === "string") {
      if (message.id === undefined) this.handlers.notification(message.method, message.params);
      else this.refuse(message.id, message.method);
      return;
    }
    const entry = this.waiting.get(message.id as number);
    if (!entry) return;
    this.waiting.delete(message.id as number);
    clearTimeout(entry.timer);
    const error = message.error as { code: number; message: string; data?: unknown } | undefined;
    if (error) entry.reject(new RpcError(error.code, error.message, error.data));
    else entry.resolve(message.result);
  }

  private refuse(id: unknown, method: string): void {
    const error = { code: METHOD_NOT_FOUND, message: `this client has no method ${method}` };
    this.socket.send(JSON.stringify({ jsonrpc: "2.0", id, error }));
  }
}
