// The page when no session is chosen.

import { Show, createMemo, createSignal } from "solid-js";
import type { JSX } from "solid-js";
import type { HostConnection } from "../app/host";
import { isArchived, isRunning, isWaiting } from "../app/session";
import { plural } from "../app/words";
import { Icon } from "./icons";
import { canAskForNotifications } from "./notifications";

export function Home(props: { host: HostConnection }): JSX.Element {
  const [canAsk, setCanAsk] = createSignal(canAskForNotifications());
  const listed = createMemo(() => props.host.sessions().filter((session) => !isArchived(session)));
  const waiting = createMemo(() => listed().filter(isWaiting).length);
  const running = createMemo(() => listed().filter((session) => isRunning(session) && !isWaiting(session)).length);
  return (
    <div class="home">
      <img src="/icon.svg" alt="" width="56" height="56" />
      <h1>{listed().length === 0 ? "Welcome to Innkeeper" : "Choose a session"}</h1>
      <Show
        when={listed().length > 0}
        fallback={<p class="muted">Start a session, and every device that is signed in follows it live.</p>}
      >
        <p class="muted">
          {plural(listed().length, "session")}
          {running() > 0 ? `, ${running()} working` : ""}
          {waiting() > 0 ? `, ${waiting()} waiting for you` : ""}
        </p>
      </Show>
      <div class="buttons centered">
        <Show when={props.host.scope !== "view"}>
          <a class="button primary" href="#/new">
            <Icon name="plus" /> New session
          </a>
        </Show>
        <Show when={waiting() > 0}>
          <a class="button" href="#/waiting">
            <Icon name="inbox" /> What waits for me
          </a>
        </Show>
        <Show when={canAsk()}>
          <button class="button" onClick={() => void Notification.requestPermission().then(() => setCanAsk(false))}>
            <Icon name="bell" /> Notify me
          </button>
        </Show>
      </div>
      <p class="muted small">
        Press <kbd>?</kbd> for keyboard shortcuts.
      </p>
    </div>
  );
}
