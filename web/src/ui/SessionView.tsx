// One session: its title, its chats, and the chosen chat.

import { For, Show, Suspense, createEffect, createMemo, createSignal, lazy } from "solid-js";
import type { JSX } from "solid-js";
import type { ChatSummary, SessionState, Uri } from "../ahp/types.gen";
import { ConnectionLost } from "../ahp/rpc";
import type { HostConnection } from "../app/host";
import { report } from "../app/notices";
import { href, route } from "../app/route";
import { archiveSession, deleteSession, isArchived, isUnread, isWaiting, renameSession, titleOf } from "../app/session";
import { baseName, pathOf, plural } from "../app/words";
import { ChatView } from "./ChatView";
import { Menu } from "./Menu";
import { Rename } from "./Rename";
import { Icon } from "./icons";

const ChangesTab = lazy(() => import("./changes/ChangesTab"));

export function SessionView(props: { host: HostConnection; session: Uri }): JSX.Element {
  const state = props.host.use<SessionState>(() => props.session);
  const [renaming, setRenaming] = createSignal(false);
  const chats = createMemo(() => (state()?.chats ?? []).filter((chat) => chat.interactivity !== "hidden"));
  const chat = createMemo(() => {
    const current = route();
    const wanted = current.page === "session" ? current.chat : undefined;
    return wanted ?? state()?.defaultChat ?? state()?.chats[0]?.resource;
  });
  const routeChat = () => {
    const current = route();
    return current.page === "session" ? current.chat : undefined;
  };
  /** The page of changes, if it is open. */
  const changes = createMemo(() => {
    const current = route();
    return current.page === "session" ? current.changes : undefined;
  });
  const summary = () => props.host.sessions().find((other) => other.resource === props.session);
  const directory = () => state()?.workingDirectories?.[0];
  const error = () => props.host.errors().get(props.session);
  const canWrite = props.host.scope !== "view";

  // A session that is looked at has been read.
  createEffect(() => {
    const current = state();
    if (!current || !isUnread(current) || !canWrite || document.hidden) return;
    props.host.dispatch(props.session, { type: "session/isReadChanged", isRead: true }).catch((problem: unknown) => {
      if (!(problem instanceof ConnectionLost)) report("The session could not be marked as read")(problem);
    });
  });

  return (
    <div class="session-view">
      <header class="page-head">
        <a class="icon-button back" href="#/" aria-label="Back to sessions">
          <Icon name="back" />
        </a>
        <div class="title">
          <h1>{state() ? titleOf(state()!) : "…"}</h1>
          <p class="muted">
            <Show when={directory()}>
              {(uri) => (
                <span title={pathOf(uri())}>
                  <Icon name="folder" /> {baseName(pathOf(uri()))}
                </span>
              )}
            </Show>
            <Show when={state()}>
              {(current) => (
                <span>
                  <Icon name="agents" /> {agentName(props.host, current().provider)}
                </span>
              )}
            </Show>
            <Show when={(state()?.activeClients.length ?? 0) > 1}>
              <span>{plural(state()!.activeClients.length, "client")}</span>
            </Show>
          </p>
        </div>
        <Show when={canWrite && state()}>
          {(current) => (
            <Menu
              label="Session actions"
              items={[
                { label: "Rename", icon: "pencil", run: () => setRenaming(true) },
                {
                  label: isArchived(current()) ? "Move out of the archive" : "Archive",
                  icon: "archive",
                  run: () => archiveSession(props.host, props.session, !isArchived(current())),
                },
                {
                  label: "Delete",
                  icon: "trash",
                  danger: true,
                  run: () => {
                    location.hash = "#/";
                    deleteSession(props.host, props.session);
                  },
                },
              ]}
            />
          )}
        </Show>
      </header>
      <Show when={(state()?.changesets ?? []).length > 0}>
        <nav class="tabs" aria-label="Parts of the session">
          <a
            href={href({ page: "session", session: props.session, chat: routeChat() })}
            aria-current={changes() ? undefined : "page"}
          >
            Chat
          </a>
          <a
            href={href({ page: "session", session: props.session, chat: routeChat(), changes: {} })}
            aria-current={changes() ? "page" : undefined}
          >
            Changes
            <Show when={summary()?.changes?.files}>
              <small>
                <span class="plus">+{summary()?.changes?.additions ?? 0}</span>{" "}
                <span class="minus">−{summary()?.changes?.deletions ?? 0}</span>
              </small>
            </Show>
          </a>
        </nav>
      </Show>
      <Show when={chats().length > 1 && !changes()}>
        <Chats session={props.session} chats={chats()} current={chat()} />
      </Show>
      <Show
        when={!error()}
        fallback={
          <div class="home">
            <h2>This session is not here</h2>
            <p class="muted">{error()}</p>
            <a class="button" href="#/">
              All sessions
            </a>
          </div>
        }
      >
        <Show when={state()?.lifecycle !== "failed"} fallback={<Failed message={state()?.creationError?.message} />}>
          <Show
            when={!changes()}
            fallback={
              <Suspense fallback={<p class="center muted">Loading…</p>}>
                <ChangesTab host={props.host} session={props.session} state={state} turn={changes()?.turn} />
              </Suspense>
            }
          >
            <Show when={chat()} keyed fallback={<p class="center muted">Opening the session…</p>}>
              {(uri) => <ChatView host={props.host} session={props.session} chat={uri} state={state} />}
            </Show>
          </Show>
        </Show>
      </Show>
      <Rename
        title={renaming() ? state()?.title : undefined}
        close={() => setRenaming(false)}
        save={(title) => renameSession(props.host, props.session, title)}
      />
    </div>
  );
}

export function agentName(host: HostConnection, provider: string): string {
  return host.root()?.agents.find((agent) => agent.provider === provider)?.displayName ?? provider;
}

function Failed(props: { message: string | undefined }): JSX.Element {
  return (
    <div class="home">
      <h2>The session could not be started</h2>
      <p class="error">{props.message}</p>
      <a class="button" href="#/new">
        Start another
      </a>
    </div>
  );
}

/** The chats of a session; those that an agent started stand below the chat that started them. */
function Chats(props: { session: Uri; chats: ChatSummary[]; current: Uri | undefined }): JSX.Element {
  const depth = (chat: ChatSummary): number => {
    const { origin } = chat;
    const parent = origin && origin.kind !== "user" && props.chats.find((other) => other.resource === origin.chat);
    return parent ? 1 + depth(parent) : 0;
  };
  return (
    <nav class="chats" aria-label="Chats">
      <For each={props.chats}>
        {(chat) => (
          <a
            href={href({ page: "session", session: props.session, chat: chat.resource })}
            aria-current={chat.resource === props.current ? "page" : undefined}
            data-depth={Math.min(depth(chat), 3)}
            data-waiting={isWaiting(chat) ? "" : undefined}
          >
            {chat.origin?.kind === "tool" ? <Icon name="agents" label="Subagent" /> : null}
            {chat.title.trim() || "Chat"}
          </a>
        )}
      </For>
    </nav>
  );
}
