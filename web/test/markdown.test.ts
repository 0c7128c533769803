// @vitest-environment jsdom
// Markdown of agents never becomes code, and never leaves its place.

import { expect, test } from "vitest";
import { markdownToHtml, splitSettled } from "../src/ui/markdown";

function dom(markdown: string): HTMLElement {
  const element = document.createElement("div");
  element.innerHTML = markdownToHtml(markdown);
  return element;
}

const ATTACKS = [
  "<script>steal()</script>",
  "<img src=x onerror=steal()>",
  '<a href="javascript:steal()">x</a>',
  "[x](javascript:steal())",
  "[x](JaVaScRiPt&colon;steal())",
  "[x](data:text/html,<script>steal()</script>)",
  "![x](x\" onerror=\"steal())",
  "<svg><animate onbegin=steal()></svg>",
  '<iframe srcdoc="<script>steal()</script>"></iframe>',
  "<style>body{display:none}</style>",
  '<p style="position:fixed;inset:0">x</p>',
  '<form action="https://evil.test"><input name=x></form>',
  "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=steal()&gt;\">",
  '<base href="https://evil.test/">',
  "```html\n<script>steal()</script>\n```",
  '`<img src=x onerror="steal()">`',
  '<div class="card waits">Approve?</div>',
];

test.each(ATTACKS)("harmless: %s", (attack) => {
  const element = dom(attack);
  expect(element.querySelector("script, style, iframe, form, svg, math, base, object, embed, button")).toBeNull();
  for (const node of element.querySelectorAll("*")) {
    for (const { name, value } of node.attributes) {
      expect(name.startsWith("on"), `${name} in ${element.innerHTML}`).toBe(false);
      expect(name === "style" || name === "id").toBe(false);
      if (name === "href") expect(value).toMatch(/^(https?:|mailto:)/);
      if (name === "src") expect(value).toMatch(/^data:image\/png/);
      if (name === "class") expect(value).toMatch(/^language-/);
    }
  }
});

test("links open elsewhere and do not tell where they come from", () => {
  const link = dom("[docs](https://example.com)").querySelector("a")!;
  expect(link.getAttribute("rel")).toBe("noopener noreferrer");
  expect(link.getAttribute("target")).toBe("_blank");
});

test("images of other servers become links", () => {
  expect(dom("![a cat](https://evil.test/cat.png)").querySelector("img")).toBeNull();
  expect(dom("![dot](data:image/png;base64,iVBORw0KGgo=)").querySelector("img")).not.toBeNull();
});

test("ordinary Markdown keeps its form", () => {
  const element = dom("# Title\n\n- [x] done\n- **bold** `code`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```rust\nfn main() {}\n```");
  expect(element.querySelector("h1")?.textContent).toBe("Title");
  expect(element.querySelectorAll("li").length).toBe(2);
  expect(element.querySelector("td")?.textContent).toBe("1");
  expect(element.querySelector("code.language-rust")?.textContent).toBe("fn main() {}\n");
});

test("streaming text is split between blocks, and nothing is lost", () => {
  const paragraph = `${"word ".repeat(100)}\n\n`;
  const code = `\`\`\`js\n${"line\n\n".repeat(120)}\`\`\`\n\n`;
  const text = paragraph.repeat(4) + code + paragraph.repeat(3) + "the end";
  const blocks = splitSettled(text);
  expect(blocks.join("")).toBe(text);
  expect(blocks.length).toBeGreaterThan(4);
  // No block begins or ends inside of code.
  for (const block of blocks) expect((block.match(/^```/gm) ?? []).length % 2).toBe(0);
  expect(splitSettled("short")).toEqual(["short"]);
});
