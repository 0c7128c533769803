// Contents of tool results: text, images, files before and after a change, terminals, subagents, and references.

import { For, Match, Show, Switch, createResource, createSignal } from "solid-js";
import type { JSX } from "solid-js";
import type { ContentRef, ResourceReadResult, ToolResultContent } from "../ahp/types.gen";
import { ROOT } from "../ahp/client";
import type { ChatContext } from "./ChatView";
import { href } from "../app/route";
import { plainText } from "../app/words";
import { Diff } from "./Diff";
import { Markdown } from "./Markdown";
import { Icon } from "./icons";

/** Most characters of a text that are shown at once. */
const MAX_TEXT = 100_000;

export async function readResource(context: ChatContext, uri: string): Promise<string> {
  const result = await context.host.client.request<ResourceReadResult>("resourceRead", {
    channel: ROOT,
    uri,
    encoding: "utf-8",
  });
  return result.data;
}

export function ToolContents(props: { context: ChatContext; contents: readonly ToolResultContent[] }): JSX.Element {
  const of = <K extends ToolResultContent["type"]>(content: ToolResultContent, type: K) =>
    content.type === type ? (content as Extract<ToolResultContent, { type: K }>) : undefined;
  return (
    <For each={props.contents}>
      {(content) => (
        <Switch>
          <Match when={of(content, "text")}>
            {(text) => <pre class="output" tabindex="0">{text().text.slice(0, MAX_TEXT)}</pre>}
          </Match>
          <Match when={of(content, "fileEdit")}>
            {(edit) => <Diff context={props.context} edit={edit()} />}
          </Match>
          <Match when={of(content, "embeddedResource")}>
            {(embedded) => (
              <Show
                when={/^image\/(?:png|jpeg|gif|webp)$/.test(embedded().contentType)}
                fallback={<p class="muted">Content of type {embedded().contentType}</p>}
              >
                <img class="result-image" src={`data:${embedded().contentType};base64,${embedded().data}`} alt="Result" />
              </Show>
            )}
          </Match>
          <Match when={of(content, "terminal")}>
            {(terminal) => (
              <p class="reference">
                <Icon name="terminal" /> {terminal().title}
              </p>
            )}
          </Match>
          <Match when={of(content, "subagent")}>
            {(subagent) => (
              <a
                class="reference"
                href={href({ page: "session", session: props.context.session, chat: subagent().resource })}
              >
                <Icon name="agents" /> {subagent().title || subagent().agentName || "Subagent"}
              </a>
            )}
          </Match>
          <Match when={of(content, "resource")}>
            {(reference) => <Content context={props.context} reference={reference()} />}
          </Match>
        </Switch>
      )}
    </For>
  );
}

/** A long content that is read when the user asks for it. */
export function Content(props: { context: ChatContext; reference: ContentRef }): JSX.Element {
  const [open, setOpen] = createSignal(false);
  const [text] = createResource(open, (wanted) => (wanted ? readResource(props.context, props.reference.uri) : ""));
  const isMarkdown = () => props.reference.contentType?.startsWith("text/markdown") === true;
  const size = () => (props.reference.sizeHint ? ` (${Math.ceil(props.reference.sizeHint / 1024)} KB)` : "");
  return (
    <details class="more" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <Icon name="file" /> Show all of it{size()}
      </summary>
      <Show when={!text.loading} fallback={<p class="muted">Loading…</p>}>
        <Show when={!text.error} fallback={<p class="error">{plainText(String(text.error))}</p>}>
          <Show when={isMarkdown()} fallback={<pre class="output" tabindex="0">{(text() ?? "").slice(0, MAX_TEXT)}</pre>}>
            <Markdown text={text() ?? ""} />
          </Show>
        </Show>
      </Show>
    </details>
  );
}
