// Notifications of the browser when a session begins to wait, or ends while the page is hidden.

import { createEffect } from "solid-js";
import type { HostConnection } from "../app/host";
import { go } from "../app/route";
import { isRunning, isWaiting, titleOf } from "../app/session";

export function watchForNotifications(host: HostConnection): void {
  let before: Map<string, "waits" | "runs" | "rests"> | undefined;
  createEffect(() => {
    const now = new Map(
      host.sessions().map((session) => {
        const state = isWaiting(session) ? "waits" : isRunning(session) ? "runs" : "rests";
        return [session.resource, state] as const;
      }),
    );
    for (const session of before ? host.sessions() : []) {
      const [was, is] = [before?.get(session.resource), now.get(session.resource)];
      if (is === "waits" && was !== "waits") show(session.resource, titleOf(session), "waits for you");
      if (is === "rests" && was === "runs") show(session.resource, titleOf(session), "has finished");
    }
    if (host.sessionsLoaded()) before = now;
  });
}

function show(session: string, title: string, what: string): void {
  if (!document.hidden || !("Notification" in window) || Notification.permission !== "granted") return;
  // Chrome on Android has the constructor and throws when it is called.
  try {
    const notification = new Notification(title, { body: `This session ${what}.`, tag: session, icon: "/icon.svg" });
    notification.onclick = () => {
      window.focus();
      go({ page: "session", session });
      notification.close();
    };
  } catch {
    // The badge in the title says the same.
  }
}

export function canAskForNotifications(): boolean {
  return "Notification" in window && Notification.permission === "default";
}
