// The list of sessions: what waits first, then by directory, the latest first.

import { For, Show, createEffect, createMemo, createSignal, onCleanup, untrack } from "solid-js";
import type { JSX } from "solid-js";
import type { SessionSummary, Uri } from "../ahp/types.gen";
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
  sessions: Uri[];
}

const WAITING = "Waiting for you";

function matches(session: SessionSummary, query: string): boolean {
  const text = `${titleOf(session)} ${directoryOf(session)} ${session.provider}`.toLowerCase();
  return query.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** Returns the sessions to list: those that wait first, then by directory, the latest first. */
export function grouped(all: readonly SessionSummary[], query: string, archived: boolean): Group[] {
  const sessions = all
    .filter((session) => isArchived(session) === archived && matches(session, query))
    .sort((a, b) => (a.modifiedAt < b.modifiedAt ? 1 : -1));
  const byName = new Map<string, Group>();
  for (const session of [...sessions.filter(isWaiting), ...sessions.filter((other) => !isWaiting(other))]) {
    const path = isWaiting(session) ? "" : directoryOf(session);
    const key = isWaiting(session) ? WAITING : `/${path}`;
    const group = byName.get(key) ?? { name: isWaiting(session) ? WAITING : directoryName(path), path, sessions: [] };
    group.sessions.push(session.resource);
    byName.set(key, group);
  }
  return [...byName.values()];
}

const [listedSessions, setListedSessions] = createSignal<readonly Uri[]>([]);

/** The sessions in the order of the list, for the keys that go from one to the next. */
export { listedSessions };

export function Sidebar(props: { host: HostConnection; waiting: number; unread: number }): JSX.Element {
  const [query, setQuery] = createSignal("");
  const [archived, setArchived] = createSignal(false);
  const [now, setNow] = createSignal(Date.now());
  const [renaming, setRenaming] = createSignal<Uri>();
  const timer = setInterval(() => setNow(Date.now()), 30_000);
  onCleanup(() => clearInterval(timer));
  const summaries = createMemo(() => new Map(props.host.sessions().map((session) => [session.resource, session])));
  const groups = createMemo(() => new Map(grouped(props.host.sessions(), query(), archived()).map((group) => [group.name + group.path, group])));
  // Summaries change several times per second while agents work. Rows are kept by name, so that an open menu and the
  // focus stay.
  const names = createMemo(() => [...groups().keys()]);
  createEffect(() => setListedSessions([...groups().values()].flatMap((group) => group.sessions)));
  const hasArchived = createMemo(() => props.host.sessions().some(isArchived));
  const canWrite = props.host.scope !== "view";
  /** The title when the dialog opened; a title that the host changes meanwhile does not replace what the user types. */
  const renamed = createMemo(() => {
    const uri = renaming();
    return uri === undefined ? undefined : untrack(() => summaries().get(uri)?.title);
  });

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
          <For each={names()} fallback={<Empty query={query()} archived={archived()} canWrite={canWrite} />}>
            {(name) => (
              <section aria-label={groups().get(name)?.name}>
                <h2 title={groups().get(name)?.path} classList={{ attention: name === WAITING }}>
                  {groups().get(name)?.name}
                </h2>
                <ul>
                  <For each={groups().get(name)?.sessions}>
                    {(uri) => (
                      <Show when={summaries().get(uri)}>
                        {(session) => (
                          <Item
                            host={props.host}
                            session={session()}
                            now={now()}
                            canWrite={canWrite}
                            rename={() => setRenaming(uri)}
                          />
                        )}
                      </Show>
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
        title={renamed()}
        close={() => setRenaming(undefined)}
        save={(title) => renameSession(props.host, renaming() ?? "", title)}
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
