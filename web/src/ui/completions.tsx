// Completions of the message field: files after `@`, commands after `/`, as the host offers them.

import { For, createSignal } from "solid-js";
import type { Accessor, JSX } from "solid-js";
import type { CompletionItem, CompletionsResult, MessageAttachment } from "../ahp/types.gen";
import type { ChatContext } from "./ChatView";

/** How long the user pauses before the host is asked. */
const PAUSE_MS = 120;

export interface Completions {
  items: Accessor<CompletionItem[]>;
  update(): void;
  /** Returns whether the key was for the list. */
  key(event: KeyboardEvent): boolean;
  list(): JSX.Element;
  attributes(): Record<string, string | boolean | undefined>;
}

export function createCompletions(
  context: ChatContext,
  field: () => HTMLTextAreaElement,
  text: Accessor<string>,
  insert: (text: string, attachment: MessageAttachment | undefined) => void,
): Completions {
  const [items, setItems] = createSignal<CompletionItem[]>([]);
  const [chosen, setChosen] = createSignal(0);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let asked = 0;

  const ask = async () => {
    const offset = field().selectionStart;
    const value = text();
    const word = /\S*$/.exec(value.slice(0, offset))?.[0] ?? "";
    const triggers = context.host.client.host?.completionTriggerCharacters ?? ["@", "/"];
    asked += 1;
    const mine = asked;
    if (!triggers.some((trigger) => word.startsWith(trigger))) {
      setItems([]);
      return;
    }
    const params = { channel: context.chat, kind: "userMessage", text: value, offset };
    const result = await context.host.client.request<CompletionsResult>("completions", params).catch(() => undefined);
    if (mine !== asked) return;
    setItems(result?.items.slice(0, 8) ?? []);
    setChosen(0);
  };
  const take = (item: CompletionItem) => {
    const value = text();
    const caret = field().selectionStart;
    const start = item.rangeStart ?? caret - (/\S*$/.exec(value.slice(0, caret))?.[0].length ?? 0);
    const end = item.rangeEnd ?? caret;
    const space = value.slice(end).startsWith(" ") ? "" : " ";
    insert(`${value.slice(0, start)}${item.insertText}${space}${value.slice(end)}`, attachmentOf(item));
    setItems([]);
    const position = start + item.insertText.length + 1;
    queueMicrotask(() => {
      field().focus();
      field().setSelectionRange(position, position);
    });
  };

  return {
    items,
    update: () => {
      clearTimeout(timer);
      timer = setTimeout(() => void ask(), PAUSE_MS);
    },
    key: (event) => {
      const list = items();
      if (list.length === 0) return false;
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      const item = list[chosen()];
      if (step) setChosen((chosen() + step + list.length) % list.length);
      else if ((event.key === "Enter" || event.key === "Tab") && item) take(item);
      else if (event.key === "Escape") setItems([]);
      else return false;
      event.preventDefault();
      return true;
    },
    list: () => (
      <ul class="completions" id="completions" role="listbox" aria-label="Completions">
        <For each={items()}>
          {(item, index) => (
            <li
              id={`completion-${index()}`}
              role="option"
              aria-selected={index() === chosen()}
              onPointerDown={(event) => {
                event.preventDefault();
                take(item);
              }}
            >
              <strong>{item.insertText}</strong>
              <span>{item.attachment.label !== item.insertText ? item.attachment.label : ""}</span>
            </li>
          )}
        </For>
      </ul>
    ),
    attributes: () => ({
      role: items().length > 0 ? "combobox" : undefined,
      "aria-expanded": items().length > 0 ? true : undefined,
      "aria-controls": items().length > 0 ? "completions" : undefined,
      "aria-activedescendant": items().length > 0 ? `completion-${chosen()}` : undefined,
    }),
  };
}

/** A command stands in the text; a file also comes with the message. */
function attachmentOf(item: CompletionItem): MessageAttachment | undefined {
  return item.attachment.type === "simple" ? undefined : item.attachment;
}
