// A menu behind a button with three dots.

import { For, Show, createSignal, onCleanup } from "solid-js";
import type { JSX } from "solid-js";
import { Icon } from "./icons";
import type { IconName } from "./icons";

export interface MenuItem {
  label: string;
  icon: IconName;
  danger?: boolean;
  run(): void;
}

export function Menu(props: { label: string; items: MenuItem[] }): JSX.Element {
  const [open, setOpen] = createSignal(false);
  let root!: HTMLDivElement;
  const buttons = () => [...root.querySelectorAll<HTMLButtonElement>('[role="menuitem"]')];
  const leave = (event: Event) => {
    if (!root.contains(event.target as Node)) setOpen(false);
  };
  document.addEventListener("pointerdown", leave);
  onCleanup(() => document.removeEventListener("pointerdown", leave));

  const keys = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") {
      setOpen(false);
      root.querySelector("button")?.focus();
    } else if (step) {
      const all = buttons();
      const index = all.indexOf(document.activeElement as HTMLButtonElement);
      all[(index + step + all.length) % all.length]?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <div class="menu" ref={root} onKeyDown={keys}>
      <button
        class="icon-button"
        aria-label={props.label}
        aria-haspopup="menu"
        aria-expanded={open()}
        onClick={(event) => {
          event.preventDefault();
          setOpen(!open());
          if (open()) queueMicrotask(() => buttons()[0]?.focus());
        }}
      >
        <Icon name="more" />
      </button>
      <Show when={open()}>
        <div class="menu-items" role="menu">
          <For each={props.items}>
            {(item) => (
              <button
                role="menuitem"
                classList={{ danger: item.danger }}
                onClick={(event) => {
                  event.preventDefault();
                  setOpen(false);
                  item.run();
                }}
              >
                <Icon name={item.icon} />
                {item.label}
              </button>
            )}
          </For>
        </div>
      </Show>
    </div>
  );
}
