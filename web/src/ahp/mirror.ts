// The mirror: the state of every subscribed channel, with this client's own actions applied before the host confirms them.

import { reduce } from "./reduce";
import type { ActionEnvelope, ChatState, Snapshot, SnapshotState, StateAction, Uri } from "./types.gen";

/** An action that the host has not settled yet. */
export interface PendingAction {
  readonly clientSeq: number;
  readonly channel: Uri;
  readonly action: StateAction;
  settle(rejection?: string): void;
}

interface Channel {
  confirmed: SnapshotState;
  /** Actions up to this number are part of the state. */
  seq: number;
  /** The state with all pending actions, computed when it is asked for. */
  view?: SnapshotState;
}

export class Mirror {
  private readonly channels = new Map<Uri, Channel>();
  private pending: PendingAction[] = [];
  /** The highest number that the host has sent, for `reconnect`. */
  lastSeen = 0;

  constructor(
    private readonly clientId: string,
    private readonly changed: (channel: Uri) => void,
  ) {}

  has(channel: Uri): boolean {
    return this.channels.has(channel);
  }

  uris(): Uri[] {
    return [...this.channels.keys()];
  }

  /** Returns the state as the user sees it: confirmed, plus what this client has dispatched. */
  view(uri: Uri): SnapshotState | undefined {
    const channel = this.channels.get(uri);
    if (!channel) return undefined;
    channel.view ??= this.pending
      .filter((pending) => pending.channel === uri)
      .reduce((state, pending) => reduce(state, pending.action), channel.confirmed);
    return channel.view;
  }

  /** Returns the state that the host has confirmed. */
  confirmed(uri: Uri): SnapshotState | undefined {
    return this.channels.get(uri)?.confirmed;
  }

  showSnapshot(snapshot: Snapshot): void {
    this.channels.set(snapshot.resource, { confirmed: snapshot.state, seq: snapshot.fromSeq });
    this.changed(snapshot.resource);
  }

  forget(uri: Uri): void {
    if (this.channels.delete(uri)) this.changed(uri);
  }

  /** Takes an action of the host. */
  receive(envelope: ActionEnvelope): void {
    const { channel: uri, serverSeq, origin, rejectionReason } = envelope;
    this.lastSeen = Math.max(this.lastSeen, serverSeq);
    const own = origin?.clientId === this.clientId ? this.take(origin.clientSeq) : undefined;
    const channel = this.channels.get(uri);
    if (channel && rejectionReason === undefined && serverSeq > channel.seq) {
      channel.confirmed = reduce(channel.confirmed, envelope.action);
      channel.seq = serverSeq;
    }
    if (channel) channel.view = undefined;
    own?.settle(rejectionReason);
    this.changed(uri);
  }

  addPending(pending: PendingAction): void {
    this.pending.push(pending);
    this.invalidate(pending.channel);
  }

  /** Drops the pending actions of a channel that does not exist any more. */
  dropAll(channel: Uri, reason: string): void {
    for (const pending of this.pending.filter((other) => other.channel === channel)) {
      this.take(pending.clientSeq);
      pending.settle(reason);
    }
  }

  /** Settles the pending actions whose effect a fresh snapshot shows already, and returns the others. */
  unsent(): PendingAction[] {
    for (const pending of this.pending.slice()) {
      const state = this.channels.get(pending.channel)?.confirmed;
      if (state && isVisible(state, pending.action)) {
        this.take(pending.clientSeq);
        this.invalidate(pending.channel);
        pending.settle();
      }
    }
    return this.pending.slice();
  }

  private take(clientSeq: number): PendingAction | undefined {
    const index = this.pending.findIndex((pending) => pending.clientSeq === clientSeq);
    return index < 0 ? undefined : this.pending.splice(index, 1)[0];
  }

  private invalidate(uri: Uri): void {
    const channel = this.channels.get(uri);
    if (channel) channel.view = undefined;
    this.changed(uri);
  }
}

/** Whether a state shows that the host accepted this action, which matters for actions that must not happen twice. */
function isVisible(state: SnapshotState, action: StateAction): boolean {
  if (action.type !== "chat/turnStarted" && action.type !== "chat/pendingMessageSet") return false;
  const chat = state as ChatState;
  if (action.type === "chat/turnStarted") {
    return chat.activeTurn?.id === action.turnId || chat.turns.some((turn) => turn.id === action.turnId);
  }
  const waiting = [chat.steeringMessage, ...(chat.queuedMessages ?? [])];
  return waiting.some((message) => message?.id === action.id);
}
