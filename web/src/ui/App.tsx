// The frame of the app: list of sessions, the chosen page, and messages at the edge.

import { For, Match, Show, Switch, createEffect, createMemo, createSignal, onCleanup, onMount } from "solid-js";
import type { JSX } from "solid-js";
import type { HostConnection } from "../app/host";
import { dismiss, notices } from "../app/notices";
import { go, route } from "../app/route";
import { isArchived, isUnread, isWaiting } from "../app/session";
import { SignedOut } from "./Entrance";
import { Home } from "./Home";
import { NewSession } from "./NewSession";
import { SessionView } from "./SessionView";
import { Sidebar, listedSessions } from "./Sidebar";
import { Shortcuts } from "./Shortcuts";
import { Waiting } from "./Waiting";
import { watchForNotifications } from "./notifications";

export function App(props: { host: HostConnection }): JSX.Element {
  const { host } = props;
  const [help, setHelp] = createSignal(false);
  const waiting = createMemo(() => host.sessions().filter((session) => isWaiting(session) && !isArchived(session)));
  const unread = createMemo(() => host.sessions().filter((session) => isUnread(session) && !isArchived(session)));

  createEffect(() => {
    const count = waiting().length;
    document.title = count > 0 ? `(${count}) Innkeeper` : "Innkeeper";
  });
  watchForNotifications(host);

  const keys = (event: KeyboardEvent) => {
    const target = event.target as HTMLElement;
    const typing = target.closest("input, textarea, select, [contenteditable]") !== null;
    if ((event.ctrlKey || event.metaKey) && event.key === "k") {
      event.preventDefault();
      document.querySelector<HTMLInputElement>("#search")?.focus();
      return;
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const step = { j: 1, k: -1 }[event.key];
    if (event.key === "n") go({ page: "new" });
    else if (event.key === "w") go({ page: "waiting" });
    else if (event.key === "?") setHelp(true);
    else if (event.key === "/") document.querySelector<HTMLInputElement>("#search")?.focus();
    else if (event.key === "i") document.querySelector<HTMLTextAreaElement>("#composer")?.focus();
    else if (step) move(step);
    else return;
    event.preventDefault();
  };
  onMount(() => document.addEventListener("keydown", keys));
  onCleanup(() => document.removeEventListener("keydown", keys));

  return (
    <Show when={!isSignedOut(host)} fallback={<SignedOut usedCode={false} />}>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById("main")?.focus();
      }}>
        Skip to content
      </a>
      <div class="app" data-page={route().page}>
        <Sidebar host={host} waiting={waiting().length} unread={unread().length} />
        <main class="main" id="main" tabindex="-1">
          <ConnectionBar host={host} />
          <Switch>
            <Match when={route().page === "new"}>
              <NewSession host={host} />
            </Match>
            <Match when={route().page === "waiting"}>
              <Waiting host={host} sessions={waiting()} />
            </Match>
            <Match when={chosen()} keyed>
              {(session) => <SessionView host={host} session={session} />}
            </Match>
            <Match when={true}>
              <Home host={host} />
            </Match>
          </Switch>
        </main>
      </div>
      <Notices />
      <Shortcuts open={help()} close={() => setHelp(false)} />
    </Show>
  );
}

function chosen(): string | undefined {
  const current = route();
  return current.page === "session" ? current.session : undefined;
}

function isSignedOut(host: HostConnection): boolean {
  const state = host.connectivity();
  return state.kind === "refused" && state.reason === "signed-out";
}

function move(step: number): void {
  const sessions = listedSessions();
  const index = sessions.indexOf(chosen() ?? "");
  const next = sessions[index < 0 ? 0 : index + step];
  if (next) go({ page: "session", session: next });
}

function ConnectionBar(props: { host: HostConnection }): JSX.Element {
  const text = () => {
    const state = props.host.connectivity();
    switch (state.kind) {
      case "online":
        return undefined;
      case "connecting":
        return props.host.sessionsLoaded() ? "Reconnecting…" : undefined;
      case "offline":
        return "No connection to the host. What you type is kept.";
      case "refused":
        return state.reason;
    }
  };
  return (
    <div class="connection" role="status" aria-live="polite">
      <Show when={text()}>
        {(shown) => (
          <p>
            <Show when={props.host.connectivity().kind !== "refused"}>
              <span class="spinner" aria-hidden="true" />
            </Show>
            {shown()}
            <Show when={props.host.connectivity().kind === "offline"}>
              <button class="link" onClick={() => props.host.client.check()}>
                Try now
              </button>
            </Show>
          </p>
        )}
      </Show>
    </div>
  );
}

function Notices(): JSX.Element {
  return (
    <div class="notices" role="status" aria-live="polite">
      <For each={notices()}>
        {(notice) => (
          <div class="notice" data-kind={notice.kind}>
            <p>{notice.text}</p>
            <Show when={notice.action}>
              {(action) => (
                <button
                  class="link"
                  onClick={() => {
                    action().run();
                    dismiss(notice.id);
                  }}
                >
                  {action().label}
                </button>
              )}
            </Show>
            <button class="icon-button" aria-label="Dismiss" onClick={() => dismiss(notice.id)}>
              ×
            </button>
          </div>
        )}
      </For>
    </div>
  );
}
