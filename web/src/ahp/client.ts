// A client of the Agent Host Protocol that keeps its channels over lost connections.
//
// It speaks to one host through one socket at a time. When the socket ends, it opens another with `reconnect`, which
// replays everything that was missed or brings fresh snapshots. Actions that were dispatched and not confirmed are sent
// again, unless the host shows that it has them.

import { Mirror } from "./mirror";
import { ConnectionLost, Rpc, RpcError } from "./rpc";
import type { Socket } from "./rpc";
import { PROTOCOL_VERSION } from "./types.gen";
import type {
  ActionEnvelope,
  ClientCapabilities,
  Implementation,
  InitializeResult,
  ReconnectResult,
  SessionRemovedParams,
  SessionState,
  SnapshotState,
  StateAction,
  SubscribeResult,
  SubscribeView,
  Uri,
} from "./types.gen";

export const ROOT: Uri = "ahp-root://";

/** The state of the connection. */
export type Connectivity =
  | { kind: "connecting" }
  | { kind: "online" }
  /** The next attempt follows at this time. */
  | { kind: "offline"; retryAt: number }
  /** No further attempt makes sense. */
  | { kind: "refused"; reason: string };

/** An action that the host rejected, or that could not be sent. */
export class Rejected extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = "Rejected";
  }
}

export interface ClientOptions {
  clientId: string;
  clientInfo: Implementation;
  capabilities?: ClientCapabilities;
  openSocket(): Socket;
  /** Called before each new attempt; false ends the attempts, with a reason. */
  mayConnect?(): Promise<true | string>;
  /** Waits between attempts, in milliseconds. */
  delays?: readonly number[];
}

export interface ClientListener {
  /** The state of a channel changed, appeared or disappeared. */
  changed?(channel: Uri): void;
  connectivity?(state: Connectivity): void;
  notification?(method: string, params: unknown): void;
  /** A channel does not exist any more, or this client may not read it. */
  gone?(channel: Uri, reason: string): void;
  /** Notifications may have been missed. */
  resynced?(): void;
}

const NOT_THERE = "It does not exist any more.";

const DELAYS = [250, 500, 1000, 2000, 4000, 8000] as const;

/** How long the host may take to answer a sign of life. */
const PING_TIMEOUT_MS = 10_000;

/** How long a socket may take to open. A network that drops packets reports nothing for minutes. */
const OPEN_TIMEOUT_MS = 10_000;

/** How long the host may take to answer the handshake. */
const HANDSHAKE_TIMEOUT_MS = 15_000;

/** An attempt of this age is replaced when the network may have changed. */
const STALE_ATTEMPT_MS = 3_000;

/** An error of `reconnect` after which only `initialize` helps. */
const UNSUPPORTED_VERSION = -32005;

export class AhpClient {
  readonly mirror: Mirror;
  connectivity: Connectivity = { kind: "connecting" };
  /** The answer to `initialize`. */
  host: InitializeResult | undefined;

  private rpc: Rpc | undefined;
  private readonly listeners = new Set<ClientListener>();
  private readonly wanted = new Map<Uri, SubscribeView | undefined>();
  private readonly subscribing = new Map<Uri, Promise<void>>();
  private nextSeq = 1;
  private attempt = 0;
  private attemptStarted = 0;
  private retryTimer: ReturnType<typeof setTimeout> | undefined;
  private stopped = false;

  constructor(private readonly options: ClientOptions) {
    this.mirror = new Mirror(options.clientId, (channel) => this.emit((listener) => listener.changed?.(channel)));
  }

  get clientId(): string {
    return this.options.clientId;
  }

