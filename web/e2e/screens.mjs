// Screenshots of every page, at three widths, in light and dark; two of them are shown in the documentation.
//
//   node e2e/screens.mjs FOLDER          all of them
//   node e2e/screens.mjs --docs          docs/images/web-chat.png and web-phone.png

import { mkdirSync } from "node:fs";
import { TestHost, launch } from "./host.mjs";

const docs = process.argv[2] === "--docs";
const folder = docs ? new URL("../../docs/images", import.meta.url).pathname : process.argv[2];
mkdirSync(folder, { recursive: true });
const WIDTHS = [
  [390, 844],
  [820, 1180],
  [1440, 900],
];

const host = await new TestHost().start();
const browser = await launch();
const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage();
await page.goto(host.link());
await page.getByRole("heading", { name: "Welcome to Innkeeper" }).waitFor();

async function newSession(text, title) {
  await page.evaluate(() => (location.hash = "#/new"));
  await page.getByLabel("First message").fill(text);
  await page.getByRole("button", { name: "Start session" }).click();
  await page.locator(".said").first().waitFor();
  if (title) {
    await page.locator(".turn.active").waitFor({ state: "detached" }).catch(() => {});
    const uri = await page.evaluate(() => decodeURIComponent(location.hash.split("/")[2]));
    await page.evaluate(([session, name]) => window.innkeeper.dispatch(session, { type: "session/titleChanged", title: name }), [uri, title]);
  }
  return page.evaluate(() => location.hash);
}

async function shoot(name, hash) {
  for (const [width, height] of docs ? [] : WIDTHS) {
    for (const colorScheme of ["light", "dark"]) await take(`${name}-${width}-${colorScheme}`, hash, width, height, colorScheme);
  }
}

async function take(name, hash, width, height, colorScheme) {
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme });
  await page.evaluate((to) => (location.hash = to), hash);
  await page.waitForTimeout(500);
  await page.screenshot({ path: `${folder}/${name}.png` });
}

await shoot("empty", "#/");
await newSession("/help", "Look around the inn");
const tools = await newSession("/reason The kitchen closes at ten, so supper comes first.", "Plan the evening");
for (const text of ["/tool", "/usage"]) {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.keyboard.press("Enter");
  await page.locator(".said", { hasText: text }).waitFor();
  await page.locator(".turn.active").waitFor({ state: "detached" });
}
const failed = await newSession("/error resumable", "Count the linen");
const question = await newSession("/ask");
const slow = await newSession("/slow 600");
await page.getByLabel("Message", { exact: true }).fill("Then tidy the cellar");
await page.keyboard.press("Enter");
const edit = await newSession("/edit menu.md Soup of the day: leek and potato");
await page.locator('.diff [data-kind="added"]').waitFor();
await page.locator(".scroller").evaluate((element) => (element.scrollTop = 0));

if (docs) {
  await take("web-chat", edit, 1100, 720, "light");
  await take("web-phone", "#/waiting", 390, 720, "dark");
} else {
  await shoot("list", "#/");
  await shoot("edit", edit);
  await shoot("question", question);
  await shoot("slow", slow);
  await shoot("tools", tools);
  await shoot("failed", failed);
  await shoot("waiting", "#/waiting");
  await shoot("new", "#/new");
}
await browser.close();
await host.stop();
