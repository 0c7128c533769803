// Code highlighting, loaded when the first block of code is shown.

import type { HLJSApi } from "highlight.js";
import { sanitize } from "./markdown";

let loading: Promise<HLJSApi> | undefined;

/** Longest code that is highlighted: beyond it the page would stop for a moment. */
const MAX_LENGTH = 60_000;

/** Highlights all code below an element, and adds a button to each block that copies it. */
export function decorateCode(root: HTMLElement): void {
  for (const code of root.querySelectorAll<HTMLElement>("pre > code:not([data-done])")) {
    code.dataset.done = "";
    const block = code.parentElement;
    if (block && !block.querySelector("button")) block.append(copyButton(code));
    const language = /language-([\w+#.-]+)/.exec(code.className)?.[1];
    if (language && (code.textContent?.length ?? 0) < MAX_LENGTH) void highlight(code, language);
  }
}

async function highlight(code: HTMLElement, language: string): Promise<void> {
  loading ??= import("highlight.js/lib/common").then((module) => module.default);
  const hljs = await loading.catch(() => undefined);
  if (!hljs?.getLanguage(language)) return;
  const { value } = hljs.highlight(code.textContent ?? "", { language, ignoreIllegals: true });
  code.innerHTML = sanitize(value);
}

function copyButton(code: HTMLElement): HTMLButtonElement {
  const button = document.createElement("button");
  button.className = "copy";
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", () => {
    void navigator.clipboard?.writeText(code.textContent ?? "").then(() => {
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
  });
  return button;
}
