// The list of sessions follows notifications, and what comes while the list is read is not lost.

import { expect, test, vi } from "vitest";
import { Catalog } from "../src/ahp/catalog";
import type { AhpClient, ClientListener } from "../src/ahp/client";
import type { SessionSummary } from "../src/ahp/types.gen";

const summary = (resource: string, title: string): SessionSummary => ({
  resource,
  title,
  provider: "tour",
  status: 1,
  createdAt: "2026-01-01T00:00:00Z",
  modifiedAt: "2026-01-01T00:00:00Z",
});

function catalogWith(pages: Promise<unknown>[]) {
  let listener: ClientListener = {};
  const request = vi.fn(() => pages.shift());
  const client = { listen: (added: ClientListener) => (listener = added), request } as unknown as AhpClient;
  const catalog = new Catalog(client, () => undefined);
  const titles = () => catalog.all().map((session) => session.title).sort();
  return { catalog, titles, request, notify: (method: string, params: unknown) => listener.notification?.(method, params), resync: () => listener.resynced?.() };
}

test("all pages are read, and notifications change the list", async () => {
  const { titles, notify, resync, request } = catalogWith([
    Promise.resolve({ items: [summary("a", "A")], nextCursor: "next" }),
    Promise.resolve({ items: [summary("b", "B")] }),
  ]);
  resync();
  await vi.waitFor(() => expect(titles()).toEqual(["A", "B"]));
  expect(request).toHaveBeenLastCalledWith("listSessions", expect.objectContaining({ cursor: "next" }));
  notify("root/sessionAdded", { summary: summary("c", "C") });
  notify("root/sessionSummaryChanged", { session: "a", changes: { title: "A2", resource: "x" } });
  notify("root/sessionRemoved", { session: "b" });
  expect(titles()).toEqual(["A2", "C"]);
});

test("a session that is added while the list is read stays", async () => {
  let answer: (value: unknown) => void = () => undefined;
  const { titles, notify, resync, catalog } = catalogWith([new Promise((resolve) => (answer = resolve))]);
  resync();
  notify("root/sessionAdded", { summary: summary("new", "New") });
  answer({ items: [summary("a", "A")] });
  await vi.waitFor(() => expect(catalog.loaded).toBe(true));
  expect(titles()).toEqual(["A", "New"]);
});
