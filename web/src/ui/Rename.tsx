// The dialog that renames a session.

import { createEffect, createSignal } from "solid-js";
import type { JSX } from "solid-js";
import { Dialog } from "./Dialog";

export function Rename(props: { title: string | undefined; close(): void; save(title: string): void }): JSX.Element {
  const [title, setTitle] = createSignal("");
  createEffect(() => setTitle(props.title ?? ""));
  return (
    <Dialog open={props.title !== undefined} close={props.close} title="Rename session">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (title().trim()) props.save(title().trim());
          props.close();
        }}
      >
        <label class="field">
          <span>Title</span>
          <input value={title()} maxlength={500} onInput={(event) => setTitle(event.currentTarget.value)} autofocus />
        </label>
        <div class="buttons">
          <button type="button" class="button" onClick={() => props.close()}>
            Cancel
          </button>
          <button class="button primary" disabled={!title().trim()}>
            Rename
          </button>
        </div>
      </form>
    </Dialog>
  );
}
