// Everything that waits for the user, in one place, with the cards to decide it.

import { For, Match, Show, Switch, createMemo } from "solid-js";
import type { JSX } from "solid-js";
import type { SessionInputRequest, SessionState, SessionSummary, Uri } from "../ahp/types.gen";
import type { HostConnection } from "../app/host";
import { report } from "../app/notices";
import { href } from "../app/route";
import { directoryName, directoryOf, titleOf } from "../app/session";
import type { ChatContext } from "./ChatView";
import { QuestionForm } from "./Question";
import { ToolCall } from "./ToolCall";
import { Icon } from "./icons";

export function Waiting(props: { host: HostConnection; sessions: SessionSummary[] }): JSX.Element {
  const uris = createMemo<Uri[]>((before) => {
    const now = props.sessions.map((session) => session.resource);
    return before.length === now.length && now.every((uri, index) => uri === before[index]) ? before : now;
  }, []);
  return (
    <div class="page">
      <header class="page-head">
        <a class="icon-button back" href="#/" aria-label="Back to sessions">
          <Icon name="back" />
        </a>
        <h1>Waiting for you</h1>
      </header>
      <div class="waiting-list">
        <For
          each={uris()}
          fallback={
            <div class="home">
              <Icon name="check" />
              <h2>Nothing waits for you</h2>
              <p class="muted">Approvals and questions of all sessions appear here.</p>
            </div>
          }
        >
          {(uri) => <WaitingSession host={props.host} session={uri} sessions={props.sessions} />}
        </For>
      </div>
    </div>
  );
}

function WaitingSession(props: { host: HostConnection; session: Uri; sessions: SessionSummary[] }): JSX.Element {
  const state = props.host.use<SessionState>(() => props.session);
  const summary = () => props.sessions.find((other) => other.resource === props.session);
  const requests = createMemo(() => state()?.inputNeeded ?? []);
  return (
    <section class="waiting-session">
      <h2>
        <a href={href({ page: "session", session: props.session })}>{titleOf(summary() ?? state() ?? { title: "" })}</a>
        <Show when={summary()}>{(known) => <small class="muted">{directoryName(directoryOf(known()))}</small>}</Show>
      </h2>
      <For each={requests()}>
        {(request) => <Request host={props.host} session={props.session} request={request} />}
      </For>
    </section>
  );
}

function Request(props: { host: HostConnection; session: Uri; request: SessionInputRequest }): JSX.Element {
  const of = <K extends SessionInputRequest["kind"]>(kind: K) =>
    props.request.kind === kind ? (props.request as Extract<SessionInputRequest, { kind: K }>) : undefined;
  const context = (): ChatContext => ({
    host: props.host,
    session: props.session,
    chat: props.request.chat,
    canWrite: props.host.scope !== "view",
    canFork: false,
  });
  return (
    <Switch>
      <Match when={of("toolConfirmation")}>
        {(request) => <ToolCall context={context()} call={request().toolCall} turnId={request().turnId} />}
      </Match>
      <Match when={of("toolAuthentication")}>
        {(request) => <ToolCall context={context()} call={request().toolCall} turnId={request().turnId} />}
      </Match>
      <Match when={of("chatInput")}>
        {(request) => (
          <QuestionForm
            request={request().request}
            canWrite={context().canWrite}
            answer={(action) =>
              void props.host.dispatch(request().chat, action).catch(report("The answer was not accepted"))
            }
          />
        )}
      </Match>
    </Switch>
  );
}
