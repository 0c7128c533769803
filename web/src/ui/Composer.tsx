// The field for messages: sends, queues, steers and stops; keeps a draft that other devices see.

import { For, Show, createEffect, createMemo, createSignal, on, onCleanup } from "solid-js";
import type { Accessor, JSX } from "solid-js";
import type { ChatState, Message, MessageAttachment, PendingMessageKind } from "../ahp/types.gen";
import { notify, report } from "../app/notices";
import { pend, send as sendMessage } from "../app/sending";
import { userMessage } from "../app/session";
import { Attachments } from "./Attachments";
import type { ChatContext } from "./ChatView";
import { createCompletions } from "./completions";
import { readFiles } from "./files";
import { Icon } from "./icons";

/** How long the user pauses before other devices get the draft. */
const DRAFT_MS = 600;

export function Composer(props: {
  context: ChatContext;
  chat: Accessor<ChatState | undefined>;
  agent: Accessor<string | undefined>;
}): JSX.Element {
  const { host, chat: uri, session } = props.context;
  const key = `draft:${uri}`;
  const [text, setText] = createSignal(sessionStorage.getItem(key) ?? "");
  const [attachments, setAttachments] = createSignal<MessageAttachment[]>([]);
  const [model, setModel] = createSignal(sessionStorage.getItem(`model:${session}`) ?? "");
  const [dragging, setDragging] = createSignal(false);
  let field!: HTMLTextAreaElement;
  let timer: ReturnType<typeof setTimeout> | undefined;
  /** The draft as this device last sent or saw it. */
  let shared: string | undefined;

  const active = () => props.chat()?.activeTurn;
  const models = createMemo(() => {
    const agent = host.root()?.agents.find((other) => other.provider === props.agent());
    return agent?.models ?? [];
  });
  const completions = createCompletions(props.context, () => field, text, (next, attachment) => {
    edit(next);
    if (attachment) setAttachments((known) => [...known, attachment]);
  });

  // A draft of another device replaces this one unless the user types here.
  createEffect(
    on(
      () => props.chat()?.draft?.text,
      (draft) => {
        if (props.chat() === undefined || draft === shared) return;
        const untouched = text() === (shared ?? "") || (shared === undefined && text() === "");
        shared = draft;
        if (untouched) setText(draft ?? "");
      },
    ),
  );
  createEffect(() => {
    text();
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight, window.innerHeight * 0.4)}px`;
  });

  const share = (next: string) => {
    clearTimeout(timer);
    if (next === (shared ?? "")) return;
    shared = next === "" ? undefined : next;
    const draft = next === "" ? undefined : userMessage(next);
    // A draft that is lost is still here.
    host.dispatch(uri, { type: "chat/draftChanged", draft }).catch(() => undefined);
  };
  const edit = (next: string) => {
    setText(next);
    sessionStorage.setItem(key, next);
    clearTimeout(timer);
    timer = setTimeout(() => share(next), DRAFT_MS);
  };
  onCleanup(() => {
    if (timer !== undefined) share(text());
  });

  const message = (): Message | undefined => {
    const trimmed = text().trim();
    if (!trimmed && attachments().length === 0) return undefined;
    return userMessage(trimmed, {
      ...(attachments().length > 0 && { attachments: attachments() }),
      ...(model() && { model: { id: model() } }),
    });
  };
  const clear = () => {
    setText("");
    setAttachments([]);
    sessionStorage.removeItem(key);
    share("");
  };
  const putBack = (message: Message) => {
    edit([message.text, text()].filter(Boolean).join("\n\n"));
    setAttachments((known) => [...(message.attachments ?? []), ...known]);
  };
  /** Clears the field at once. A message that the host refuses comes back into it. */
  const submit = (send: (message: Message) => Promise<void>) => {
    const sent = message();
    if (!sent) return;
    clear();
    send(sent).catch((error: unknown) => {
      const reason = error instanceof Error ? error.message : String(error);
      const text = `The message was not accepted: ${reason}`;
      if (message() === undefined) {
        putBack(sent);
        notify({ kind: "error", text });
      } else {
        notify({ kind: "error", text, action: { label: "Put it back", run: () => putBack(sent) } });
      }
    });
  };
  const send = () => submit((message) => sendMessage(host, session, uri, message));
  const steer = () => submit((message) => pend(host, uri, "steering", message));
  const stop = () => {
    const turn = active();
    if (!turn) return;
    const elapsed = Math.max(0, Date.now() - Date.parse(turn.startedAt));
    host
      .dispatch(uri, { type: "chat/turnCancelled", turnId: turn.id, duration: elapsed })
      .catch(report("The turn could not be stopped"));
  };
  const add = async (files: Iterable<File>) => {
    const read = await readFiles([...files]).catch((error: unknown) => {
      report("The file could not be attached")(error);
      return [];
    });
    setAttachments((known) => [...known, ...read]);
  };

  return (
    <div
      class="composer"
      classList={{ dragging: dragging() }}
      onDragOver={(event) => {
        event.preventDefault();
        setDragging(true);
      }}
      onDragLeave={() => setDragging(false)}
      onDrop={(event) => {
        event.preventDefault();
        setDragging(false);
        void add(event.dataTransfer?.files ?? []);
      }}
    >
      <Pending context={props.context} chat={props.chat} edit={putBack} />
      <Show when={completions.items().length > 0}>{completions.list()}</Show>
      <div class="composer-box">
        <Attachments
          attachments={attachments()}
          remove={(index) => setAttachments((known) => known.filter((_, at) => at !== index))}
        />
        <textarea
          id="composer"
          ref={field}
          rows={1}
          aria-label="Message"
          placeholder={active() ? "Queue a message" : "Message, @ for files, / for commands"}
          value={text()}
          onInput={(event) => {
            edit(event.currentTarget.value);
            completions.update();
          }}
          onPaste={(event) => {
            const files = event.clipboardData?.files;
            if (files && files.length > 0) {
              event.preventDefault();
              void add(files);
            }
          }}
          onKeyDown={(event) => {
            if (completions.key(event)) return;
            if (event.key === "Escape") field.blur();
            if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            if ((event.ctrlKey || event.metaKey) && active()) steer();
            else send();
          }}
          {...completions.attributes()}
        />
        <div class="composer-bar">
          <label class="icon-button" title="Attach files">
            <Icon name="clip" label="Attach files" />
            <input
              type="file"
              multiple
              class="sr-only"
              onChange={(event) => {
                void add(event.currentTarget.files ?? []);
                event.currentTarget.value = "";
              }}
            />
          </label>
          <Show when={models().length > 1}>
            <select
              class="quiet"
              aria-label="Model"
              value={model()}
              onChange={(event) => {
                setModel(event.currentTarget.value);
                sessionStorage.setItem(`model:${session}`, event.currentTarget.value);
              }}
            >
              <option value="">Default model</option>
              <For each={models()}>{(entry) => <option value={entry.id}>{entry.name}</option>}</For>
            </select>
          </Show>
          <span class="spacer" />
          <Show when={active()}>
            <Show when={message()}>
              <button class="button quiet" onClick={() => steer()}>
                Steer
              </button>
            </Show>
            <button class="button stop" aria-label="Stop" title="Stop" onClick={stop}>
              <Icon name="stop" /> Stop
            </button>
          </Show>
          <button class="send" aria-label={active() ? "Queue" : "Send"} disabled={!message()} onClick={send}>
            <Icon name="send" />
          </button>
        </div>
      </div>
    </div>
  );
}

/** Messages that wait: for the next turn, or for the agent to look up. */
function Pending(props: {
  context: ChatContext;
  chat: Accessor<ChatState | undefined>;
  edit(message: Message): void;
}): JSX.Element {
  const entries = createMemo(() => {
    const chat = props.chat();
    const steering = chat?.steeringMessage ? [{ kind: "steering" as const, ...chat.steeringMessage }] : [];
    return [...steering, ...(chat?.queuedMessages ?? []).map((entry) => ({ kind: "queued" as const, ...entry }))];
  });
  // After a stopped or failed turn the host starts nothing by itself.
  const canStart = () => props.chat() !== undefined && props.chat()?.activeTurn === undefined;
  const remove = (kind: PendingMessageKind, id: string) =>
    props.context.host.dispatch(props.context.chat, { type: "chat/pendingMessageRemoved", kind, id });
  // Only the host takes messages out of the queue for a turn, so this is a message of its own.
  const start = async (id: string, message: Message) => {
    const { host, session, chat } = props.context;
    await remove("queued", id);
    await sendMessage(host, session, chat, message).catch((error: unknown) => {
      props.edit(message);
      throw error;
    });
  };
  return (
    <Show when={entries().length > 0}>
      <ul class="pending" aria-label="Messages that wait">
        <For each={entries()}>
          {(entry) => (
            <li>
              <span class="kind">{entry.kind === "steering" ? "Steers" : "Next"}</span>
              <span class="pending-text">{entry.message.text}</span>
              <Show when={canStart() && entry.kind === "queued"}>
                <button
                  class="button quiet"
                  onClick={() => void start(entry.id, entry.message).catch(report("The message was not sent"))}
                >
                  Send now
                </button>
              </Show>
              <button
                class="icon-button quiet"
                aria-label="Edit this message"
                onClick={() =>
                  void remove(entry.kind, entry.id).then(
                    () => props.edit(entry.message),
                    report("The message is on its way already"),
                  )
                }
              >
                <Icon name="pencil" />
              </button>
              <button
                class="icon-button quiet"
                aria-label="Remove this message"
                onClick={() => void remove(entry.kind, entry.id).catch(report("The message is on its way already"))}
              >
                <Icon name="cross" />
              </button>
            </li>
          )}
        </For>
      </ul>
    </Show>
  );
}
