// The list of sessions: what waits first, then by directory, the latest first.

import { For, Show, createMemo, createSignal, onCleanup } from "solid-js";
import type { JSX } from "solid-js";
import type { SessionSummary } from "../ahp/types.gen";
import type { HostConnection } from "../app/host";
import { href, route } from "../app/route";
import {
  archiveSession,
  deleteSession,
  directoryName,
  directoryOf,
  isArchived,
  isRunning,
  isUnread,
  isWaiting,
  renameSession,
  titleOf,
} from "../app/session";
import { agentName } from "./SessionView";
import { ago } from "../app/words";
import { Icon } from "./icons";
import { Menu } from "./Menu";
import { Rename } from "./Rename";

interface Group {
  name: string;
  path: string;
  sessions: SessionSummary[];
}

function matches(session: SessionSummary, query: string): boolean {
  const text = `${titleOf(session)} ${directoryOf(session)} ${session.provider}`.toLowerCase();
  return query.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** Returns the sessions to list, the latest first. */
export function orderedSessions(all: readonly SessionSummary[], query: string, archived: boolean): SessionSummary[] {
  return all
    .filter((session) => isArchived(session) === archived && matches(session, query))
    .sort((a, b) => (a.modifiedAt < b.modifiedAt ? 1 : -1));
}

function groups(sessions: SessionSummary[]): Group[] {
  const byPath = new Map<string, Group>();
  const waiting = sessions.filter(isWaiting);
  for (const session of sessions.filter((other) => !isWaiting(other))) {
    const path = directoryOf(session);
    const group = byPath.get(path) ?? { name: directoryName(path), path, sessions: [] };
    group.sessions.push(session);
    byPath.set(path, group);
  }
  const first = waiting.length > 0 ? [{ name: "Waiting for you", path: "", sessions: waiting }] : [];
  return [...first, ...byPath.values()];
}

export function Sidebar(props: { host: HostConnection; waiting: number; unread: number }): JSX.Element {
  const [query, setQuery] = createSignal("");
  const [archived, setArchived] = createSignal(false);
  const [now, setNow] = createSignal(Date.now());
  const [renaming, setRenaming] = createSignal<SessionSummary>();
  const timer = setInterval(() => setNow(Date.now()), 30_000);
  onCleanup(() => clearInterval(timer));
  const sessions = createMemo(() => orderedSessions(props.host.sessions(), query(), archived()));
  const listed = createMemo(() => groups(sessions()));
  const hasArchived = createMemo(() => props.host.sessions().some(isArchived));
  const canWrite = props.host.scope !== "view";

  return (
    <nav class="sidebar" aria-label="Sessions">
      <header class="sidebar-head">
        <a class="brand" href="#/">
          <img src="/icon.svg" alt="" width="24" height="24" />
          Innkeeper
        </a>
        <a
          class="icon-button waiting-link"
          href="#/waiting"
          aria-label={props.waiting > 0 ? `${props.waiting} waiting for you` : "Nothing waits for you"}
        >
          <Icon name="inbox" />
          <Show when={props.waiting > 0}>
            <span class="badge" aria-hidden="true">
              {props.waiting}
            </span>
          </Show>
        </a>
        <Show when={canWrite}>
          <a class="icon-button" href="#/new" aria-label="New session">
            <Icon name="plus" />
          </a>
        </Show>
      </header>
      <div class="search">
        <Icon name="search" />
        <input
          id="search"
          type="search"
          placeholder="Search sessions"
          aria-label="Search sessions"
          value={query()}
          onInput={(event) => setQuery(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape") {
              setQuery("");
              event.currentTarget.blur();
            }
          }}
        />
      </div>
      <div class="sessions">
        <Show when={props.host.sessionsLoaded()} fallback={<p class="empty muted">Loading sessions…</p>}>
          <For each={listed()} fallback={<Empty query={query()} archived={archived()} canWrite={canWrite} />}>
            {(group) => (
              <section aria-label={group.name}>
                <h2 title={group.path} classList={{ attention: group.name === "Waiting for you" }}>
                  {group.name}
                </h2>
                <ul>
                  <For each={group.sessions}>
                    {(session) => (
                      <Item
                        host={props.host}
                        session={session}
                        now={now()}
                        canWrite={canWrite}
                        rename={() => setRenaming(session)}
                      />
                    )}
                  </For>
                </ul>
              </section>
            )}
          </For>
        </Show>
      </div>
      <Show when={hasArchived() || archived()}>
        <footer class="sidebar-foot">
          <button class="link" aria-pressed={archived()} onClick={() => setArchived(!archived())}>
            <Icon name="archive" />
            {archived() ? "Back to sessions" : "Archived sessions"}
          </button>
        </footer>
      </Show>
      <Rename
        title={renaming()?.title}
        close={() => setRenaming(undefined)}
        save={(title) => renameSession(props.host, renaming()?.resource ?? "", title)}
      />
    </nav>
  );
}

function Empty(props: { query: string; archived: boolean; canWrite: boolean }): JSX.Element {
  return (
    <div class="empty muted">
      <p>
        {props.query ? `Nothing matches “${props.query}”.` : props.archived ? "The archive is empty." : "No sessions yet."}
      </p>
      <Show when={!props.query && !props.archived && props.canWrite}>
        <a class="button primary" href="#/new">
          <Icon name="plus" /> Start one
        </a>
      </Show>
    </div>
  );
}

function Item(props: {
  host: HostConnection;
  session: SessionSummary;
  now: number;
  canWrite: boolean;
  rename(): void;
}): JSX.Element {
  const isCurrent = () => {
    const current = route();
    return current.page === "session" && current.session === props.session.resource;
  };
  const state = () => {
    if (isWaiting(props.session)) return "waiting";
    if (isRunning(props.session)) return "running";
    return isUnread(props.session) ? "unread" : "idle";
  };
  const words = { waiting: "waits for you", running: "is working", unread: "has news", idle: "" };
  const detail = () => {
    if (isWaiting(props.session)) return "Waits for you";
    return (isRunning(props.session) && props.session.activity) || agentName(props.host, props.session.provider);
  };
  const archived = () => isArchived(props.session);
  return (
    <li class="session" data-state={state()} classList={{ current: isCurrent() }}>
      <a
        href={href({ page: "session", session: props.session.resource })}
        aria-current={isCurrent() ? "page" : undefined}
      >
        <span class="dot" aria-hidden="true" />
        <span class="session-title">{titleOf(props.session)}</span>
        <span class="session-detail">{detail()}</span>
        <time datetime={props.session.modifiedAt}>{ago(props.session.modifiedAt, props.now)}</time>
        <span class="sr-only">{words[state()]}</span>
      </a>
      <Show when={props.canWrite}>
        <Menu
          label={`Actions for ${titleOf(props.session)}`}
          items={[
            { label: "Rename", icon: "pencil", run: props.rename },
            {
              label: archived() ? "Move out of the archive" : "Archive",
              icon: "archive",
              run: () => archiveSession(props.host, props.session.resource, !archived()),
            },
            {
              label: "Delete",
              icon: "trash",
              danger: true,
              run: () => {
                if (isCurrent()) location.hash = "#/";
                deleteSession(props.host, props.session.resource);
              },
            },
          ]}
        />
      </Show>
    </li>
  );
}
