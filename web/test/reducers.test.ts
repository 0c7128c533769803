// The reducers make the same states of the same actions as the published reducers. The test kit writes the cases:
//   cargo run -p innkeeper-testkit --example reducer_cases -- target/web/reducer-cases.jsonl

import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { reduce } from "../src/ahp/reduce";
import type { SnapshotState, StateAction } from "../src/ahp/types.gen";

interface Case {
  before: SnapshotState;
  actions: StateAction[];
  after: SnapshotState;
}

const FILE = process.env.REDUCER_CASES ?? new URL("../../target/web/reducer-cases.jsonl", import.meta.url).pathname;

function cases(): Case[] {
  if (!existsSync(FILE)) throw new Error(`${FILE} is missing; the comment above says how to write it`);
  return readFileSync(FILE, "utf8").trimEnd().split("\n").map((line) => JSON.parse(line) as Case);
}

/** The state as JSON, in which absent members and undefined ones are the same. */
function plain(state: SnapshotState): unknown {
  return JSON.parse(JSON.stringify(state));
}

function frozen<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(frozen);
  }
  return value;
}

test("reducers agree with the published reducers in thousands of cases", () => {
  const all = cases();
  expect(all.length).toBeGreaterThan(3000);
  const types = new Set<string>();
  for (const { before, actions, after } of all) {
    // A frozen state throws when a reducer writes to it.
    const reduced = actions.reduce((state, action) => {
      types.add(action.type);
      return frozen(reduce(state, frozen(action)));
    }, frozen(before));
    expect(plain(reduced), JSON.stringify({ before, actions })).toEqual(after);
  }
  expect(types.size).toBeGreaterThan(94);
}, 120_000);

test("an action that changes nothing returns the same state", () => {
  const chat = { resource: "ahp-chat:/c", title: "", status: 1, modifiedAt: "", turns: [] };
  expect(reduce(chat, { type: "chat/delta", turnId: "none", partId: "p", content: "x" })).toBe(chat);
  expect(reduce(chat, { type: "newer/action" } as unknown as StateAction)).toBe(chat);
});

test("a delta shares everything but the part it changes", () => {
  const part = (id: string) => ({ kind: "markdown" as const, id, content: "a" });
  const message = { text: "", origin: { kind: "user" as const } };
  const activeTurn = { id: "t", startedAt: "", message, responseParts: [part("p"), part("q")] };
  const chat = { resource: "ahp-chat:/c", title: "", status: 8, modifiedAt: "", turns: [], activeTurn };
  const next = reduce(chat, { type: "chat/delta", turnId: "t", partId: "q", content: "b" });
  expect(next.turns).toBe(chat.turns);
  expect(next.activeTurn.responseParts[0]).toBe(activeTurn.responseParts[0]);
  expect(next.activeTurn.responseParts[1]).toEqual({ kind: "markdown", id: "q", content: "ab" });
});
