// One tool call: folded to a line, or a card while it waits for the user.

import { Match, Show, Switch, createMemo } from "solid-js";
import type { JSX } from "solid-js";
import type { ToolCallState, ToolInput } from "../ahp/types.gen";
import { plainText } from "../app/words";
import { Approval, ResultApproval, SignIn } from "./Approval";
import type { ChatContext } from "./ChatView";
import { Content, ToolContents } from "./Content";
import { Inline } from "./Markdown";
import { Icon } from "./icons";
import type { IconName } from "./icons";

export function ToolCall(props: { context: ChatContext; call: ToolCallState; turnId: string }): JSX.Element {
  const of = <K extends ToolCallState["status"]>(status: K) =>
    props.call.status === status ? (props.call as Extract<ToolCallState, { status: K }>) : undefined;
  return (
    <Switch fallback={<FoldedCall context={props.context} call={props.call} />}>
      <Match when={of("pending-confirmation")}>
        {(call) => <Approval context={props.context} call={call()} turnId={props.turnId} />}
      </Match>
      <Match when={of("pending-result-confirmation")}>
        {(call) => <ResultApproval context={props.context} call={call()} turnId={props.turnId} />}
      </Match>
      <Match when={of("auth-required")}>
        {(call) => <SignIn context={props.context} call={call()} turnId={props.turnId} />}
      </Match>
    </Switch>
  );
}

function FoldedCall(props: { context: ChatContext; call: ToolCallState }): JSX.Element {
  const message = createMemo(() => {
    const { call } = props;
    if (call.status === "completed") return call.pastTenseMessage;
    return call.invocationMessage ?? call.displayName;
  });
  const input = () => (props.call.status === "streaming" ? props.call.partialInput : props.call.toolInput);
  const contents = () => ("content" in props.call ? (props.call.content ?? []) : []);
  const state = () => {
    const { call } = props;
    if (call.status === "completed") return call.success ? "done" : "failed";
    return call.status === "cancelled" ? "cancelled" : "running";
  };
  const error = () => {
    const { call } = props;
    if (call.status !== "completed" || call.success) return undefined;
    const message = (call.error as { message?: unknown } | undefined)?.message;
    return typeof message === "string" ? message : undefined;
  };
  const words = { done: "", failed: "failed", cancelled: "not run", running: "running" };
  return (
    <details class="tool" data-state={state()}>
      <summary>
        <Icon name={iconOf(props.call)} />
        <span class="tool-message">
          <Show when={plainText(message())} fallback={props.call.displayName}>
            <Inline text={message()} />
          </Show>
        </span>
        <Show when={words[state()]}>
          <span class="tool-state">{words[state()]}</span>
        </Show>
      </summary>
      <div class="tool-body">
        <Show when={allowedBy(props.call)}>{(why) => <p class="muted small">{why()}</p>}</Show>
        <Show when={props.call.status === "cancelled" && props.call.reasonMessage}>
          {(reason) => (
            <p class="muted">
              Reason: <Inline text={reason()} />
            </p>
          )}
        </Show>
        <InputView context={props.context} input={input()} />
        <Show when={error()}>{(text) => <p class="error">{text()}</p>}</Show>
        <ToolContents context={props.context} contents={contents()} />
      </div>
    </details>
  );
}

export function InputView(props: { context: ChatContext; input: ToolInput | undefined }): JSX.Element {
  return (
    <Switch>
      <Match when={typeof props.input === "string" && props.input !== "" && props.input !== "{}" && props.input}>
        {(text) => <pre class="input" tabindex="0">{readableInput(text())}</pre>}
      </Match>
      <Match when={typeof props.input === "object" && props.input}>
        {(reference) => <Content context={props.context} reference={reference()} />}
      </Match>
    </Switch>
  );
}

/** Shows an object with one text as that text, and other JSON indented. */
export function readableInput(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null) return text;
    const entries = Object.entries(value);
    if (entries.length === 1 && typeof entries[0]?.[1] === "string") return entries[0][1];
    return JSON.stringify(value, null, 2);
  } catch {
    return text;
  }
}

function iconOf(call: ToolCallState): IconName {
  switch (call._meta?.toolKind) {
    case "terminal":
      return "terminal";
    case "read":
      return "file";
    case "search":
      return "search";
    case "subagent":
      return "agents";
    default:
      return "tool";
  }
}

/** Says why a call ran without a question. */
function allowedBy(call: ToolCallState): string | undefined {
  const approval = call._meta?.["innkeeper.approval"] as Record<string, unknown> | undefined;
  if (typeof approval?.rule === "string" && call.status !== "pending-confirmation") {
    return `Allowed by the rule ${approval.rule} (${String(approval.scope)})`;
  }
  if (approval?.setting) return "Allowed by a setting of the session";
  return approval?.hook === true ? "Allowed by a hook" : undefined;
}
