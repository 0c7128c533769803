// The connection to the host as signals: one per channel, one for the list of sessions, one for connectivity.
//
// The mirror changes with every message; signals change once per frame, so that streaming does not render more often
// than the screen shows it.

import { batch, createEffect, createSignal, onCleanup } from "solid-js";
import type { Accessor, Setter } from "solid-js";
import { Catalog } from "../ahp/catalog";
import { AhpClient, ROOT } from "../ahp/client";
import type { Connectivity } from "../ahp/client";
import type { Socket } from "../ahp/rpc";
import type { RootState, SessionSummary, SnapshotState, StateAction, SubscribeView, Uri } from "../ahp/types.gen";
import { currentAccess } from "./access";
import type { Scope } from "./access";

interface Held {
  count: number;
  view?: SubscribeView;
  timer?: ReturnType<typeof setTimeout>;
}

interface ChannelSignal {
  read: Accessor<SnapshotState | undefined>;
  write: Setter<SnapshotState | undefined>;
}

/** How long a channel stays subscribed after its last reader left, because users go back. */
const RELEASE_MS = 20_000;

export class HostConnection {
  readonly client: AhpClient;
  readonly connectivity: Accessor<Connectivity>;
  readonly sessions: Accessor<SessionSummary[]>;
  readonly sessionsLoaded: Accessor<boolean>;
  readonly errors: Accessor<ReadonlyMap<Uri, string>>;

  private readonly signals = new Map<Uri, ChannelSignal>();
  private readonly held = new Map<Uri, Held>();
  private readonly dirty = new Set<Uri>();
  private scheduled = false;
  private catalogDirty = false;
  private readonly catalog: Catalog;
  private readonly setSessions: Setter<SessionSummary[]>;
  private readonly setLoaded: Setter<boolean>;
  private readonly setErrors: Setter<ReadonlyMap<Uri, string>>;

  constructor(readonly scope: Scope) {
    const [connectivity, setConnectivity] = createSignal<Connectivity>({ kind: "connecting" });
    const [sessions, setSessions] = createSignal<SessionSummary[]>([]);
    const [loaded, setLoaded] = createSignal(false);
    const [errors, setErrors] = createSignal<ReadonlyMap<Uri, string>>(new Map());
    this.connectivity = connectivity;
    this.sessions = sessions;
    this.sessionsLoaded = loaded;
    this.errors = errors;
    this.setSessions = setSessions;
    this.setLoaded = setLoaded;
    this.setErrors = setErrors;
    this.client = new AhpClient({
      clientId: clientId(),
      clientInfo: { name: "innkeeper-web", title: "Innkeeper in a browser" },
      openSocket: () => new WebSocket(socketUrl()) as unknown as Socket,
      mayConnect: async () => {
        const access = await currentAccess();
        return access.kind === "denied" ? "signed-out" : true;
      },
    });
    this.catalog = new Catalog(this.client, () => {
      this.catalogDirty = true;
      this.schedule();
    });
    this.client.listen({
      changed: (channel) => {
        this.dirty.add(channel);
        this.schedule();
      },
      connectivity: (state) => setConnectivity(state),
      gone: (channel, reason) => this.setError(channel, reason),
    });
    void this.client.subscribe(ROOT);
    this.client.start();
    // A laptop that wakes up, or a phone that changes its network, must not wait for a timeout.
    window.addEventListener("online", () => this.client.check());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.client.check();
    });
    setInterval(() => {
      if (this.client.connectivity.kind === "online") this.client.check();
    }, 25_000);
  }

  root(): RootState | undefined {
    return this.signal(ROOT).read() as RootState | undefined;
  }

  /** Reads a channel while the calling component is there. */
  use<S extends SnapshotState>(uri: Accessor<Uri | undefined>, view?: SubscribeView): Accessor<S | undefined> {
    createEffect(() => {
      const current = uri();
      if (!current) return;
      this.hold(current, view);
      onCleanup(() => this.release(current));
    });
    return () => {
      const current = uri();
      return current ? (this.signal(current).read() as S | undefined) : undefined;
    };
  }

  /** Dispatches an action, also on a channel that is not shown. The channel is subscribed until the host has answered. */
  async dispatch(channel: Uri, action: StateAction): Promise<void> {
    const subscribed = this.hold(channel, { turns: 1 });
    try {
      await subscribed;
      await this.client.dispatch(channel, action);
    } finally {
      this.release(channel);
    }
  }

  private hold(uri: Uri, view?: SubscribeView): Promise<void> {
    const held = this.held.get(uri);
    if (held) {
      clearTimeout(held.timer);
      held.count += 1;
      return Promise.resolve();
    }
    this.held.set(uri, { count: 1, view });
    return this.client.subscribe(uri, view).then(
      () => this.setError(uri, undefined),
      (error: unknown) => this.setError(uri, error instanceof Error ? error.message : String(error)),
    );
  }

  private release(uri: Uri): void {
    const held = this.held.get(uri);
    if (!held) return;
    held.count -= 1;
    if (held.count > 0) return;
    held.timer = setTimeout(() => {
      this.held.delete(uri);
      this.client.unsubscribe(uri);
    }, RELEASE_MS);
  }

  private setError(uri: Uri, error: string | undefined): void {
    if (error === undefined && !this.errors().has(uri)) return;
    const next = new Map(this.errors());
    if (error === undefined) next.delete(uri);
    else next.set(uri, error);
    if (error !== undefined) this.held.delete(uri);
    this.setErrors(next);
  }

  private signal(uri: Uri): ChannelSignal {
    let signal = this.signals.get(uri);
    if (!signal) {
      const [read, write] = createSignal<SnapshotState | undefined>(this.client.state(uri));
      signal = { read, write };
      this.signals.set(uri, signal);
    }
    return signal;
  }

  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    // Hidden pages get no frames.
    if (document.hidden) setTimeout(() => this.flush(), 100);
    else requestAnimationFrame(() => this.flush());
  }

  private flush(): void {
    this.scheduled = false;
    batch(() => {
      for (const uri of this.dirty) {
        const state = this.client.state(uri);
        this.signals.get(uri)?.write(() => state);
      }
      this.dirty.clear();
      if (this.catalogDirty) {
        this.catalogDirty = false;
        this.setSessions(this.catalog.all());
        this.setLoaded(this.catalog.loaded);
      }
    });
  }
}

function socketUrl(): string {
  return `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/`;
}

/** Each tab is a client of its own; a reloaded tab is the same client. */
function clientId(): string {
  const stored = sessionStorage.getItem("client-id");
  // A duplicated tab has a copy of the storage of the first, so a loaded page takes the id out while it uses it.
  const id = stored ?? `web-${crypto.randomUUID()}`;
  sessionStorage.removeItem("client-id");
  window.addEventListener("pagehide", () => sessionStorage.setItem("client-id", id));
  return id;
}
