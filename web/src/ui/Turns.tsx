// Turns: the message of a user, and everything that the agent did with it.

import { For, Index, Match, Show, Switch } from "solid-js";
import type { JSX } from "solid-js";
import type { ActiveTurn, Message, ResponsePart, Turn } from "../ahp/types.gen";
import { report } from "../app/notices";
import { go, href } from "../app/route";
import { duration, plainText, usageText } from "../app/words";
import { Attachments } from "./Attachments";
import type { ChatContext } from "./ChatView";
import { Content } from "./Content";
import { Inline, Markdown } from "./Markdown";
import { AnsweredQuestion, QuestionForm } from "./Question";
import { ToolCall } from "./ToolCall";
import { Icon } from "./icons";

export function TurnView(props: { context: ChatContext; turn: Turn; isLast: boolean }): JSX.Element {
  return (
    <article class="turn" data-turn={props.turn.id}>
      <UserMessage message={props.turn.message} />
      <div class="response">
        <For each={props.turn.responseParts}>
          {(part) => <Part context={props.context} part={part} turnId={props.turn.id} running={false} />}
        </For>
        <Show when={props.turn.state === "cancelled"}>
          <p class="muted small">Stopped.</p>
        </Show>
        <TurnFoot context={props.context} turn={props.turn} isLast={props.isLast} />
      </div>
    </article>
  );
}

function TurnFoot(props: { context: ChatContext; turn: Turn; isLast: boolean }): JSX.Element {
  const details = () => {
    const { duration: ms, usage } = props.turn;
    return [ms !== undefined && ms >= 1000 ? duration(ms) : "", usage ? usageText(usage) : "", usage?.model ?? ""]
      .filter((text) => text !== "")
      .join(" · ");
  };
  const edited = () =>
    props.turn.responseParts.some((part) => {
      const contents = part.kind === "toolCall" && part.toolCall.status === "completed" ? part.toolCall.content : undefined;
      return contents?.some((content) => content.type === "fileEdit" || content.type === "terminal") === true;
    });
  const resumable = () => {
    const last = props.turn.responseParts.at(-1);
    return props.isLast && props.turn.state === "error" && last?.kind === "error" && last.resumable === true;
  };
  const fork = async () => {
    const { host, session, chat } = props.context;
    const forked = `ahp-chat:/${crypto.randomUUID()}`;
    try {
      const source = { kind: "fork", chat, turnId: props.turn.id };
      await host.client.request("createChat", { channel: session, chat: forked, source });
      go({ page: "session", session, chat: forked });
    } catch (error) {
      report("The chat could not be forked")(error);
    }
  };
  const resume = () => {
    const { host, chat } = props.context;
    const action = { type: "chat/turnResume" as const, turnId: props.turn.id };
    host.dispatch(chat, action).catch(report("The turn could not be resumed"));
  };
  return (
    <footer class="turn-foot">
      <Show when={resumable() && props.context.canWrite}>
        <button class="button" onClick={resume}>
          Continue
        </button>
      </Show>
      <span>{details()}</span>
      <Show when={edited()}>
        <a
          class="link"
          href={href({ page: "session", session: props.context.session, chat: props.context.chat, changes: { turn: props.turn.id } })}
        >
          Changes
        </a>
      </Show>
      <Show when={props.context.canFork}>
        <button class="icon-button quiet" aria-label="Fork the chat after this turn" title="Fork" onClick={() => void fork()}>
          <Icon name="fork" />
        </button>
      </Show>
    </footer>
  );
}

export function ActiveTurnView(props: { context: ChatContext; turn: ActiveTurn; activity?: string }): JSX.Element {
  return (
    <article class="turn active" data-turn={props.turn.id} aria-busy="true">
      <UserMessage message={props.turn.message} />
      <div class="response">
        <Index each={props.turn.responseParts}>
          {(part, index) => (
            <Part
              context={props.context}
              part={part()}
              turnId={props.turn.id}
              running={true}
              isLast={index === props.turn.responseParts.length - 1}
            />
          )}
        </Index>
        <p class="working" role="status" classList={{ attention: waits(props.turn) }}>
          <span class="pulse" aria-hidden="true" />
          {waits(props.turn) ? "Waiting for you" : props.activity || "Working…"}
        </p>
      </div>
    </article>
  );
}

/** Whether something in the turn waits for the user. */
function waits(turn: ActiveTurn): boolean {
  return turn.responseParts.some((part) => {
    if (part.kind === "inputRequest") return part.response === undefined;
    if (part.kind !== "toolCall") return false;
    return ["pending-confirmation", "pending-result-confirmation", "auth-required"].includes(part.toolCall.status);
  });
}

function UserMessage(props: { message: Message }): JSX.Element {
  const isUser = () => props.message.origin.kind === "user";
  return (
    <div class="said" classList={{ system: !isUser() }}>
      <Show when={props.message.text}>
        <p>{props.message.text}</p>
      </Show>
      <Attachments attachments={props.message.attachments ?? []} />
    </div>
  );
}

function Part(props: {
  context: ChatContext;
  part: ResponsePart;
  turnId: string;
  running: boolean;
  isLast?: boolean;
}): JSX.Element {
  const of = <K extends ResponsePart["kind"]>(kind: K) =>
    props.part.kind === kind ? (props.part as Extract<ResponsePart, { kind: K }>) : undefined;
  return (
    <Switch>
      <Match when={of("markdown")}>
        {(part) => <Markdown text={part().content} streaming={props.running && props.isLast} />}
      </Match>
      <Match when={of("reasoning")}>
        {(part) => (
          <Show when={part().content.trim()}>
            <details class="reasoning">
              <summary>
                <Icon name="thought" /> {props.running && props.isLast ? "Thinking…" : "Thought"}
              </summary>
              <Markdown text={part().content} streaming={props.running && props.isLast} />
            </details>
          </Show>
        )}
      </Match>
      <Match when={of("toolCall")}>
        {(part) => <ToolCall context={props.context} call={part().toolCall} turnId={props.turnId} />}
      </Match>
      <Match when={of("inputRequest")}>
        {(part) => (
          <Show
            when={part().response === undefined && props.running}
            fallback={<AnsweredQuestion part={part()} />}
          >
            <QuestionForm
              request={part().request}
              canWrite={props.context.canWrite}
              answer={(action) =>
                void props.context.host
                  .dispatch(props.context.chat, action)
                  .catch(report("The answer was not accepted"))
              }
            />
          </Show>
        )}
      </Match>
      <Match when={of("systemNotification")}>
        {(part) => (
          <p class="notification">
            <Inline text={part().content} />
          </p>
        )}
      </Match>
      <Match when={of("contentRef")}>
        {(part) => <Content context={props.context} reference={part()} />}
      </Match>
      <Match when={of("error")}>
        {(part) => (
          <div class="turn-error" role="alert">
            <strong>The turn ended with an error</strong>
            <p>{plainText(part().error.message)}</p>
          </div>
        )}
      </Match>
    </Switch>
  );
}
