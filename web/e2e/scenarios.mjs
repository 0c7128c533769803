// Scenarios in Chromium against the real host and the tour agent.
//
//   node e2e/scenarios.mjs [--only NAME] [--shots FOLDER] [--dist FOLDER]
//
// With --dist the pages come from a build of the web app instead of the one that is compiled into the program.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { assertAccessible, assertConverged, watch } from "./check.mjs";
import { TestHost, launch, serveBuild } from "./host.mjs";

const DESKTOP = { width: 1280, height: 860 };
const PHONE = { width: 390, height: 844 };
const argument = (name) => {
  const index = process.argv.indexOf(name);
  return index < 0 ? undefined : process.argv[index + 1];
};
const only = argument("--only");
const shots = argument("--shots");
if (shots) mkdirSync(shots, { recursive: true });
const dist = argument("--dist");

const host = await new TestHost().start();
// Chromium does not know that a page answered by `serveBuild` came from this machine.
const browser = await launch(dist ? ["--disable-features=LocalNetworkAccessChecks"] : []);
const problems = [];
/** Notices at the edge of pages, which are gone when a scenario has failed. */
const seen = [];

/** A browser of its own, signed in. */
async function device(viewport, link = host.link(), options = {}) {
  const context = await browser.newContext({ viewport, ...options });
  if (dist) await serveBuild(context, host.url, dist);
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  problems.push(watch(page, host.url));
  await page.exposeFunction("noticeShown", (text) => seen.push(text));
  await page.addInitScript(() => {
    new MutationObserver((changes) => {
      for (const { addedNodes } of changes) {
        for (const node of addedNodes) if (node.classList?.contains("notice")) window.noticeShown(node.textContent);
      }
    }).observe(document, { childList: true, subtree: true });
  });
  await page.goto(link);
  return page;
}

async function open(page, hash) {
  await page.evaluate((to) => (location.hash = to), hash);
}

/** Starts a session through the form, and returns its address. */
async function newSession(page, text, directory) {
  await open(page, "#/new");
  if (directory) await page.getByLabel("Directory on the host").fill(directory);
  await page.getByLabel("First message").fill(text);
  await page.getByRole("button", { name: "Start session" }).click();
  await page.locator(".said", { hasText: text.slice(0, 40) }).first().waitFor();
  return page.evaluate(() => location.hash);
}

async function say(page, text) {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.keyboard.press("Enter");
}

const idle = (page) => page.locator(".turn.active").waitFor({ state: "detached" });
const phoneList = (page) => open(page, "#/");

let desktop;
let phone;

