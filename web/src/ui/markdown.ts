// Markdown of agents as HTML that is safe to show: parsed by marked, then cleaned by DOMPurify.
//
// The policy of the page already forbids scripts, foreign images and foreign styles; what is left here keeps text from
// looking like a part of the app.

import DOMPurify from "dompurify";
import { Marked } from "marked";

const marked = new Marked({
  gfm: true,
  breaks: false,
  renderer: {
    // An image of another server would tell that server who reads; the policy blocks it, so the link is shown.
    image({ href, text }) {
      if (/^data:image\/(png|jpeg|gif|webp);base64,/i.test(href)) return `<img src="${escape(href)}" alt="${escape(text)}">`;
      return `<a href="${escape(href)}">${escape(text || href)}</a>`;
    },
    // HTML in Markdown is shown as it was written.
    html({ text }) {
      return escape(text);
    },
  },
});

const ALLOWED = {
  ALLOWED_TAGS: [
    ..."p br hr h1 h2 h3 h4 h5 h6 strong em del s code pre blockquote ul ol li a img table thead tbody tr th td".split(" "),
    "input",
    "span",
  ],
  ALLOWED_ATTR: ["href", "src", "alt", "class", "start", "align", "type", "checked", "disabled"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|data:image\/(?:png|jpeg|gif|webp);base64,)/i,
};

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer");
  }
  if (node.tagName === "INPUT" && node.getAttribute("type") !== "checkbox") node.remove();
  const names = node.getAttribute("class");
  if (names !== null && !/^(?:language-[\w+#.-]+|hljs[\w -]*)$/.test(names)) node.removeAttribute("class");
});

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

export function markdownToHtml(text: string): string {
  return sanitize(marked.parse(text, { async: false }));
}

export function sanitize(html: string): string {
  return DOMPurify.sanitize(html, ALLOWED);
}

/** Shortest text that is split while it streams. */
const SPLIT_FROM = 1500;

/**
 * Splits streaming text into blocks that will not change any more, and the rest. Only the rest is parsed again with every
 * frame, so a long answer costs no more than a short one.
 */
export function splitSettled(text: string): string[] {
  if (text.length < SPLIT_FROM) return [text];
  const blocks: string[] = [];
  let start = 0;
  let fence: string | undefined;
  let at = 0;
  while (at < text.length) {
    const end = text.indexOf("\n", at);
    const line = text.slice(at, end < 0 ? text.length : end);
    const mark = /^ {0,3}(```+|~~~+)/.exec(line)?.[1];
    if (mark && fence === undefined) fence = mark;
    else if (mark && fence !== undefined && mark.startsWith(fence)) fence = undefined;
    if (end < 0) break;
    at = end + 1;
    // A blank line outside of code ends a block, unless an indented line or a list goes on after it.
    const next = text.slice(at, at + 3);
    const ends = line.trim() === "" && fence === undefined && next !== "" && !/^(?:\s|[-*+>|]|\d)/.test(next);
    if (ends && at - start > 400) {
      blocks.push(text.slice(start, at));
      start = at;
    }
  }
  blocks.push(text.slice(start));
  return blocks;
}
