// A modal dialog: the browser's own, which traps the focus and closes with Escape.

import { Show, createEffect } from "solid-js";
import type { JSX } from "solid-js";
import { Icon } from "./icons";

export function Dialog(props: { open: boolean; close(): void; title: string; children: JSX.Element }): JSX.Element {
  let dialog!: HTMLDialogElement;
  createEffect(() => {
    if (props.open && !dialog.open) dialog.showModal();
    else if (!props.open && dialog.open) dialog.close();
  });
  return (
    <dialog
      ref={dialog}
      aria-label={props.title}
      onClose={() => props.close()}
      onClick={(event) => {
        if (event.target === dialog) props.close();
      }}
    >
      <Show when={props.open}>
        <div class="dialog">
          <header>
            <h2>{props.title}</h2>
            <button class="icon-button" aria-label="Close" onClick={() => props.close()}>
              <Icon name="cross" />
            </button>
          </header>
          {props.children}
        </div>
      </Show>
    </dialog>
  );
}
