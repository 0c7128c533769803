// Cards for tool calls that wait: for a decision, for a look at the result, or for a sign-in.

import { For, Show, createEffect, createMemo, createSignal } from "solid-js";
import type { JSX } from "solid-js";
import type {
  ConfirmationOption,
  ToolCallAuthRequiredState,
  ToolCallPendingConfirmationState,
  ToolCallPendingResultConfirmationState,
} from "../ahp/types.gen";
import { ROOT } from "../ahp/client";
import { report } from "../app/notices";
import { plainText } from "../app/words";
import type { ChatContext } from "./ChatView";
import { ToolContents } from "./Content";
import { Diff } from "./Diff";
import { Inline } from "./Markdown";
import { InputView } from "./ToolCall";
import { Icon } from "./icons";

const DEFAULT_OPTIONS: ConfirmationOption[] = [
  { id: "", label: "Allow once", kind: "approve" },
  { id: "", label: "Deny", kind: "deny" },
];

export function Approval(props: {
  context: ChatContext;
  call: ToolCallPendingConfirmationState;
  turnId: string;
}): JSX.Element {
  const original = () => (typeof props.call.toolInput === "string" ? props.call.toolInput : undefined);
  const [input, setInput] = createSignal<string>();
  const [reason, setReason] = createSignal("");
  const [denying, setDenying] = createSignal(false);
  const [decided, setDecided] = createSignal(false);
  createEffect(() => {
    // Another state of the call, such as a second question about it, is decided anew.
    void props.call;
    setDecided(false);
  });
  const options = createMemo(() => props.call.options ?? DEFAULT_OPTIONS);
  const approvals = createMemo(() => options().filter((option) => option.kind !== "deny"));
  /** The choices of the first group decide this call alone; the others also decide later ones. */
  const first = createMemo(() => approvals().filter((option) => option.group === approvals()[0]?.group));
  const lasting = createMemo(() => approvals().filter((option) => option.group !== approvals()[0]?.group));
  const denial = () => options().find((option) => option.kind === "deny");

  const decide = (option: ConfirmationOption | undefined, approved: boolean) => {
    setDecided(true);
    const edited = input();
    props.context.host
      .dispatch(props.context.chat, {
        type: "chat/toolCallConfirmed",
        turnId: props.turnId,
        toolCallId: props.call.toolCallId,
        approved,
        ...(approved ? { confirmed: "user-action" as const } : { reason: "denied" as const }),
        ...(option?.id && { selectedOptionId: option.id }),
        ...(approved && edited !== undefined && edited !== original() && { editedToolInput: edited }),
        ...(!approved && reason().trim() && { reasonMessage: reason().trim() }),
      })
      .catch((error: unknown) => {
        setDecided(false);
        report("The decision was not accepted")(error);
      });
  };

  return (
    <section class="card waits" aria-label="Approval needed">
      <h3>
        <Icon name="key" />
        <Inline text={props.call.confirmationTitle ?? props.call.displayName} />
      </h3>
      <p class="what">
        <Inline text={props.call.invocationMessage} />
      </p>
      <Show when={props.call.intention}>{(intention) => <p class="muted">{intention()}</p>}</Show>
      <Show
        when={props.call.editable && original() !== undefined && input() !== undefined}
        fallback={<InputView context={props.context} input={props.call.toolInput} />}
      >
        <textarea
          class="input"
          aria-label="Input of the tool"
          rows={Math.min(12, (input() ?? "").split("\n").length + 1)}
          value={input()}
          onInput={(event) => setInput(event.currentTarget.value)}
        />
      </Show>
      <Show when={props.call.riskAssessment}>
        {(risk) => (
          <p class="risk">
            <Show when={risk().status === "complete" && risk()} fallback="The risk is being judged…">
              {(complete) => {
                const known = complete();
                return known.status === "complete" ? (
                  <>
                    <strong>{riskWord(known.safety)}</strong> <Inline text={known.reason} />
                  </>
                ) : null;
              }}
            </Show>
          </p>
        )}
      </Show>
      <For each={props.call.edits?.items ?? []}>{(edit) => <Diff context={props.context} edit={edit} open={true} />}</For>
      <Show when={props.context.canWrite}>
        <fieldset class="options" disabled={decided()}>
          <legend class="sr-only">Decide</legend>
          <div class="option-row">
            <For each={first()}>
              {(option, index) => (
                <button class="button" classList={{ primary: index() === 0 }} onClick={() => decide(option, true)}>
                  <Inline text={{ markdown: option.label }} />
                </button>
              )}
            </For>
            <button class="button danger" onClick={() => decide(denial(), false)}>
              {denial()?.label ?? "Deny"}
            </button>
            <span class="spacer" />
            <Show when={props.call.editable && original() !== undefined && input() === undefined}>
              <button class="button quiet" onClick={() => setInput(original())}>
                Edit the input
              </button>
            </Show>
            <button class="button quiet" aria-expanded={denying()} onClick={() => setDenying(!denying())}>
              Deny with a reason…
            </button>
          </div>
          <Show when={denying()}>
            <div class="with-button">
              <input
                aria-label="Reason for the denial"
                placeholder="What should be done instead?"
                value={reason()}
                onInput={(event) => setReason(event.currentTarget.value)}
              />
              <button class="button danger" disabled={!reason().trim()} onClick={() => decide(denial(), false)}>
                Deny
              </button>
            </div>
          </Show>
          <Show when={lasting().length > 0}>
            <div class="lasting">
              <p class="muted small">And do not ask again</p>
              <For each={lasting()}>
                {(option) => (
                  <button class="button" onClick={() => decide(option, true)}>
                    <Inline text={{ markdown: option.label }} />
                  </button>
                )}
              </For>
            </div>
          </Show>
        </fieldset>
      </Show>
    </section>
  );
}

