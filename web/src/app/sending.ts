// Sends messages so that none is lost: not while an agent starts, and not when another device was faster.

import { Rejected } from "../ahp/client";
import type { ChatState, Message, PendingMessageKind, SessionState, Uri } from "../ahp/types.gen";
import type { HostConnection } from "./host";
import { notify } from "./notices";

/** The part of the connection that sending needs. */
export interface Sender {
  dispatch: HostConnection["dispatch"];
  client: Pick<HostConnection["client"], "state">;
}

/** Starts a turn, or queues the message while the agent starts or works. Fails with the host's reason. */
export async function send(host: Sender, session: Uri, chat: Uri, message: Message): Promise<void> {
  const isCreating = host.client.state<SessionState>(session)?.lifecycle === "creating";
  if (isCreating || isWorking(host, chat)) return pend(host, chat, "queued", message);
  try {
    await host.dispatch(chat, {
      type: "chat/turnStarted",
      turnId: crypto.randomUUID(),
      startedAt: new Date().toISOString(),
      message,
    });
  } catch (error) {
    // Another device started a turn first.
    if (!(error instanceof Rejected) || !isWorking(host, chat)) throw error;
    return pend(host, chat, "queued", message);
  }
}

export function pend(host: Sender, chat: Uri, kind: PendingMessageKind, message: Message): Promise<void> {
  return host.dispatch(chat, { type: "chat/pendingMessageSet", kind, id: crypto.randomUUID(), message });
}

function isWorking(host: Sender, chat: Uri): boolean {
  return host.client.state<ChatState>(chat)?.activeTurn !== undefined;
}

const key = (session: Uri) => `first:${session}`;

/** Stores the message with which a session is created, until the session can take it. */
export function storeFirst(session: Uri, message: Message): void {
  sessionStorage.setItem(key(session), JSON.stringify(message));
}

/** Sends the stored message of a new session. It stays stored until the host has accepted it. */
export function sendFirst(host: Sender, session: Uri, chat: Uri): void {
  const stored = sessionStorage.getItem(key(session));
  if (stored === null || sending.has(session)) return;
  sending.add(session);
  const message = JSON.parse(stored) as Message;
  const settle = () => {
    sessionStorage.removeItem(key(session));
    sending.delete(session);
  };
  send(host, session, chat, message).then(settle, (error: unknown) => {
    settle();
    const reason = error instanceof Error ? error.message : String(error);
    notify({
      kind: "error",
      text: `The message was not accepted: ${reason}`,
      action: { label: "Copy it", run: () => void navigator.clipboard?.writeText(message.text) },
    });
  });
}

const sending = new Set<Uri>();