const scenarios = {
  "a link signs in once, and every other page says what to do": async () => {
    const link = host.link();
    desktop = await device(DESKTOP, link);
    await desktop.getByRole("heading", { name: "Welcome to Innkeeper" }).waitFor();
    assert.equal(new URL(desktop.url()).hash, "", "the code is not kept in the history");
    const late = await device(DESKTOP, link);
    await late.getByRole("heading", { name: "This link has been used" }).waitFor();
    const stranger = await device(DESKTOP, host.url);
    await stranger.getByRole("heading", { name: "Sign in with a link" }).waitFor();
    await late.context().close();
    await stranger.context().close();
    await desktop.reload();
    await desktop.getByRole("heading", { name: "Welcome to Innkeeper" }).waitFor();
    phone = await device(PHONE, host.run("pair", "--drive").trim().split("\n").at(-1), { hasTouch: true });
    await phone.getByText("No sessions yet.").waitFor();
  },

  "two devices follow one session as it streams": async () => {
    await newSession(desktop, "/stream 60 20 24");
    await phone.getByRole("link", { name: /\/stream 60/ }).click();
    await phone.locator(".turn .markdown").first().waitFor();
    await idle(desktop);
    await idle(phone);
    const text = (page) => page.locator(".turn .markdown").first().innerText();
    const whole = await text(desktop);
    assert.ok(whole.length > 600, whole);
    assert.equal(await text(phone), whole);
    await assertConverged(phone);
  },

  "reasoning and tool calls are folded, with their content inside": async () => {
    await newSession(desktop, "/reason The guest likes tea");
    const thought = desktop.locator(".reasoning").first();
    await thought.waitFor();
    assert.equal(await thought.evaluate((element) => element.open), false);
    await thought.locator("summary").click();
    await thought.getByText("The guest likes tea").waitFor();
    await idle(desktop);
    await say(desktop, "/tool");
    const tool = desktop.locator(".tool").first();
    await tool.waitFor();
    await idle(desktop);
    await tool.locator("> summary").click();
    await tool.locator(".output, .input").first().waitFor();
  },

  "an approval is decided on the phone, from the waiting list": async () => {
    const session = await newSession(desktop, "/confirm");
    const card = desktop.getByRole("region", { name: "Approval needed" });
    await card.waitFor();
    const labels = await card.locator(".options button").allInnerTexts();
    assert.ok(labels.some((label) => label.includes("in this session")), labels.join());
    assert.ok(labels.some((label) => label.includes("in this workspace")), labels.join());
    await card.getByText("Low risk").waitFor();
    assert.match(await desktop.title(), /^\(1\)/);
    await phoneList(phone);
    await phone.getByRole("link", { name: "1 waiting for you" }).click();
    await phone.getByRole("button", { name: "Allow once" }).click();
    await phone.getByText("Nothing waits for you").waitFor();
    await card.waitFor({ state: "detached" });
    await idle(desktop);
    assert.equal(await desktop.evaluate(() => location.hash), session);
    assert.equal(await desktop.title(), "Innkeeper");
  },

  "an input is edited, and a denial has a reason": async () => {
    await newSession(desktop, "/confirm");
    await desktop.getByRole("button", { name: "Edit the input" }).click();
    await desktop.getByLabel("Input of the tool").fill('{"times":7}');
    await desktop.getByRole("button", { name: "Allow once" }).click();
    await idle(desktop);
    await desktop.locator(".tool > summary").first().click();
    await desktop.locator(".tool .input", { hasText: "7" }).waitFor();
    await say(desktop, "/confirm");
    await desktop.getByRole("button", { name: "Deny with a reason…" }).click();
    await desktop.getByLabel("Reason for the denial").fill("It is night.");
    await desktop.locator(".with-button .danger").click();
    await idle(desktop);
    await desktop.locator('.tool[data-state="cancelled"] > summary').click();
    await desktop.locator(".tool-body", { hasText: "It is night." }).waitFor();
  },

  "a change of a file is shown before it is allowed": async () => {
    await newSession(desktop, "/edit notes.md The first line");
    const diff = desktop.locator(".diff").first();
    await diff.locator('[data-kind="added"]', { hasText: "The first line" }).waitFor();
    await desktop.getByRole("button", { name: "Allow once" }).click();
    await idle(desktop);
    await desktop.locator(".tool > summary").first().click();
    await desktop.locator(".tool .diff", { hasText: "notes.md" }).waitFor();
  },

  "changes are reviewed on two devices, discarded, brought back and committed": async () => {
    await newSession(desktop, "/edit guests.txt Alan", host.project);
    await desktop.getByRole("button", { name: "Allow once" }).click();
    await idle(desktop);
    writeFileSync(join(host.project, "notes.md"), "of another program\n");
    await desktop.locator(".turn-foot").getByRole("link", { name: "Changes" }).click();
    const files = (page) => page.getByRole("list", { name: "Changed files" }).locator("> li");
    await files(desktop).filter({ hasText: "guests.txt" }).locator("summary").click();
    await desktop.locator('.diff [data-kind="added"]', { hasText: "Alan" }).waitFor();
    const views = desktop.getByLabel("View", { exact: true });
    await views.selectOption({ label: "Uncommitted changes" });
    await files(desktop).filter({ hasText: "notes.md" }).waitFor();
    await assertAccessible(desktop, "changes");

    const address = await desktop.evaluate(() => location.hash);
    await open(phone, address);
    await phone.getByLabel("View", { exact: true }).selectOption({ label: "Uncommitted changes" });
    await desktop.getByLabel("Reviewed: ", { exact: false }).first().check();
    await phone.getByText("1 of 2 reviewed").waitFor();

    const notes = files(desktop).filter({ hasText: "notes.md" });
    await notes.getByRole("button", { name: /Discard/ }).click();
    await desktop.locator("dialog[open]").getByRole("button", { name: /Discard/ }).click();
    await notes.waitFor({ state: "detached" });
    assert.equal(existsSync(join(host.project, "notes.md")), false);
    assert.match(readFileSync(join(host.project, "guests.txt"), "utf8"), /Alan/, "the other file stays");
    await phone.getByRole("button", { name: /Undo/ }).click();
    await phone.locator("dialog[open]").getByRole("button", { name: /Undo/ }).click({ timeout: 2000 }).catch(() => {});
    await notes.waitFor();
    await desktop.getByRole("button", { name: /^Commit/ }).click();
    await desktop.getByLabel(/^Message \(empty/).fill("Welcome Alan");
    await desktop.locator("dialog[open]").getByRole("button", { name: /^Commit/ }).click();
    await desktop.getByText("Nothing differs.").waitFor();
    const log = execFileSync("git", ["-C", host.project, "log", "-1", "--format=%s"], { encoding: "utf8" });
    assert.equal(log.trim(), "Welcome Alan");
    await open(phone, "#/");
    await open(desktop, "#/");
  },

  "questions of every kind are checked and answered": async () => {
    await newSession(desktop, "/ask");
    const form = desktop.getByRole("region", { name: "Question" });
    await form.getByRole("button", { name: "Send answers" }).click();
    await form.getByText("This answer is required.").first().waitFor();
    await form.getByLabel("What is your name?").fill("Ada");
    await form.getByLabel(/How long must the bed be/).fill("two");
    await form.getByText("Enter a number.").waitFor();
    await form.getByLabel(/How long must the bed be/).fill("1.9");
    await form.getByLabel(/How many nights/).fill("1.5");
    await form.getByText("Enter a whole number.").waitFor();
    await form.getByLabel(/How many nights/).fill("2");
    await form.getByRole("radio", { name: "No" }).check();
    await form.getByRole("radio", { name: "Garden" }).check();
    await form.getByRole("checkbox", { name: "Supper" }).check();
    await form.getByRole("button", { name: "Send answers" }).click();
    await form.waitFor({ state: "detached" });
    await idle(desktop);
    await desktop.locator(".turn", { hasText: "Ada" }).first().waitFor();
  },

  "messages are queued, steered and removed, and a turn is stopped": async () => {
    await newSession(desktop, "/slow 60");
    await desktop.getByRole("button", { name: "Stop" }).waitFor();
    await say(desktop, "second message");
    await say(desktop, "third message");
    await desktop.locator(".pending li", { hasText: "third message" }).getByLabel("Remove this message").click();
    await desktop.locator(".pending li", { hasText: "third message" }).waitFor({ state: "detached" });
    await desktop.getByRole("button", { name: "Stop" }).click();
    await desktop.getByText("Stopped.").waitFor();
    await desktop.getByRole("button", { name: "Send now" }).click();
    await desktop.locator(".said", { hasText: "second message" }).waitFor();
    await idle(desktop);
    await say(desktop, "/steer 20");
    await desktop.getByRole("button", { name: "Stop" }).waitFor();
    await desktop.getByLabel("Message", { exact: true }).fill("turn left");
    await desktop.getByRole("button", { name: "Steer" }).click();
    await desktop.locator(".turn.active .response", { hasText: "turn left" }).waitFor();
    await desktop.getByRole("button", { name: "Stop" }).click();
    await idle(desktop);
  },

  "a draft is on all devices, and survives a reload": async () => {
    const session = await newSession(desktop, "hello");
    await idle(desktop);
    await open(phone, session);
    await phone.getByLabel("Message", { exact: true }).waitFor();
    await desktop.getByLabel("Message", { exact: true }).fill("half a thought");
    await phone.waitForFunction(() => document.querySelector("#composer").value === "half a thought");
    await desktop.reload();
    await desktop.waitForFunction(() => document.querySelector("#composer")?.value === "half a thought");
    await desktop.getByLabel("Message", { exact: true }).fill("");
    await phone.waitForFunction(() => document.querySelector("#composer").value === "");
  },

  "sessions are searched, renamed, archived, deleted and brought back": async () => {
    await newSession(desktop, "to be renamed");
    await idle(desktop);
    const menu = async (name) => {
      await desktop.getByRole("button", { name: "Session actions" }).click();
      await desktop.getByRole("menuitem", { name }).click();
    };
    await menu("Rename");
    await desktop.getByLabel("Title").fill("Quarterly report");
    await desktop.getByRole("button", { name: "Rename", exact: true }).click();
    await desktop.getByRole("heading", { name: "Quarterly report" }).waitFor();
    await phoneList(phone);
    await phone.getByRole("link", { name: /Quarterly report/ }).waitFor();
    await desktop.keyboard.press("Control+k");
    await desktop.keyboard.type("quarterly");
    await desktop.waitForFunction(() => document.querySelectorAll(".session").length === 1);
    await desktop.keyboard.press("Escape");
    await menu("Archive");
    await phone.getByRole("link", { name: /Quarterly report/ }).waitFor({ state: "detached" });
    await desktop.getByRole("button", { name: "Undo" }).click();
    await phone.getByRole("link", { name: /Quarterly report/ }).waitFor();
    await menu("Delete");
    await phone.getByRole("link", { name: /Quarterly report/ }).waitFor({ state: "detached" });
    await desktop.getByText("Session deleted").waitFor();
    await desktop.locator(".notice", { hasText: "Session deleted" }).getByRole("button", { name: "Undo" }).click();
    await desktop.getByRole("heading", { name: "Quarterly report" }).waitFor();
  },

  "subagents are a tree, and the deepest is decided from the waiting list": async () => {
    await newSession(desktop, "/subagent 2");
    await desktop.locator(".chats a").nth(2).waitFor();
    await phoneList(phone);
    await phone.getByRole("link", { name: /waiting for you/ }).click();
    await phone.getByRole("button", { name: "Allow once" }).first().click();
    await phone.getByText("Nothing waits for you").waitFor();
    await idle(desktop);
    await desktop.locator(".chats a").nth(1).click();
    await desktop.getByText("An agent works in this chat").or(desktop.locator("#composer")).first().waitFor();
  },

  "foreign text never becomes code": async () => {
    const attack = "<img src=x onerror=window.pwned=1><script>window.pwned=1</script>[x](javascript:window.pwned=1)";
    await newSession(desktop, attack);
    await idle(desktop);
    await desktop.getByRole("button", { name: "Session actions" }).click();
    await desktop.getByRole("menuitem", { name: "Rename" }).click();
    await desktop.getByLabel("Title").fill(attack);
    await desktop.getByRole("button", { name: "Rename", exact: true }).click();
    await desktop.locator("h1", { hasText: "onerror" }).waitFor();
    await say(desktop, "/edit <img_src=x_onerror=window.pwned=1>.md <script>window.pwned=1</script>");
    await desktop.locator(".waits .diff").waitFor();
    await desktop.getByRole("button", { name: "Allow once" }).click();
    await idle(desktop);
    await desktop.locator(".tool > summary").last().click();
    const harmful = await desktop.evaluate(() => [
      window.pwned,
      document.querySelectorAll(".turns script, .turns [onerror], h1 img, nav img[onerror]").length,
      [...document.querySelectorAll("a")].filter((link) => link.protocol === "javascript:").length,
    ]);
    assert.deepEqual(harmful, [undefined, 0, 0]);
  },

  "a device that may only look changes nothing": async () => {
    const viewer = await device(PHONE, host.run("pair", "--view").trim().split("\n").at(-1));
    await viewer.locator(".session").first().waitFor();
    assert.equal(await viewer.getByRole("link", { name: "New session" }).count(), 0);
    await viewer.locator(".session a").first().click();
    await viewer.getByText("This browser may only look.").waitFor();
    assert.equal(await viewer.locator("#composer").count(), 0);
    await viewer.context().close();
  },

  "a revoked device is told so": async () => {
    const guest = await device(DESKTOP, host.run("pair", "--days", "1").trim().split("\n").at(-1));
    await guest.locator(".session").first().waitFor();
    const before = host.run("devices", "--json").trim().split("\n").map((line) => JSON.parse(line));
    const newest = before.sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1))[0];
    host.run("devices", "revoke", newest.id);
    await guest.getByRole("heading", { name: "Sign in with a link" }).waitFor();
    await guest.context().close();
  },

  "everything can be done with the keyboard": async () => {
    await open(desktop, "#/");
    await desktop.locator("body").press("n");
    await desktop.getByRole("heading", { name: "New session" }).waitFor();
    await desktop.getByLabel("First message").focus();
    await desktop.keyboard.type("by keyboard");
    await desktop.keyboard.press("Control+Enter");
    await desktop.locator(".said", { hasText: "by keyboard" }).waitFor();
    await idle(desktop);
    await desktop.locator("#main").press("i");
    await desktop.keyboard.type("/he");
    await desktop.getByRole("option").first().waitFor();
    await desktop.keyboard.press("Tab");
    await desktop.waitForFunction(() => document.querySelector("#composer").value.startsWith("/help"));
    await desktop.keyboard.press("Enter");
    await desktop.locator(".turn", { hasText: "lists these commands" }).waitFor();
    await desktop.keyboard.press("Escape");
    const before = await desktop.evaluate(() => location.hash);
    await desktop.keyboard.press("j");
    await desktop.waitForFunction((hash) => location.hash !== hash, before);
  },

  "axe finds nothing serious, in light and dark": async () => {
    await newSession(desktop, "/confirm");
    await desktop.getByRole("region", { name: "Approval needed" }).waitFor();
    for (const colorScheme of ["light", "dark"]) {
      await desktop.emulateMedia({ colorScheme });
      await assertAccessible(desktop, `chat, ${colorScheme}`);
    }
    await open(desktop, "#/waiting");
    await desktop.getByRole("button", { name: "Allow once" }).waitFor();
    await assertAccessible(desktop, "waiting list");
    await open(desktop, "#/new");
    await desktop.getByRole("heading", { name: "New session" }).waitFor();
    await assertAccessible(desktop, "new session");
    await desktop.emulateMedia({ colorScheme: "light" });
    await phoneList(phone);
    await assertAccessible(phone, "list on a phone");
    await open(desktop, "#/waiting");
    await desktop.getByRole("button", { name: "Deny", exact: true }).click();
    await desktop.getByText("Nothing waits for you").waitFor();
  },

  "a host that is killed in the middle of a turn loses nothing": async () => {
    await newSession(desktop, "/stream 400 50 10");
    await desktop.locator(".turn.active .markdown").waitFor();
    await desktop.getByLabel("Message", { exact: true }).fill("typed while it is away");
    await host.kill();
    await desktop.getByText("No connection to the host").waitFor();
    await desktop.getByLabel("Message", { exact: true }).fill("typed while it is away, and more");
    await host.start();
    await desktop.getByText("No connection to the host").waitFor({ state: "detached" });
    await desktop.getByText("The turn ended with an error").waitFor();
    assert.equal(await desktop.locator("#composer").inputValue(), "typed while it is away, and more");
    await desktop.getByRole("button", { name: "Continue" }).click();
    await desktop.getByText("Picking up where we left off").waitFor();
    await idle(desktop);
    await desktop.getByLabel("Message", { exact: true }).press("Enter");
    await desktop.locator(".said", { hasText: "typed while it is away, and more" }).waitFor();
    await idle(desktop);
  },
};

let failed = 0;
const begun = Date.now();
try {
  for (const [name, run] of Object.entries(scenarios)) {
    // The first scenario opens the devices that the others use.
    if (only && !name.includes(only) && desktop) continue;
    const started = Date.now();
    try {
      await run();
      for (const page of [desktop, phone]) await assertConverged(page);
      const found = problems.flat();
      assert.deepEqual(found, []);
      seen.splice(0);
      console.log(`ok    ${((Date.now() - started) / 1000).toFixed(1)} s  ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL  ${name}\n${error.stack}`);
      for (const notice of seen.splice(0)) console.log(`      notice: ${notice}`);
      if (shots) await desktop?.screenshot({ path: `${shots}/failed-${failed}.png` });
      if (shots) await phone?.screenshot({ path: `${shots}/failed-${failed}-phone.png` });
      problems.forEach((list) => list.splice(0));
      await open(desktop, "#/").catch(() => {});
    }
  }
} finally {
  await browser.close();
  await host.stop();
}
console.log(`${Object.keys(scenarios).length} scenarios, ${failed} failed, ${((Date.now() - begun) / 1000).toFixed(1)} s`);
process.exit(failed === 0 ? 0 : 1);
