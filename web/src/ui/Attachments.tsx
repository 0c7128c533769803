// What came with a message.

import { For, Show } from "solid-js";
import type { JSX } from "solid-js";
import type { MessageAttachment } from "../ahp/types.gen";
import { Icon } from "./icons";

const IMAGE = /^image\/(?:png|jpeg|gif|webp)$/;

export function Attachments(props: { attachments: readonly MessageAttachment[]; remove?(index: number): void }): JSX.Element {
  return (
    <Show when={props.attachments.length > 0}>
      <ul class="attachments" aria-label="Attachments">
        <For each={props.attachments}>
          {(attachment, index) => (
            <li>
              <Show
                when={attachment.type === "embeddedResource" && IMAGE.test(attachment.contentType) && attachment}
                fallback={<Icon name={attachment.type === "chat" ? "inbox" : "file"} />}
              >
                {(image) => (
                  <img src={`data:${image().contentType};base64,${image().data}`} alt="" />
                )}
              </Show>
              <span>{attachment.label}</span>
              <Show when={props.remove}>
                {(remove) => (
                  <button class="icon-button quiet" aria-label={`Remove ${attachment.label}`} onClick={() => remove()(index())}>
                    <Icon name="cross" />
                  </button>
                )}
              </Show>
            </li>
          )}
        </For>
      </ul>
    </Show>
  );
}
