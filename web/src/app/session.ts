// What users do with sessions: create, rename, archive, delete and bring back.

import { SessionStatus } from "../ahp/types.gen";
import type { Message, SessionSummary, Uri } from "../ahp/types.gen";
import { ROOT } from "../ahp/client";
import type { HostConnection } from "./host";
import { notify, report } from "./notices";
import { go } from "./route";
import { baseName, pathOf } from "./words";

export function has(status: number, flag: number): boolean {
  return (status & flag) === flag;
}

export function isWaiting(summary: { status: number }): boolean {
  return has(summary.status, SessionStatus.InputNeeded);
}

export function isRunning(summary: { status: number }): boolean {
  return has(summary.status, SessionStatus.InProgress);
}

export function isUnread(summary: { status: number }): boolean {
  return !has(summary.status, SessionStatus.IsRead);
}

export function isArchived(summary: { status: number }): boolean {
  return has(summary.status, SessionStatus.IsArchived);
}

export function titleOf(summary: { title: string }): string {
  return summary.title.trim() || "Untitled session";
}

/** Returns the directory that a session is listed under. */
export function directoryOf(summary: SessionSummary): string {
  const uri = summary.project?.uri ?? summary.workingDirectories?.[0];
  return uri ? pathOf(uri) : "";
}

export function directoryName(path: string): string {
  return path ? baseName(path) : "No directory";
}

export function userMessage(text: string, extra?: Partial<Message>): Message {
  return { text, origin: { kind: "user" }, ...extra };
}

export interface NewSession {
  provider?: string;
  directory?: Uri;
  config?: Record<string, unknown>;
}

export async function createSession(host: HostConnection, wanted: NewSession): Promise<Uri> {
  const channel = `ahp-session:/${crypto.randomUUID()}`;
  const { provider, directory, config } = wanted;
  await host.client.request("createSession", {
    channel,
    ...(provider && { provider }),
    ...(directory && { workingDirectories: [directory] }),
    ...(config && { config }),
  });
  return channel;
}

export function renameSession(host: HostConnection, session: Uri, title: string): void {
  host.dispatch(session, { type: "session/titleChanged", title }).catch(report("The session could not be renamed"));
}

export function archiveSession(host: HostConnection, session: Uri, isArchived: boolean): void {
  const change = (value: boolean) => host.dispatch(session, { type: "session/isArchivedChanged", isArchived: value });
  change(isArchived).then(() => {
    notify({
      kind: "info",
      text: isArchived ? "Session archived" : "Session restored from the archive",
      action: { label: "Undo", run: () => void change(!isArchived).catch(report("Undo failed")) },
    });
  }, report("The session could not be archived"));
}

export function deleteSession(host: HostConnection, session: Uri): void {
  const restore = () =>
    host.client
      .request("innkeeper/restoreSession", { channel: ROOT, session })
      .then(() => go({ page: "session", session }), report("The session could not be restored"));
  host.client.request("disposeSession", { channel: session }).then(() => {
    notify({ kind: "info", text: "Session deleted", action: { label: "Undo", run: () => void restore() } });
  }, report("The session could not be deleted"));
}

/** Returns each directory once, the most used first. */
export function orderByUse(directories: readonly string[]): string[] {
  const uses = new Map<string, number>();
  for (const directory of directories) if (directory) uses.set(directory, (uses.get(directory) ?? 0) + 1);
  return [...uses].sort((a, b) => b[1] - a[1]).map(([directory]) => directory);
}
