// The list of keyboard shortcuts.

import { For } from "solid-js";
import type { JSX } from "solid-js";
import { Dialog } from "./Dialog";

const SHORTCUTS: [string, string][] = [
  ["n", "New session"],
  ["w", "What waits for me"],
  ["j, k", "Next or previous session"],
  ["/ or Ctrl K", "Search sessions"],
  ["i", "Write a message"],
  ["Enter", "Send; while the agent works, queue"],
  ["Ctrl Enter", "Steer the running turn"],
  ["Shift Enter", "New line"],
  ["Esc", "Leave a field, close a dialog"],
  ["?", "This list"],
];

export function Shortcuts(props: { open: boolean; close(): void }): JSX.Element {
  return (
    <Dialog open={props.open} close={props.close} title="Keyboard shortcuts">
      <dl class="shortcuts">
        <For each={SHORTCUTS}>
          {([keys, what]) => (
            <>
              <dt>
                <kbd>{keys}</kbd>
              </dt>
              <dd>{what}</dd>
            </>
          )}
        </For>
      </dl>
    </Dialog>
  );
}
