// Short messages at the edge of the page: errors, and actions that can be undone.

import { createSignal } from "solid-js";

export interface Notice {
  id: number;
  kind: "info" | "error";
  text: string;
  action?: { label: string; run(): void };
}

const [notices, setNotices] = createSignal<Notice[]>([]);
let next = 1;

export { notices };

export function dismiss(id: number): void {
  setNotices((all) => all.filter((notice) => notice.id !== id));
}

export function notify(notice: Omit<Notice, "id">): void {
  const id = next;
  next += 1;
  setNotices((all) => [...all.slice(-2), { ...notice, id }]);
  setTimeout(() => dismiss(id), notice.kind === "error" ? 12_000 : 8_000);
}

/** Shows why something failed. */
export function report(what: string): (error: unknown) => void {
  return (error) => notify({ kind: "error", text: `${what}: ${error instanceof Error ? error.message : String(error)}` });
}