function riskWord(safety: number): string {
  if (safety >= 0.75) return "Low risk.";
  return safety >= 0.4 ? "Some risk." : "High risk.";
}

export function ResultApproval(props: {
  context: ChatContext;
  call: ToolCallPendingResultConfirmationState;
  turnId: string;
}): JSX.Element {
  const decide = (approved: boolean) => {
    const { toolCallId } = props.call;
    props.context.host
      .dispatch(props.context.chat, { type: "chat/toolCallResultConfirmed", turnId: props.turnId, toolCallId, approved })
      .catch(report("The decision was not accepted"));
  };
  return (
    <section class="card waits" aria-label="Result to look at">
      <h3>
        <Icon name="key" /> Give this result to the model?
      </h3>
      <p class="what">
        <Inline text={props.call.pastTenseMessage} />
      </p>
      <ToolContents context={props.context} contents={props.call.content ?? []} />
      <Show when={props.context.canWrite}>
        <div class="buttons">
          <button class="button danger" onClick={() => decide(false)}>
            Keep it back
          </button>
          <button class="button primary" onClick={() => decide(true)}>
            Give it to the model
          </button>
        </div>
      </Show>
    </section>
  );
}

export function SignIn(props: { context: ChatContext; call: ToolCallAuthRequiredState; turnId: string }): JSX.Element {
  const [token, setToken] = createSignal("");
  const resource = () => props.call.auth.resource;
  const send = (event: Event) => {
    event.preventDefault();
    props.context.host.client
      .request("authenticate", { channel: ROOT, resource: resource().resource, token: token().trim() })
      .then(() => setToken(""), report("The token was not accepted"));
  };
  const giveUp = () => {
    const { toolCallId } = props.call;
    const result = { success: false, pastTenseMessage: "Not signed in", error: { message: "the user did not sign in" } };
    props.context.host
      .dispatch(props.context.chat, { type: "chat/toolCallComplete", turnId: props.turnId, toolCallId, result })
      .catch(report("The call could not be given up"));
  };
  return (
    <section class="card waits" aria-label="Sign-in needed">
      <h3>
        <Icon name="key" /> Sign in to {resource().resource_name ?? resource().resource}
      </h3>
      <p>{props.call.auth.description ?? plainText(props.call.invocationMessage)}</p>
      <p class="muted small">
        On the machine of the host, <code>innkeeper mcp auth</code> signs in with a browser. A token can be pasted here as
        well.
      </p>
      <Show when={props.context.canWrite}>
        <form class="with-button" onSubmit={send}>
          <input
            type="password"
            autocomplete="off"
            aria-label="Token"
            placeholder="Token"
            value={token()}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
          <button class="button primary" disabled={!token().trim()}>
            Sign in
          </button>
          <button type="button" class="button" onClick={giveUp}>
            Give up
          </button>
        </form>
      </Show>
    </section>
  );
}
