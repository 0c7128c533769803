// Icons as shapes of 24 units, drawn with the colour of the text.

import type { JSX } from "solid-js";

const PATHS = {
  plus: "M12 5v14M5 12h14",
  search: "M11 4a7 7 0 1 1 0 14 7 7 0 0 1 0-14zm9 16-4-4",
  back: "m14 6-6 6 6 6",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  stop: "M8 8h8v8H8z",
  send: "M12 19V5m-6 6 6-6 6 6",
  bell: "M18 9a6 6 0 0 0-12 0c0 6-2 7-2 7h16s-2-1-2-7M10 20a2 2 0 0 0 4 0",
  check: "m5 13 4 4L19 7",
  cross: "M6 6l12 12M18 6 6 18",
  folder: "M4 6h5l2 2h9v10a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1z",
  tool: "m14 7 3-3 3 3-3 3M4 20l10-10 2 2L6 22z",
  terminal: "m5 7 5 5-5 5M12 18h7",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  thought: "M12 4a6 6 0 0 1 4 10.5V18H8v-3.5A6 6 0 0 1 12 4zM9 21h6",
  chevron: "m9 6 6 6-6 6",
  archive: "M4 5h16v4H4zM6 9v10h12V9M10 13h4",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  pencil: "M4 20l1-4L16 5l3 3L8 19z",
  fork: "M7 8a2 2 0 1 0 0-4 2 2 0 0 0 0 4zm0 12a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM17 8a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM7 8v8M17 8c0 4-4 4-10 8",
  key: "M12 3 5 6v5c0 5 3 8 7 10 4-2 7-5 7-10V6zM9 12l2 2 4-4",
  clip: "m8 12 6-6a3 3 0 0 1 4 4l-8 8a5 5 0 0 1-7-7l8-8",
  wifi: "M4 9a12 12 0 0 1 16 0M7 13a7 7 0 0 1 10 0M12 18h.01",
  inbox: "M4 13 7 5h10l3 8v6H4zM4 13h5l1 2h4l1-2h5",
  agents: "M12 4a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM5 20c0-4 3-6 7-6s7 2 7 6",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon(props: { name: IconName; label?: string }): JSX.Element {
  return (
    <svg
      class="icon"
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width={props.name === "more" ? 3 : 1.75}
      stroke-linecap="round"
      stroke-linejoin="round"
      role={props.label ? "img" : undefined}
      aria-label={props.label}
      aria-hidden={props.label ? undefined : "true"}
    >
      <path d={PATHS[props.name]} />
    </svg>
  );
}
