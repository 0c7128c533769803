// Checks that hold after every scenario.

import assert from "node:assert/strict";

/**
 * Compares every channel of a page with a fresh snapshot, which a second client of the same browser reads. Messages may
 * be on their way, so the comparison is repeated until it holds or the time is over.
 */
export async function assertConverged(page) {
  let difference;
  for (let attempt = 0; attempt < 40; attempt += 1) {
    difference = await page.evaluate(compare);
    if (difference === undefined) return;
    await page.waitForTimeout(150);
  }
  assert.fail(`the mirror differs from a fresh snapshot: ${difference}`);
}

/** Runs in the page. Returns the first difference, or undefined. */
async function compare() {
  const { client } = window.innkeeper;
  const uris = client.mirror.uris();
  const socket = new WebSocket(`ws://${location.host}/`);
  await new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = () => reject(new Error("no connection"));
  });
  const params = {
    channel: "ahp-root://",
    protocolVersions: ["1.0.0"],
    clientId: `check-${crypto.randomUUID()}`,
    initialSubscriptions: uris,
  };
  const answer = await new Promise((resolve) => {
    socket.onmessage = (event) => resolve(JSON.parse(event.data));
    socket.send(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params }));
  });
  socket.close();
  const fresh = new Map(answer.result.snapshots.map((snapshot) => [snapshot.resource, snapshot.state]));
  for (const uri of uris) {
    const [mine, host] = [normal(client.mirror.confirmed(uri)), normal(fresh.get(uri))];
    // A chat is opened with its latest turns.
    if (mine.turns) host.turns = host.turns.slice(host.turns.length - mine.turns.length);
    const [left, right] = [text(mine), text(host)];
    if (left !== right) {
      const at = [...left].findIndex((character, index) => character !== right[index]);
      return `${uri}\nmine: …${left.slice(Math.max(0, at - 200), at + 200)}\nhost: …${right.slice(Math.max(0, at - 200), at + 200)}`;
    }
  }
  return undefined;

  /** Removes the members that no action of the channel carries: a chat's title and changes, a session's activity. */
  function normal(state) {
    const copy = JSON.parse(JSON.stringify(state ?? {}));
    if (copy.turns) {
      delete copy.title;
      delete copy.changes;
      delete copy.turnsNextCursor;
    }
    if (copy.lifecycle && copy.chats) {
      delete copy.activity;
      copy.status &= ~31;
    }
    return withoutPurposes(copy);
  }

  /** The published types have no `_meta` for questions, so the host sends it with the action and forgets it. */
  function withoutPurposes(value) {
    if (typeof value !== "object" || value === null) return value;
    if ((value.kind === "inputRequest" || value.kind === "chatInput") && value.request) delete value.request._meta;
    Object.values(value).forEach(withoutPurposes);
    return value;
  }

  function text(value) {
    return JSON.stringify(value, (_, member) =>
      member && typeof member === "object" && !Array.isArray(member)
        ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
        : member,
    );
  }
}

/** Watches a page for everything that must never happen. */
export function watch(page, origin) {
  const problems = [];
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("request", (request) => {
    const url = request.url();
    const own = url.startsWith(origin) || url.startsWith(origin.replace("http", "ws"));
    if (!own && !url.startsWith("data:") && !url.startsWith("blob:")) problems.push(`request to ${url}`);
  });
  page.on("console", (message) => {
    const text = message.text();
    if (text.includes("Content Security Policy")) problems.push(`policy: ${text}`);
    // A connection that is refused while the host is down, and a browser that is not signed in, are part of scenarios.
    const expected = /WebSocket connection|ERR_CONNECTION_REFUSED|status of 401/.test(text);
    if (message.type() === "error" && !expected) problems.push(`console: ${text}`);
  });
  return problems;
}

/** Lets axe look for serious problems of accessibility. */
export async function assertAccessible(page, where) {
  const { AxeBuilder } = await import("@axe-core/playwright");
  const { violations } = await new AxeBuilder({ page }).analyze();
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const shown = serious.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html.slice(0, 140)} ${node.failureSummary}`).join("\n  ")}`);
  assert.deepEqual(shown, [], where);
}
