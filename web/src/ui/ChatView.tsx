// One chat: the turns, the running turn, and the field for messages.

import { For, Show, createEffect, createMemo, createSignal, onCleanup, onMount } from "solid-js";
import type { Accessor, JSX } from "solid-js";
import type { ChatState, SessionState, Uri } from "../ahp/types.gen";
import type { HostConnection } from "../app/host";
import { report } from "../app/notices";
import { sendFirst } from "../app/sending";
import { Composer } from "./Composer";
import { ActiveTurnView, TurnView } from "./Turns";

/** Turns that a chat is opened with; earlier ones follow when the user scrolls up. */
const WINDOW = 20;

export interface ChatContext {
  host: HostConnection;
  session: Uri;
  chat: Uri;
  canWrite: boolean;
  canFork: boolean;
}

export function ChatView(props: {
  host: HostConnection;
  session: Uri;
  chat: Uri;
  state: Accessor<SessionState | undefined>;
}): JSX.Element {
  const chat = props.host.use<ChatState>(() => props.chat, { turns: WINDOW });
  const turns = createMemo(() => chat()?.turns ?? []);
  const isReadOnly = () => props.host.scope === "view" || chat()?.interactivity === "read-only";
  const context: ChatContext = {
    host: props.host,
    session: props.session,
    chat: props.chat,
    get canWrite() {
      return !isReadOnly();
    },
    get canFork() {
      const provider = props.state()?.provider;
      const agent = props.host.root()?.agents.find((other) => other.provider === provider);
      return !isReadOnly() && agent?.capabilities?.multipleChats?.fork === true;
    },
  };
  const scroll = createScrolling(chat);
  const [loading, setLoading] = createSignal(false);

  const loadOlder = async () => {
    const cursor = chat()?.turnsNextCursor;
    if (!cursor || loading()) return;
    setLoading(true);
    const keep = scroll.keepPosition();
    try {
      await props.host.client.request("fetchTurns", { channel: props.chat, cursor });
      requestAnimationFrame(() => requestAnimationFrame(keep));
    } catch (error) {
      report("Earlier turns could not be read")(error);
    } finally {
      setLoading(false);
    }
  };
  // A short window leaves nothing to scroll.
  createEffect(() => {
    if (turns().length < 5 && chat()?.turnsNextCursor) void loadOlder();
  });

  createEffect(() => {
    if (chat() && props.state()) sendFirst(props.host, props.session, props.chat);
  });

  return (
    <div class="chat">
      <div
        class="scroller"
        ref={(element) => scroll.attach(element)}
        onScroll={(event) => {
          scroll.moved();
          if (event.currentTarget.scrollTop < 300) void loadOlder();
        }}
      >
        <div class="turns" role="log" aria-label="Conversation" aria-live="off">
          <Show when={chat()?.turnsNextCursor}>
            <button class="button older" disabled={loading()} onClick={() => void loadOlder()}>
              {loading() ? "Loading…" : "Earlier turns"}
            </button>
          </Show>
          <For each={turns()}>
            {(turn, index) => (
              <TurnView context={context} turn={turn} isLast={index() === turns().length - 1 && !chat()?.activeTurn} />
            )}
          </For>
          <Show when={chat()?.activeTurn}>
            {(turn) => <ActiveTurnView context={context} turn={turn()} activity={chat()?.activity} />}
          </Show>
          <Show when={chat() && turns().length === 0 && !chat()?.activeTurn}>
            <p class="empty muted">Nothing has been said yet.</p>
          </Show>
        </div>
      </div>
      <Show when={!scroll.atEnd()}>
        <button class="to-end" onClick={() => scroll.toEnd()}>
          ↓ Latest
        </button>
      </Show>
      <Show when={!isReadOnly()} fallback={<p class="read-only muted">{readOnlyReason(props.host)}</p>}>
        <Composer context={context} chat={chat} agent={() => props.state()?.provider} />
      </Show>
    </div>
  );
}

function readOnlyReason(host: HostConnection): string {
  return host.scope === "view" ? "This browser may only look." : "An agent works in this chat; it takes no messages.";
}

/** Follows the end of the conversation until the user scrolls up. */
function createScrolling(chat: Accessor<ChatState | undefined>) {
  const [atEnd, setAtEnd] = createSignal(true);
  let element: HTMLElement | undefined;
  const toEnd = () => {
    if (element) element.scrollTop = element.scrollHeight;
    setAtEnd(true);
  };
  const follow = () => {
    if (atEnd() && element) element.scrollTop = element.scrollHeight;
  };
  createEffect(() => {
    chat();
    queueMicrotask(follow);
  });
  const observer = new ResizeObserver(follow);
  onMount(() => {
    const turns = element?.firstElementChild;
    if (turns) observer.observe(turns);
    if (element) observer.observe(element);
  });
  onCleanup(() => observer.disconnect());
  return {
    atEnd,
    toEnd,
    attach: (scroller: HTMLElement) => (element = scroller),
    moved: () => {
      if (element) setAtEnd(element.scrollHeight - element.scrollTop - element.clientHeight < 60);
    },
    /** Returns a function that shows the same turns at the same place after others were added above them. */
    keepPosition: () => {
      const before = element ? element.scrollHeight - element.scrollTop : 0;
      return () => {
        if (element && !atEnd()) element.scrollTop = element.scrollHeight - before;
      };
    },
  };
}