  listen(listener: ClientListener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Opens the first connection. */
  start(): void {
    void this.connect();
  }

  /** Ends the connection for good. */
  stop(): void {
    this.stopped = true;
    clearTimeout(this.retryTimer);
    this.rpc?.close();
  }

  /** Tries now instead of later, or finds out whether the connection still works. */
  check(): void {
    const { kind } = this.connectivity;
    if (kind === "offline" || (kind === "connecting" && Date.now() - this.attemptStarted > STALE_ATTEMPT_MS)) {
      clearTimeout(this.retryTimer);
      void this.connect();
    } else if (this.connectivity.kind === "online") {
      const { rpc } = this;
      rpc?.request("ping", { channel: ROOT }, PING_TIMEOUT_MS).catch((error: unknown) => {
        if (error instanceof ConnectionLost) rpc.close();
      });
    }
  }

  state<S extends SnapshotState>(channel: Uri): S | undefined {
    return this.mirror.view(channel) as S | undefined;
  }

  /** Sends a request; it fails if the connection is not there or ends. */
  async request<R>(method: string, params: Record<string, unknown>): Promise<R> {
    if (!this.rpc || this.connectivity.kind !== "online") throw new ConnectionLost("there is no connection to the host");
    return this.rpc.request<R>(method, params);
  }

  /** Subscribes to a channel now and after every reconnect, until `unsubscribe`. */
  subscribe(channel: Uri, view?: SubscribeView): Promise<void> {
    this.wanted.set(channel, view);
    if (this.mirror.has(channel)) return Promise.resolve();
    const running = this.subscribing.get(channel);
    if (running) return running;
    // Without a connection the subscription follows with the next handshake.
    if (this.connectivity.kind !== "online" || !this.rpc) return Promise.resolve();
    const subscribing = this.subscribeNow(this.rpc, channel, view).finally(() => this.subscribing.delete(channel));
    this.subscribing.set(channel, subscribing);
    return subscribing;
  }

  unsubscribe(channel: Uri): void {
    this.wanted.delete(channel);
    this.mirror.forget(channel);
    if (this.connectivity.kind === "online") this.rpc?.notify("unsubscribe", { channel });
  }

  /**
   * Applies an action at once and sends it. The promise is fulfilled when the host confirms the action, and rejected
   * with the host's reason when it does not; the action is then undone.
   */
  dispatch(channel: Uri, action: StateAction): Promise<void> {
    const clientSeq = this.nextSeq;
    this.nextSeq += 1;
    return new Promise((resolve, reject) => {
      const settle = (rejection?: string) => (rejection === undefined ? resolve() : reject(new Rejected(rejection)));
      this.mirror.addPending({ clientSeq, channel, action, settle });
      if (this.connectivity.kind === "online") this.send(clientSeq, channel, action);
    });
  }

  private send(clientSeq: number, channel: Uri, action: StateAction): void {
    this.rpc?.notify("dispatchAction", { channel, clientSeq, action });
  }

  private async subscribeNow(rpc: Rpc, channel: Uri, view?: SubscribeView): Promise<void> {
    const result = await rpc.request<SubscribeResult>("subscribe", { channel, ...(view && { view }) });
    if (result.snapshot && this.wanted.has(channel)) this.mirror.showSnapshot(result.snapshot);
  }

  private async connect(): Promise<void> {
    const started = Date.now();
    this.attemptStarted = started;
    const former = this.rpc;
    this.rpc = undefined;
    former?.close();
    this.become({ kind: "connecting" });
    const allowed = (await this.options.mayConnect?.().catch(() => true as const)) ?? true;
    // A later attempt has replaced this one.
    if (this.stopped || this.attemptStarted !== started) return;
    if (allowed !== true) {
      this.become({ kind: "refused", reason: allowed });
      return;
    }
    const socket = this.options.openSocket();
    const rpc = new Rpc(socket, {
      notification: (method, params) => this.receive(method, params),
      closed: () => this.lost(rpc),
    });
    this.rpc = rpc;
    const timer = setTimeout(() => rpc.close(), OPEN_TIMEOUT_MS);
    socket.onopen = () => {
      clearTimeout(timer);
      this.handshake(rpc).catch((error: unknown) => {
        if (error instanceof RpcError && error.code === UNSUPPORTED_VERSION) {
          this.stopped = true;
          this.become({ kind: "refused", reason: `This host does not speak AHP ${PROTOCOL_VERSION}: ${error.message}` });
        }
        rpc.close();
      });
    };
  }

  private async handshake(rpc: Rpc): Promise<void> {
    const known = this.host && (await this.reconnect(rpc));
    if (!known) await this.initialize(rpc);
    this.attempt = 0;
    this.become({ kind: "online" });
    for (const pending of this.mirror.unsent()) this.send(pending.clientSeq, pending.channel, pending.action);
    for (const [channel, view] of this.wanted) {
      if (this.mirror.has(channel)) continue;
      this.subscribe(channel, view).catch((error: unknown) => {
        if (error instanceof RpcError) this.gone(channel, error.message);
      });
    }
    this.emit((listener) => listener.resynced?.());
  }

  /** Resumes all channels. Returns false if the host does not know this client any more. */
  private async reconnect(rpc: Rpc): Promise<boolean> {
    const subscriptions = this.mirror.uris().filter((uri) => this.wanted.has(uri));
    const params = { channel: ROOT, clientId: this.clientId, lastSeenServerSeq: this.mirror.lastSeen, subscriptions };
    let result: ReconnectResult;
    try {
      result = await rpc.request<ReconnectResult>("reconnect", params, HANDSHAKE_TIMEOUT_MS);
    } catch (error) {
      if (error instanceof RpcError) return false;
      throw error;
    }
    if (result.type === "replay") {
      for (const envelope of result.actions) this.mirror.receive(envelope);
      for (const channel of result.missing) this.gone(channel, NOT_THERE);
    } else {
      for (const snapshot of result.snapshots) this.show(snapshot);
      const shown = new Set(result.snapshots.map((snapshot) => snapshot.resource));
      for (const channel of subscriptions) if (!shown.has(channel)) this.gone(channel, NOT_THERE);
    }
    return true;
  }

  private async initialize(rpc: Rpc): Promise<void> {
    const { clientId, clientInfo, capabilities } = this.options;
    const initialSubscriptions = [...this.wanted].flatMap(([channel, view]) => (view ? [] : [channel]));
    const params = {
      channel: ROOT,
      protocolVersions: [PROTOCOL_VERSION],
      clientId,
      clientInfo,
      capabilities,
      initialSubscriptions,
    };
    this.host = await rpc.request<InitializeResult>("initialize", params, HANDSHAKE_TIMEOUT_MS);
    this.mirror.lastSeen = this.host.serverSeq;
    const shown = new Set(this.host.snapshots.map((snapshot) => snapshot.resource));
    for (const channel of this.mirror.uris()) if (!shown.has(channel)) this.mirror.forget(channel);
    for (const snapshot of this.host.snapshots) this.show(snapshot);
  }

  private show(snapshot: Parameters<Mirror["showSnapshot"]>[0]): void {
    this.mirror.lastSeen = Math.max(this.mirror.lastSeen, snapshot.fromSeq);
    this.mirror.showSnapshot(snapshot);
  }

  /** A channel that no longer exists, or that this client may not read any more. */
  private gone(channel: Uri, reason: string): void {
    this.wanted.delete(channel);
    this.mirror.forget(channel);
    // The host ignores actions on channels that do not exist, so nobody else would settle these.
    this.mirror.dropAll(channel, reason);
    this.emit((listener) => listener.gone?.(channel, reason));
  }

  private receive(method: string, params: unknown): void {
    if (method === "action") {
      this.mirror.receive(params as ActionEnvelope);
      return;
    }
    if (method === "root/sessionRemoved") {
      const { session } = params as SessionRemovedParams;
      const chats = this.state<SessionState>(session)?.chats ?? [];
      for (const channel of [session, ...chats.map((chat) => chat.resource)]) {
        if (this.wanted.has(channel)) this.gone(channel, "The session was deleted.");
      }
    }
    this.emit((listener) => listener.notification?.(method, params));
  }

  private lost(rpc: Rpc): void {
    if (this.rpc !== rpc) return;
    this.rpc = undefined;
    if (this.stopped) return;
    const delays = this.options.delays ?? DELAYS;
    const longest = delays[Math.min(this.attempt, delays.length - 1)] ?? 0;
    // Many clients of one host must not come back in the same moment.
    const delay = longest * (0.75 + Math.random() / 4);
    this.attempt += 1;
    this.become({ kind: "offline", retryAt: Date.now() + delay });
    this.retryTimer = setTimeout(() => void this.connect(), delay);
  }

  private become(connectivity: Connectivity): void {
    this.connectivity = connectivity;
    this.emit((listener) => listener.connectivity?.(connectivity));
  }

  private emit(call: (listener: ClientListener) => void): void {
    for (const listener of [...this.listeners]) call(listener);
  }
}
