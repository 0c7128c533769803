// A text of an agent.

import { Index, Show, createEffect, createMemo } from "solid-js";
import type { JSX } from "solid-js";
import { decorateCode } from "./highlight";
import { markdownToHtml, splitSettled } from "./markdown";

export function Markdown(props: { text: string; streaming?: boolean }): JSX.Element {
  const blocks = createMemo(() => (props.streaming ? splitSettled(props.text) : [props.text]));
  return (
    <div class="markdown">
      <Index each={blocks()}>
        {(block, index) => <Block text={block()} settled={!props.streaming || index < blocks().length - 1} />}
      </Index>
    </div>
  );
}

function Block(props: { text: string; settled: boolean }): JSX.Element {
  let element!: HTMLDivElement;
  createEffect(() => {
    element.innerHTML = markdownToHtml(props.text);
    if (props.settled) decorateCode(element);
  });
  return <div ref={element} />;
}

/** A text that may be Markdown, in one line of running text. */
export function Inline(props: { text: string | { markdown: string } | undefined }): JSX.Element {
  let element!: HTMLSpanElement;
  createEffect(() => {
    const { text } = props;
    if (text === undefined || typeof text === "string") element.textContent = text ?? "";
    else element.innerHTML = markdownToHtml(text.markdown).replace(/^<p>|<\/p>\s*$/g, "");
  });
  return (
    <Show when={props.text !== undefined}>
      <span class="inline-text" ref={element} />
    </Show>
  );
}
